# SPDX-License-Identifier: MIT
"""scripts/check_c_verbs.py finds verbs without a row, rows without a verb, and names that are no longer in the library."""
import unittest

from lint_case import SPDX, LintCase

HEADER = """#ifdef __cplusplus
extern "C" {
#endif
struct ibv_thing { int (*ibv_not_a_verb)(struct ibv_thing *thing); };
/* int ibv_in_a_comment(void); */
int ibv_first(struct ibv_thing *thing,
              int flags);
static inline int ibv_second(struct ibv_thing *thing)
{
\tif (thing) { return ibv_called(thing); }
\treturn 0;
}
#define ibv_third(thing) \\
\tibv_first(thing, 1)
int rdma_fourth(struct ibv_thing *thing);
#ifdef __cplusplus
}
#endif
"""


class Rows(LintCase):
    def check(self, *rows):
        self.write("include/verbena/thing.hpp", SPDX + "class thing { void first(); };\n")
        self.write("docs/guide/from-c-verbs.md", "# A page\n\n| C | here |\n|---|---|\n" + "".join(rows))
        header = self.write("verbs.h", HEADER)
        return self.run_script("check_c_verbs.py", "--root", self.root, "--header", header)

    def test_complete_page(self):
        self.assert_clean(self.check("| `ibv_first`, `ibv_third` | `thing::first()` |\n",
                                     "| `ibv_second`, `rdma_fourth` | only through `native()` |\n"))

    def test_verb_without_a_row(self):
        done = self.check("| `ibv_first` | `thing` |\n", "| `ibv_second` | `thing` |\n")
        self.assert_finds(done, "ibv_third of verbs.h has no row")
        self.assert_finds(done, "rdma_fourth of rdma_cma.h has no row")

    def test_rows_that_should_not_be(self):
        done = self.check("| `ibv_first`, `ibv_third`, `ibv_called` | `thing` |\n", "| `ibv_second` | `thing` |\n",
                          "| `ibv_first` | `thing` |\n")
        self.assert_finds(done, "verbs.h does not declare ibv_called")
        self.assert_finds(done, "ibv_first already has a row")

    def test_name_that_the_library_does_not_have(self):
        self.assert_finds(self.check("| `ibv_first`, `ibv_second`, `ibv_third`, `rdma_fourth` | `thing::second()` |\n"),
                          "no header of the library contains second")

    def test_header_that_is_not_there(self):
        self.write("docs/guide/from-c-verbs.md", "# A page\n")
        done = self.run_script("check_c_verbs.py", "--root", self.root, "--header", self.root / "none.h")
        self.assert_finds(done, "is missing")


if __name__ == "__main__":
    unittest.main()
