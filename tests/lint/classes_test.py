# SPDX-License-Identifier: MIT
"""scripts/check_classes.py counts the functions and members of classes of soft0 and finds classes with several sources."""
import unittest

from lint_case import SPDX, LintCase

import class_shape

HEADER = SPDX + "#pragma once\n"


def numbered(count, line):
    return "".join(line.replace("@", str(number)) for number in range(count))


class Classes(LintCase):
    def check(self, *files):
        for path, text in files:
            self.write(path, text)
        return self.run_script("check_classes.py", "--root", self.root)

    def functions(self, count, more=""):
        text = f"class c {{\n public:\n{numbered(count, '  int f@(int a) const;' + chr(10))}{more}}};\n"
        return self.check(("softdev/core/c.hpp", HEADER + text))

    def members(self, count, more="", kind="class"):
        text = f"{kind} c {{\n{numbered(count, '  int m@_ = 1;' + chr(10))}{more}}};\n"
        return self.check(("softdev/core/c.hpp", HEADER + text))

    def test_a_class_has_at_most_25_public_functions(self):
        self.assert_clean(self.functions(25))
        self.assert_finds(self.functions(26), "c.hpp:3: c has 26 public functions; the cap is 25")

    def test_overloads_templates_and_static_functions_count(self):
        for more in ("  int f0(long a);\n", "  template <class T>\n  void g(T a);\n", "  static int g();\n",
                     "  [[nodiscard]] int g() noexcept { return a(1); }\n", "  virtual void g() = 0;\n",
                     "  const std::vector<std::pair<int, int>>& g() const;\n"):
            with self.subTest(more):
                self.assert_clean(self.functions(24, more))
                self.assert_finds(self.functions(25, more), "26 public functions")

    def test_constructors_operators_and_deleted_functions_do_not_count(self):
        self.assert_clean(self.functions(25, "  c();\n  explicit c(int a) : a_(a), b_{1} {}\n  ~c();\n  c(const c&) = delete;\n"
                                             "  c& operator=(const c&) = delete;\n  explicit operator bool() const;\n"
                                             "  void g(int) = delete;\n  bool operator==(const c&) const = default;\n"))

    def test_friends_types_and_private_functions_do_not_count(self):
        self.assert_clean(self.functions(25, "  friend int g(int a);\n  using type = int;\n  enum class e { a, b };\n"
                                             "  struct s { int x(); };\n  class d;\n private:\n  int h();\n"))

    def test_a_class_has_at_most_15_data_members(self):
        self.assert_clean(self.members(15))
        self.assert_finds(self.members(16), "c.hpp:3: c has 16 data members; the cap is 15")

    def test_each_form_of_member_counts(self):
        for more in ("  std::map<int, int> m_;\n", "  int (*call_)(int, int) = nullptr;\n", "  alignas(64) a b_{call()};\n",
                     "  struct { int x; } both_;\n", "  union { int x; char y; };\n", "  std::function<void(int)> f_;\n",
                     "  std::array<int, 2> table_ = {1, 2};\n", "  unsigned bit_ : 1 = 0;\n"):
            with self.subTest(more):
                self.assert_clean(self.members(14, more))
                self.assert_finds(self.members(15, more), "16 data members")
        self.assert_finds(self.members(14, "  int a_ = 1, b_;\n"), "16 data members")

    def test_static_members_and_those_of_nested_classes_do_not_count(self):
        self.assert_clean(self.members(15, "  static constexpr int most = 3;\n  static int all;\n  struct inner { int a, b; };\n"))

    def test_plain_values_may_have_more_members(self):
        self.assert_clean(self.members(40, kind="struct"))
        self.assert_clean(self.members(40, "  bool operator==(const c&) const = default;\n  int sum() const noexcept;\n"
                                           "  static c make();\n", kind="struct"))

    def test_structs_with_private_members_or_changing_functions_are_no_values(self):
        self.assert_finds(self.members(15, " private:\n  int x_;\n", kind="struct"), "16 data members")
        self.assert_finds(self.members(16, "  void set(int a);\n", kind="struct"), "16 data members")

    def test_a_class_has_its_functions_in_one_source(self):
        header = ("softdev/core/c.hpp", HEADER + "namespace a {\nclass c {\n public:\n  int f();\n  int g();\n};\n}\n")
        one = "namespace a {\nint c::f() { return 1; }\n}\n"
        self.assert_clean(self.check(header, ("softdev/core/c.cpp", SPDX + one)))
        self.assert_finds(self.check(header, ("softdev/core/d.cpp", SPDX + "int a::c::g() { return 1; }\n")),
                          "c.hpp:4: c has functions in several sources (softdev/core/c.cpp, softdev/core/d.cpp)")

    def test_classes_of_equal_names_in_two_namespaces_or_sources_are_two_classes(self):
        body = "class c {\n  void f();\n};\n"
        self.assert_clean(self.check(("softdev/core/c.hpp", HEADER + f"namespace a {{\n{body}}}\n"),
                                     ("softdev/core/c.cpp", SPDX + "namespace a {\nvoid c::f() {}\n}\n"),
                                     ("softdev/cm/c.hpp", HEADER + f"namespace a::b {{\n{body}}}\n"),
                                     ("softdev/cm/c.cpp", SPDX + "namespace a::b {\nvoid c::f() {}\n}\n"),
                                     ("softdev/cm/d.cpp", SPDX + f"namespace {{\n{body}void c::f() {{}}\n}}\n"),
                                     ("softdev/cm/e.cpp", SPDX + f"namespace {{\n{body}void c::f() {{}}\n}}\n")))

    def test_only_the_device_is_checked(self):
        text = "class c {\n" + numbered(16, "  int m@_;\n") + "};\n"
        self.assert_clean(self.check(("src/base/c.hpp", HEADER + text)))

    def test_a_reason_allows_an_exception(self):
        text = "// lint: allow(class-members): one for each field of the packet\nclass c {\n" + numbered(16, "  int m@_;\n") + "};\n"
        self.assert_clean(self.check(("softdev/core/c.hpp", HEADER + text)))

    def test_nested_and_specialised_classes_have_qualified_names(self):
        scan = class_shape.Scan("namespace a {\nclass b final : public d<int> {\n  struct c;\n  class e { int x; };\n};\n"
                                "struct b::c { int y; };\n}\ntemplate <>\nstruct f<int> { int z; };\n")
        self.assertEqual([found.name for found in scan.classes], ["a::b", "a::b::e", "a::b::c", "f<int>"])


if __name__ == "__main__":
    unittest.main()
