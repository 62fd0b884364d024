# SPDX-License-Identifier: MIT
"""scripts/check_layers.py finds every kind of forbidden include."""
import unittest

from lint_case import SPDX, LintCase


class Layers(LintCase):
    def setUp(self):
        super().setUp()
        self.copy("cmake/layers.txt", "cmake/foreign_headers.txt")
        self.write("include/verbena/base/a.hpp", SPDX)
        self.write("include/verbena/verbs/b.hpp", SPDX)
        self.write("src/verbs/internal.hpp", SPDX)
        self.write("softdev/core/c.hpp", SPDX)
        self.write("softdev/host/d.hpp", SPDX)

    def check(self, path, include):
        self.write(path, f"{SPDX}#include {include}\n")
        return self.run_script("check_layers.py", "--root", self.root)

    def test_module_may_include_lower_modules(self):
        self.assert_clean(self.check("src/verbs/x.cpp", '"verbena/base/a.hpp"'))

    def test_module_may_not_include_higher_modules(self):
        self.assert_finds(self.check("src/base/x.cpp", '"verbena/verbs/b.hpp"'), "base may not include")

    def test_library_may_not_include_the_device(self):
        self.assert_finds(self.check("src/sys/x.cpp", '"softdev/core/c.hpp"'), "sys may not include")

    def test_device_may_not_include_the_library_above_base(self):
        self.assert_finds(self.check("softdev/core/x.cpp", '"verbena/verbs/b.hpp"'), "softdev/core may not include")

    def test_angle_brackets_do_not_hide_a_header_of_ours(self):
        self.assert_finds(self.check("softdev/core/x.cpp", "<verbena/verbs/b.hpp>"), "softdev/core may not include")

    def test_lower_folder_of_the_device_may_not_include_a_higher_one(self):
        self.assert_finds(self.check("softdev/core/x.hpp", '"softdev/host/d.hpp"'), "softdev/core may not include")

    def test_verbs_header_has_its_homes(self):
        self.assert_clean(self.check("src/sys/x.cpp", "<infiniband/verbs.h>"))
        self.assert_finds(self.check("softdev/core/y.cpp", "<infiniband/verbs.h>"), "<infiniband/verbs.h> belongs to")

    def test_socket_headers_have_their_homes(self):
        self.assert_finds(self.check("src/verbs/x.cpp", "<sys/socket.h>"), "<sys/socket.h> belongs to")

    def test_include_is_a_path_from_the_root(self):
        self.assert_finds(self.check("src/verbs/x.cpp", '"internal.hpp"'), "use the path from the root")

    def test_examples_use_the_public_library_only(self):
        self.assert_finds(self.check("examples/01/x.cpp", '"src/verbs/internal.hpp"'), "is internal")

    def test_product_may_not_include_tests(self):
        self.write("tests/support/t.hpp", SPDX)
        self.assert_finds(self.check("src/verbs/x.cpp", '"tests/support/t.hpp"'), "not part of the product")

    def test_unit_tests_stay_below_their_module(self):
        self.assert_clean(self.check("tests/unit/verbs/x_test.cpp", '"src/verbs/internal.hpp"'))
        self.assert_finds(self.check("tests/unit/base/x_test.cpp", '"verbena/verbs/b.hpp"'), "tests of base")

    def test_tests_of_costs_stay_below_their_module(self):
        self.assert_clean(self.check("tests/unit/softdev/cost/x_test.cpp", '"softdev/core/c.hpp"'))
        self.assert_finds(self.check("tests/unit/softdev/cost/y_test.cpp", '"softdev/host/d.hpp"'), "tests of softdev/fabric")

    def test_module_without_a_line_is_named(self):
        self.assert_finds(self.check("src/novel/x.cpp", '"verbena/base/a.hpp"'), "module novel has no line")

    def test_commented_include_does_not_count(self):
        self.assert_clean(self.check("src/base/x.cpp", '<vector>\n/*\n#include "verbena/verbs/b.hpp"\n*/'))


if __name__ == "__main__":
    unittest.main()
