# SPDX-License-Identifier: MIT
"""The checks find installed headers outside the file set and headers that do not compile alone, in a copy of the build."""
import json
import unittest
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

from lint_case import LintCase, ROOT, SPDX

BASE = "include/verbena/base/config.hpp"


class Headers(LintCase):
    def setUp(self):
        super().setUp()
        self.copy("CMakeLists.txt", "CMakePresets.json", "cmake", BASE, "src/base/log.cpp",
                  "include/verbena/base/log.hpp")
        for header in ("verbena.hpp", "fwd.hpp", "async.hpp", "net.hpp", "asio.hpp"):
            self.write(f"include/verbena/{header}", SPDX + "#pragma once\n")

    def configure(self):
        parts = ("TESTS", "EXAMPLES", "SOFTDEV", "TOOLS", "BENCH")
        done = self.run_command("cmake", "--preset", "dev-clang", *(f"-DVERBENA_BUILD_{part}=OFF" for part in parts))
        self.assert_clean(done)
        return self.root / "build/dev-clang"

    def test_header_outside_the_file_set(self):
        build = self.configure()
        words = ("--root", self.root, build / "verbena_header_set.txt")
        self.assert_clean(self.run_script("check_header_set.py", *words))
        self.write("include/verbena/novel/x.hpp", SPDX)
        self.assert_finds(self.run_script("check_header_set.py", *words), "would not be installed")

    def test_header_that_needs_another_one_before_it(self):
        # A header that is precompiled for others and provides <vector> to them.
        self.write("include/verbena/base/result.hpp", SPDX + "#pragma once\n#include <vector>\n")
        behind = '#pragma once\n#include "verbena/base/result.hpp"\n'
        self.write("include/verbena/base/sated.hpp", SPDX + behind + "std::vector<int> f();\n")
        self.assert_clean(self.verify())
        self.write("include/verbena/base/needy.hpp", SPDX + "#pragma once\nstd::vector<int> f();\n")
        self.write("include/verbena/base/needy_behind.hpp", SPDX + behind + "std::map<int, int> f();\n")
        found = self.verify()
        self.assert_finds(found, "base/needy.hpp does not compile alone")
        self.assert_finds(found, "base/needy_behind.hpp does not compile alone")
        self.assertNotIn("sated.hpp does not", found.stdout)

    def verify(self):
        return self.run_script("self_contained.py", "--root", self.root, "--build", self.configure())


class ClangTidy(LintCase):
    def test_finding_is_an_error(self):
        self.copy(".clang-tidy")
        self.write("src/good.cpp", "#include <utility>\nint f(int a) { return a; }\n")
        self.write("src/bad.cpp", "#include <string>\nint f(std::string a) { return static_cast<int>(a.size()); }\n")
        self.assert_clean(self.run_command("clang-tidy-19", "--quiet", "src/good.cpp", "--", "-std=c++20"))
        self.assert_finds(self.run_command("clang-tidy-19", "--quiet", "src/bad.cpp", "--", "-std=c++20"),
                          "performance-unnecessary-value-param")

    def test_changed_files_choose_their_sources(self):
        import clang_tidy
        commands = [{"directory": str(ROOT), "file": f"src/base/{stem}.cpp"} for stem in ("log", "error", "fd")]
        commands.append({"directory": str(ROOT), "file": "tests/unit/base/error_test.cpp"})
        chosen = clang_tidy.chosen_sources(commands, {"src/base/log.cpp", "include/verbena/base/error.hpp"})
        self.assertEqual([path.name for path in chosen], ["error.cpp", "log.cpp", "error_test.cpp"])
        self.assertEqual(len(clang_tidy.chosen_sources(commands, None)), 4)

    def test_clean_sources_are_recorded_until_a_header_changes(self):
        import clang_tidy
        header = self.write("x.hpp", "inline int f(int a) { return a; }\n")
        source = self.write("x.cpp", '#include "x.hpp"\n')
        commands = [{"directory": str(self.root), "file": "x.cpp",
                     "command": "ccache clang++-19 -std=c++20 -MD -MF x.d -o x.o -c x.cpp"}]
        self.write("compile_commands.json", json.dumps(commands))
        memory = clang_tidy.Memory(self.root / "memory")
        self.assertEqual(clang_tidy.tidy(source, commands, self.root, memory)[1], 0)
        self.assertTrue(memory.place(commands).exists())
        for changed in ("inline int f(int a) { return a; }  // NOLINT\n", "#define X 1\ninline int f(int a) { return a; }\n",
                        "#include <string>\ninline int f(std::string a) { return a.empty() ? 1 : 2; }\n"):
            header.write_text(changed)
            self.assertFalse(memory.place(commands).exists(), changed)

    def test_every_source_is_checked_in_a_clean_group_or_separately(self):
        import clang_tidy
        product, test = ROOT / "src/base/log.cpp", ROOT / "tests/unit/base/error_test.cpp"
        todo = {path: [{"directory": str(ROOT), "file": str(path), "command": f"clang++-19 -o x.dir/x.o -c {path}"}]
                for path in (product, test)}
        memory = mock.Mock(place=lambda commands: None)
        for bad in ([], [test], [product], [product, test]):
            with mock.patch.object(clang_tidy, "tidy_group", side_effect=lambda members, _: members[0][0] not in bad), \
                 ThreadPoolExecutor(1) as pool:
                self.assertEqual(list(clang_tidy.tidy_in_groups(todo, memory, pool)), bad)

    def test_a_group_has_one_set_of_rules(self):
        import clang_tidy
        sources = [ROOT / "src/base/log.cpp", ROOT / "src/base/error.cpp", ROOT / "tests/unit/base/error_test.cpp"]
        todo = {path: [{"directory": str(ROOT), "file": str(path), "command": f"clang++-19 -o x.dir/x.o -c {path}"}]
                for path in sources}
        groups = [[source for source, _ in members] for members in clang_tidy.groups_of(todo)]
        self.assertEqual(groups, [sources[:2], sources[2:]])

    def test_findings_are_not_remembered(self):
        import clang_tidy
        source = self.write("x.cpp", "#include <string>\nint f(std::string a) { return a.empty() ? 1 : 2; }\n")
        commands = [{"directory": str(self.root), "file": "x.cpp", "command": "clang++-19 -std=c++20 -c x.cpp"}]
        self.write("compile_commands.json", json.dumps(commands))
        memory = clang_tidy.Memory(self.root / "memory")
        self.copy(".clang-tidy")
        for _ in range(2):
            _, code, text = clang_tidy.tidy(source, commands, self.root, memory)
            self.assertNotEqual(code, 0)
            self.assertIn("performance-unnecessary-value-param", text)


class Format(LintCase):
    def test_unformatted_source(self):
        self.copy(".clang-format", "scripts/dev/fmt.sh", "scripts/dev/common.sh")
        self.write("src/base/x.cpp", SPDX + "int f();\n")
        self.assert_clean(self.run_command("scripts/dev/fmt.sh", "--check"))
        self.write("src/base/x.cpp", SPDX + "int  f( );\n")
        self.assert_finds(self.run_command("scripts/dev/fmt.sh", "--check"), "clang-format")
        self.assert_clean(self.run_command("scripts/dev/fmt.sh"))
        self.assertEqual((self.root / "src/base/x.cpp").read_text(), SPDX + "int f();\n")


if __name__ == "__main__":
    unittest.main()
