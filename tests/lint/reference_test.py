# SPDX-License-Identifier: MIT
"""scripts/reference.py finds every kind of public name without a comment, and malformed comments."""
import unittest

from lint_case import SPDX, LintCase

HEADER = SPDX + """// What it is for.
#pragma once
namespace verbena::inline VERBENA_ABI {
namespace detail {
struct hidden {
  int member;
};
}  // namespace detail
/// A class. Threads: immutable.
class shown : public handle {
 public:
  /// Makes one.
  explicit shown(int value) noexcept;
  /// A member at `::ffff:192.0.2.1`.
  int member = 0;
  friend bool operator==(const shown&, const shown&) noexcept = default;
};
/// A set of values.
enum class kind {
  first,  ///< the first
};
template <>
inline constexpr bool enable_flags<kind> = true;
/// A thing of a kind.
template <class T>
concept thing = true;
/// Does it.
void function(shown of);
}  // namespace verbena::inline VERBENA_ABI
/// Says it.
#define VERBENA_SAY(x) x
"""
BASE = SPDX + """// A base.
#pragma once
namespace verbena::inline VERBENA_ABI {
/// A base.
class handle {
 public:
  /// Its number.
  int number() const;

 protected:
  int secret() const;
};
}  // namespace verbena::inline VERBENA_ABI
"""


class Reference(LintCase):
    def setUp(self):
        super().setUp()
        self.copy("docs/reference", "include/verbena/base/config.hpp")
        self.write("docs/reference/README.md", "# Reference\n\n`shown::member`\n")
        self.write("include/verbena/verbs/handle.hpp", BASE)

    def check(self, header=HEADER):
        self.write("include/verbena/verbs/shown.hpp", header)
        return self.run_script("reference.py", "--root", self.root)

    def test_documented_names_pass(self):
        self.assert_clean(self.check())

    def test_undocumented_names_are_found(self):
        header = HEADER
        for comment in ("  /// Makes one.\n", "  /// A member at `::ffff:192.0.2.1`.\n", "/// A set of values.\n",
                        "  ///< the first", "/// A thing of a kind.\n", "/// Does it.\n", "/// Says it.\n"):
            self.assertIn(comment, header)
            header = header.replace(comment, "")
        done = self.check(header)
        for name in ("Member shown(int value)", "Member member (variable)", "Member kind (enumeration)",
                     "Enumerator first of verbena::kind", "Concept verbena::thing", "Member function(shown of)",
                     "Member VERBENA_SAY(x)"):
            with self.subTest(name):
                self.assert_finds(done, name)
        self.assert_finds(self.check(HEADER.replace("/// A class. Threads: immutable.\n", "")), "Compound verbena::shown")

    def test_inherited_names_are_public(self):
        self.write("include/verbena/verbs/handle.hpp", BASE.replace("  /// Its number.\n", ""))
        self.assert_finds(self.check(), "Member number() const")

    def test_names_in_documents_exist(self):
        self.write("docs/guide/page.md", "`shown::member`, `shown::number()`, `kind::first`, `verbena::function`, `std::x`\n")
        self.assert_clean(self.check())
        self.write("docs/guide/page.md", "`verbena::shown::lost()`, `kind::second`\n\n`verbena::gone` and `shown::secret`\n")
        done = self.check()
        for complaint in ("page.md:1: there is no verbena::shown::lost", "page.md:1: there is no kind::second",
                          "page.md:3: there is no verbena::gone", "page.md:3: there is no shown::secret"):
            with self.subTest(complaint):
                self.assert_finds(done, complaint)

    def test_comments_make_sense(self):
        self.assert_finds(self.check(HEADER.replace("/// Does it.", "/// Does it. @param none There is none.")), "none")


if __name__ == "__main__":
    unittest.main()
