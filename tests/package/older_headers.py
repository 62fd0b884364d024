#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes headers of an older rdma-core: copies installed headers, and removes what later versions introduced.

The list has the names of verbs.h, rdma_cma.h, efadv.h and the kernel's headers, with the version that introduced each.
Functions are listed as in rdma-core's symbol files (debian/*.symbols); the other names were found by comparing releases,
so a name may be one or a few versions older than its entry says. Headers made for version N therefore have at most the
names of N.
"""
import argparse
import pathlib
import re
import shutil

FILES = ("infiniband/verbs.h", "infiniband/efadv.h", "infiniband/ib_user_ioctl_verbs.h", "rdma/rdma_cma.h")

# version: names. A name ending in "{}" is a structure or enumeration with its members.
INTRODUCED = {
    56: "IBV_PORT_LINK_SPEED_XDR_SUP active_speed_ex IBV_WC_FLUSH IBV_ACCESS_FLUSH_GLOBAL IBV_ACCESS_FLUSH_PERSISTENT "
        "IBV_QP_EX_WITH_FLUSH ibv_query_qp_data_in_order_flags{} ibv_query_qp_data_in_order_caps{} IBV_WR_FLUSH "
        "ibv_wr_opcode_str ibv_placement_type{} ibv_selectivity_level{} ibv_wr_flush wr_flush efadv_wc_is_unsolicited "
        "wc_is_unsolicited EFADV_DEVICE_ATTR_CAPS_RDMA_WRITE EFADV_DEVICE_ATTR_CAPS_UNSOLICITED_WRITE_RECV "
        "EFADV_WC_EX_WITH_IS_UNSOLICITED",
    44: "IBV_WC_ATOMIC_WRITE IBV_QP_EX_WITH_ATOMIC_WRITE IBV_WR_ATOMIC_WRITE ibv_wr_atomic_write wr_atomic_write "
        "IBV_RATE_800_GBPS IBV_RATE_1200_GBPS IBV_PORT_LINK_SPEED_NDR_SUP",
    43: "efadv_wc_read_sgid efadv_cq_from_ibv_cq_ex efadv_create_cq efadv_cq{} efadv_cq_init_attr{} EFADV_WC_EX_WITH_SGID "
        "EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID",
    36: "ibv_query_qp_data_in_order",
    35: "ibv_is_fork_initialized ibv_fork_status{} ibv_import_dm ibv_unimport_dm ibv_dm_mask{} phys_port_cnt_ex "
        "IBV_WC_DRIVER2 IBV_WC_DRIVER3",
    34: "ibv_reg_dmabuf_mr",
    32: "_ibv_query_gid_ex ibv_query_gid_ex _ibv_query_gid_table ibv_query_gid_table ibv_gid_entry{} ibv_gid_type{} "
        "IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT",
    31: "ibv_import_device ibv_import_mr ibv_unimport_mr ibv_import_pd ibv_unimport_pd ibv_query_ece ibv_set_ece ibv_ece{} "
        "rdma_set_local_ece rdma_get_remote_ece rdma_reject_ece EFADV_DEVICE_ATTR_CAPS_RNR_RETRY",
    30: "ibv_get_device_index",
}


def without_block(text, name):
    """Removes `struct NAME {...};`, or an enumeration, or the definition of an inline function."""
    return re.sub(rf"^(?:struct|enum|union) {name} \{{.*?^\}};\n", "", text, flags=re.M | re.S)


def without_enumerator(text, name):
    return re.sub(rf"^[ \t]*{name}[ \t]*(?:=[^,}}\n;]*)?,?[ \t]*(?:/\*[^\n]*\*/)?\n", "", text, flags=re.M)


def without_macro(text, name):
    return re.sub(rf"^#define {name}\b(?:[^\n]*\\\n)*[^\n]*\n", "", text, flags=re.M)


def end_of(text, at):
    """The end of the declaration or inline definition that `at` is inside."""
    depth = 0
    while True:
        character = text[at]
        if character in "({":
            depth += 1
        elif character in ")}":
            depth -= 1
            if depth == 0 and character == "}":
                return at + 1
        elif character == ";" and depth == 0:
            return at + 1
        at += 1


def without_declaration(text, name):
    """Removes declarations of a function or member: from the end of the one before, or of a comment or directive."""
    at = 0
    while found := re.compile(rf"(?<![\w>.])\(?\*?{name}\)?\s*[(;]").search(text, at):
        before = max(text.rfind(mark, 0, found.start()) + len(mark) for mark in (";", "{\n", "}", "*/", "\"C\" {"))
        directive = list(re.finditer(r"^#(?:[^\n]*\\\n)*[^\n]*\n", text[before:found.start()], flags=re.M))
        if directive:
            before += directive[-1].end()
        head = text[before:found.start()]
        if not re.fullmatch(r"[\s\w*()]*", head) or not head.strip() or re.search(r"\breturn\b", head):
            at = found.end()  # a use of the name
            continue
        text = text[:before] + text[end_of(text, found.start()):]
        at = before
    return text


def without(text, name):
    if name.endswith("{}"):
        return without_block(text, name[:-2])
    return without_declaration(without_macro(without_enumerator(text, name), name), name)


def make(source, target, version):
    """Copies the headers of the folder `source` to `target`, as those of rdma-core `version`."""
    for part in ("infiniband", "rdma"):
        shutil.copytree(source / part, target / part)
    for file in FILES:
        path = target / file
        if not path.exists():
            continue
        text = path.read_text()
        for introduced, names in sorted(INTRODUCED.items(), reverse=True):
            for name in names.split() if introduced > version else ():
                text = without(text, name)
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("version", type=int)
    options = parser.parse_args()
    make(options.source, options.target, options.version)


if __name__ == "__main__":
    main()
