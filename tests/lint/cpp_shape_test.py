# SPDX-License-Identifier: MIT
"""scripts/cpp_shape.py finds functions and their parameters in each form of declaration that our code uses."""
import unittest

import lint_case  # noqa: F401  (puts scripts/ on the path)
import cpp_shape


def shapes(text):
    return [(f.name, f.parameters, f.last - f.first + 1) for f in cpp_shape.functions(text) if f.defined]


class Shape(unittest.TestCase):
    def test_plain_function(self):
        self.assertEqual(shapes("int f(int a, int b) {\n  return a;\n}\n"), [("f", 2, 3)])

    def test_function_without_parameters(self):
        self.assertEqual(shapes("void f() {}\nint g(void) { return 1; }\n"), [("f", 0, 1), ("g", 0, 1)])

    def test_commas_in_template_arguments_and_defaults_do_not_count(self):
        self.assertEqual(shapes("void f(std::map<int, int> a, std::pair<int, int> b = {1, 2}, F g = h(1, 2)) {}\n"),
                         [("f", 3, 1)])

    def test_methods_inside_classes_and_namespaces(self):
        text = "namespace a::inline B {\nclass c final : public d {\n public:\n  int m() const noexcept { return 1; }\n};\n}\n"
        self.assertEqual(shapes(text), [("m", 0, 1)])

    def test_constructor_with_initialisers(self):
        self.assertEqual(shapes("c::c(int a) noexcept : a_(a), b_{1} {\n  f();\n}\n"), [("c", 1, 3)])

    def test_destructor_and_operators(self):
        self.assertEqual(shapes("c::~c() { f(); }\nbool operator==(c a, c b) { return true; }\n"
                                "c& c::operator=(c&& a) { return *this; }\nint c::operator()(int a) const { return a; }\n"),
                         [("~c", 0, 1), ("operator==", 2, 1), ("operator=", 1, 1), ("operator()", 1, 1)])

    def test_function_templates_with_constraints(self):
        self.assertEqual(shapes("template <class T, class U>\n  requires(std::same_as<T, U>)\nT f(T a, U b) {\n  return a;\n}\n"),
                         [("f", 2, 3)])

    def test_trailing_return_type(self):
        self.assertEqual(shapes("auto f(int a) -> std::pair<int, int> { return {a, a}; }\n"), [("f", 1, 1)])

    def test_lambdas_belong_to_their_function(self):
        self.assertEqual(shapes("void f() {\n  auto g = [](int a, int b) {\n    return a;\n  };\n}\n"), [("f", 0, 5)])

    def test_lambda_and_table_at_namespace_level_are_no_functions(self):
        self.assertEqual(shapes("const auto g = [](int a) { return a; };\nconstexpr int t[] = {f(1), f(2)};\n"), [])

    def test_control_flow_is_no_function(self):
        self.assertEqual(shapes("void f() {\n  if (a) {\n  }\n  while (b) {\n  }\n}\n"), [("f", 0, 6)])

    def test_braces_in_strings_comments_and_macros_do_not_count(self):
        self.assertEqual(shapes('void f() {\n  a("}{");  // }\n  b(\'{\');\n}\n#define X {\nvoid g() {}\n'),
                         [("f", 0, 4), ("g", 0, 1)])

    def test_digit_separators_are_no_characters(self):
        self.assertEqual(shapes("int f() { return 1'000'000; }\nint g() { return 2; }\n"), [("f", 0, 1), ("g", 0, 1)])

    def test_pointers_to_functions_are_no_functions(self):
        self.assertEqual([f for f in cpp_shape.functions("struct t {\n  int (*call)(int, int, int, int, int, int);\n};\n")], [])

    def test_types_among_template_arguments_are_no_functions(self):
        self.assertEqual([f for f in cpp_shape.functions('verb<"x", int(int, int, int, int, int, int)>\n    member;\n')], [])

    def test_declarations_are_found(self):
        found = [(f.name, f.parameters) for f in cpp_shape.functions("[[nodiscard]] result<int> f(int a, int b);\n")]
        self.assertEqual(found, [("f", 2)])

    def test_extern_c_blocks_are_entered(self):
        self.assertEqual(shapes('extern "C" {\nint f(int a) { return a; }\n}\nextern "C" int g(int a) { return a; }\n'),
                         [("f", 1, 1), ("g", 1, 1)])

    def test_classes(self):
        text = "class a;\n/// x\nclass b {\n};\nclass [[nodiscard(\"x\")]] c final : public d<e> {\n};\n" \
               "enum class f { g };\ntemplate <class T>\nclass h {\n};\ntemplate <>\nclass h<int> {\n};\n"
        self.assertEqual([name for name, _ in cpp_shape.classes(text)], ["b", "c", "h"])


if __name__ == "__main__":
    unittest.main()
