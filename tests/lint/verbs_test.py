# SPDX-License-Identifier: MIT
"""scripts/check_verbs.py names the list that lacks a C function, or that describes it differently."""
import unittest

from lint_case import LintCase

FORWARD = "softdev/forward"
FILES = [f"{FORWARD}/{name}.inc" for name in ("functions", "newer", "own", "forwarded", "efa", "rdmacm")]
FILES += ["softdev/shim/supported.inc", "softdev/shim/not_supported.inc", "cmake/linked.cpp.in"]
FILES += [f"include/verbena/sys/{name}_table.hpp" for name in ("verbs", "efa", "cm")]


class Lists(LintCase):
    def check(self, path=None, old="", new=""):
        """Checks a copy of the lists in which one text is replaced."""
        self.copy(*FILES)
        if path:
            text = (self.root / path).read_text()
            self.assertIn(old, text)
            self.write(path, text.replace(old, new))
        return self.run_script("check_verbs.py", "--root", self.root)

    def test_lists_of_the_tree_agree(self):
        self.assert_clean(self.check())

    def test_verb_without_a_line_of_the_device(self):
        self.assert_finds(self.check("softdev/shim/supported.inc", "SUPPORTED(ibv_resize_cq, code)\n", ""),
                          "softdev/shim/supported.inc: ibv_resize_cq is missing: add SUPPORTED(ibv_resize_cq, code)")

    def test_verb_that_is_implemented_and_refused(self):
        self.assert_finds(self.check("softdev/shim/supported.inc", "SUPPORTED(ibv_resize_cq", "SUPPORTED(ibv_set_ece, code)\nSUPPORTED(ibv_resize_cq"),
                          "softdev/shim/not_supported.inc: ibv_set_ece is also in softdev/shim/supported.inc")

    def test_verb_with_another_convention(self):
        self.assert_finds(self.check("softdev/shim/supported.inc", "SUPPORTED(ibv_resize_cq, code)", "SUPPORTED(ibv_resize_cq, minus_one)"),
                          "softdev/shim/supported.inc: ibv_resize_cq reports failure as minus_one, but as code")
        self.assert_finds(self.check("include/verbena/sys/verbs_table.hpp", '"ibv_resize_cq", f::positive_errno', '"ibv_resize_cq", f::null_and_errno'),
                          "include/verbena/sys/verbs_table.hpp: ibv_resize_cq reports failure as null_and_errno, but as code")

    def test_verb_without_a_line_of_the_forwarders(self):
        line = next(line for line in (self.copy(*FILES) or (self.root / FILES[0]).read_text()).splitlines() if "ibv_resize_cq" in line)
        done = self.check(FILES[0], line, "")
        self.assert_finds(done, f"{FORWARD}/functions.inc: ibv_resize_cq is missing, but the device has it")
        self.assert_finds(done, f"{FORWARD}/functions.inc: ibv_resize_cq is missing, but include/verbena/sys/verbs_table.hpp has it")
        self.assert_finds(done, f"{FORWARD}/forwarded.inc: ibv_resize_cq has an old version")

    def test_member_that_is_not_visited(self):
        self.assert_finds(self.check("include/verbena/sys/verbs_table.hpp", "resize_cq,\n        get_cq_event", "get_cq_event"),
                          "for_each_exported() and the members differ in resize_cq")
        self.assert_finds(self.check("include/verbena/sys/cm_table.hpp", "leave_multicast, get_devices", "get_devices"),
                          "include/verbena/sys/cm_table.hpp: for_each() and the members differ in leave_multicast")

    def test_function_that_is_not_linked(self):
        for name in ("ibv_resize_cq", "efadv_query_ah", "rdma_notify"):
            self.assert_finds(self.check("cmake/linked.cpp.in", f"      VERBENA_LINKED({name}),\n", ""),
                              f"cmake/linked.cpp.in: {name} is missing: add VERBENA_LINKED({name})")

    def test_function_of_libefa_and_librdmacm_without_a_line(self):
        for path, name in (("efa", "efadv_query_ah"), ("rdmacm", "rdma_notify")):
            self.assert_finds(self.check(f"{FORWARD}/{path}.inc", f" {name}, (", f" {name}_2, ("),
                              f"{FORWARD}/{path}.inc: {name} is missing, but include/verbena/sys/")


if __name__ == "__main__":
    unittest.main()
