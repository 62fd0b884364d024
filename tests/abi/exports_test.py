#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the exports of the forwarders with the installed libibverbs and with the list of a newer version.

  exports_test.py --dropin FILE --preload FILE --ibverbs FILE --installed FILE --newer LIST
               --efa FILE --installed-efa FILE --rdmacm FILE --installed-rdmacm FILE --newer-rdmacm LIST
               --file-calls SOURCE --libc FILE

The drop-in must have every name in every version node of the installed library, and every public name and node of the
newer version. The two other libraries must have every public name of both, without versions. The preload library may omit
functions that need no device. Each comparison is repeated with a list that has one additional symbol and must then fail.
"""
import argparse
import pathlib
import re
import subprocess
import sys

# Functions that need no device: the preload library leaves them to the real library.
WITHOUT_DEVICE = {
    "ibv_copy_ah_attr_from_kern", "ibv_copy_path_rec_from_kern", "ibv_copy_path_rec_to_kern",
    "ibv_copy_qp_attr_from_kern", "ibv_dofork_range", "ibv_dontfork_range", "ibv_event_type_str", "ibv_fork_init",
    "ibv_get_sysfs_path", "ibv_is_fork_initialized", "ibv_node_type_str", "ibv_port_state_str", "ibv_rate_to_mbps",
    "ibv_rate_to_mult", "ibv_read_sysfs_file", "ibv_wc_status_str", "mbps_to_ibv_rate", "mult_to_ibv_rate",
}
# A function for drivers of 2006. It is not in verbs.h, and the real library does not support it.
FOR_OLD_DRIVERS = {"ibv_register_driver"}
PRIVATE_FUNCTIONS_THAT_PROGRAMS_CALL = {"ibv_query_gid_type"}


def exports(library):
    """Returns (name, version node, is default) of each symbol of the library; the node is '' if there is no version."""
    table = subprocess.run(["readelf", "--dyn-syms", "-W", library], check=True, capture_output=True, text=True).stdout
    found = set()
    for line in table.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[6] in ("UND", "ABS", "Ndx") or fields[4] not in ("GLOBAL", "WEAK"):
            continue
        match = re.fullmatch(r"([^@]+)(@@?)?(.*)", fields[7])
        found.add((match.group(1), match.group(3), match.group(2) != "@"))
    return found


def newer_list(path):
    """Returns (name, version node) of the newer library; the node of private symbols is PRIVATE."""
    lines = [line for line in pathlib.Path(path).read_text().splitlines() if line and not line.startswith("#")]
    return {tuple(line.split("@")) for line in lines}


def is_private(node):
    return "PRIVATE" in node


def missing_from_dropin(dropin, installed, newer):
    has = exports(dropin)
    private_names = {name for name, node, _ in has if is_private(node)}
    by_node = {(name, node) for name, node, _ in has}
    problems = [f"{name}{'@@' if default else '@'}{node} of the installed library"
                for name, node, default in sorted(installed - has)]
    for name, node in sorted(newer):
        if (name not in private_names) if is_private(node) else ((name, node) not in by_node):
            problems.append(f"{name}@{node} of the newer library")
    return problems


def missing_without_versions(library, installed, newer, leaves):
    names = {name for name, _, _ in exports(library)}
    wanted = {(name, node) for name, node, _ in installed} | newer
    return [f"{name} ({node})" for name, node in sorted(wanted)
            if name not in names | leaves and (not is_private(node) or name in PRIVATE_FUNCTIONS_THAT_PROGRAMS_CALL)]


def check_rdmacm(options):
    """Checks that the drop-in librdmacm has both lists with their nodes, and the two other libraries have all its names."""
    installed, newer = exports(options.installed_rdmacm), newer_list(options.newer_rdmacm)
    assert len(installed) > 60 and len(newer) > 60, "the lists to compare with are not complete"
    problems = [f"the drop-in librdmacm does not export {symbol}"
                for symbol in missing_from_dropin(options.rdmacm, installed, newer)]
    names = {name for name, node, _ in exports(options.rdmacm) if node.startswith("RDMACM_")}
    for library in (options.preload, options.ibverbs):
        problems += [f"{library} does not export {name}"
                     for name in sorted(names - {name for name, _, _ in exports(library)})]
    for kind, one, other in [("a version", {("rdma_connect", "RDMACM_1.3", True)}, set()),
                             ("a node of the newer library", set(), {("rdma_connect", "RDMACM_1.4")})]:
        if not missing_from_dropin(options.rdmacm, one, other):
            problems.append(f"the comparison of the drop-in librdmacm does not notice that {kind} is missing")
    return problems


def check_file_calls(options):
    """Checks that the drop-in and the preload library define the functions of file_calls.inc, and no other function of
    the C library. Without a version, they satisfy every reference."""
    source = pathlib.Path(options.file_calls).read_text()
    wanted = set(re.findall(r"^(?:CALL|END)\((\w+)", source, re.MULTILINE))
    assert len(wanted) > 40, "the list of the source is not complete"
    unversioned = {name for name, node, _ in exports(options.dropin) if node == ""}
    problems = [f"the drop-in does not export {name} without a version" for name in sorted(wanted - unversioned)]
    problems += [f"the drop-in exports {name} without a version" for name in sorted(unversioned - wanted)]
    of_libc = {name for name, _, _ in exports(options.libc)}
    for library in (options.preload, options.dropin):
        own = {name for name, _, _ in exports(library)}
        problems += [f"{library} does not export {name}" for name in sorted(wanted - own)]
        problems += [f"{library} replaces {name} of the C library" for name in sorted((own & of_libc) - wanted)]
    problems += [f"{options.ibverbs} replaces {name} of the C library"
                 for name in sorted({name for name, _, _ in exports(options.ibverbs)} & of_libc)]
    return problems


def main(arguments):
    parser = argparse.ArgumentParser()
    for option in ("--dropin", "--preload", "--ibverbs", "--installed", "--newer", "--efa", "--installed-efa",
                   "--rdmacm", "--installed-rdmacm", "--newer-rdmacm", "--file-calls", "--libc"):
        parser.add_argument(option, required=True)
    options = parser.parse_args(arguments)
    installed, newer = exports(options.installed), newer_list(options.newer)
    assert len(installed) > 150 and len(newer) > 150, "the lists to compare with are not complete"
    libraries = [
        ("the drop-in", lambda one, other: missing_from_dropin(options.dropin, one, other)),
        ("the preload library", lambda one, other: missing_without_versions(
            options.preload, one, other, WITHOUT_DEVICE | FOR_OLD_DRIVERS)),
        ("verbena::ibverbs", lambda one, other: missing_without_versions(
            options.ibverbs, one, other, FOR_OLD_DRIVERS)),
    ]
    failed = False
    for what, missing in libraries:
        for symbol in missing(installed, newer):
            print(f"{what} does not export {symbol}")
            failed = True
        doctored = [
            ("a symbol of the installed library", installed | {("ibv_not_there", "IBVERBS_1.1", True)}, newer),
            ("a symbol of the newer library", installed, newer | {("ibv_not_there", "IBVERBS_1.16")}),
        ]
        for kind, one, other in doctored:
            if not any("ibv_not_there" in symbol for symbol in missing(one, other)):
                print(f"the comparison of {what} does not notice that {kind} is missing")
                failed = True
    of_efa = exports(options.installed_efa)
    assert len(of_efa) > 5, "libefa has more functions"
    for name, node, _ in sorted(of_efa - exports(options.efa)):
        print(f"the drop-in libefa does not export {name}@@{node} of the installed library")
        failed = True
    for library in (options.preload, options.ibverbs):
        for name in sorted({name for name, _, _ in exports(options.efa) if name.startswith("efadv_")}
                           - {name for name, _, _ in exports(library)}):
            print(f"{library} does not export {name}")
            failed = True
    for problem in check_rdmacm(options) + check_file_calls(options):
        print(problem)
        failed = True
    nodes = [("a version", {("ibv_open_device", "IBVERBS_1.7", True)}, set()),
             ("an old version", {("ibv_open_device", "IBVERBS_1.1", False)}, set()),
             ("a node of the newer library", set(), {("ibv_alloc_buf", "IBVERBS_1.18")}),
             ("a private symbol", {("ibv_cmd_not_there", "IBVERBS_PRIVATE_34", True)}, set())]
    for kind, one, other in nodes:
        if not missing_from_dropin(options.dropin, one, other):
            print(f"the comparison of the drop-in does not notice that {kind} is missing")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
