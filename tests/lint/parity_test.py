# SPDX-License-Identifier: MIT
"""scripts/parity.py accepts a line only if its tests exist, ran and passed."""
import json
import re
import unittest

from lint_case import SPDX, LintCase
import parity
import test as runner  # scripts/test.py

# Files as parts: the name of a test and its text, or an empty name and other text.
SOURCES = {
    "tests/conformance/a_test.cpp": (("", SPDX + "INSTANTIATE_TEST_SUITE_P(rc, messages, variants());\n"),
                                     ("rc/messages.arrive/*", "TEST_P(messages, arrive) {}\n"),
                                     ("device.opens", "TEST(device, opens) {}\n")),
    "tests/unit/verbs/a_test.cpp": (("", SPDX), ("verbs/guid.prints", "TEST(guid, prints) {}\n"),
                                    ("verbs/posting.sends<*>", "TYPED_TEST(posting, sends) {}\n"),
                                    ("verbs/long_name.long_test", "TEST_F(long_name,\n       long_test) {}\n"),
                                    ("", "#ifdef VERBENA_CHECKED\n"),
                                    ("verbs/guid_death.stops", "TEST(guid_death, stops) {}\n"), ("", "#endif\n")),
    "tests/compile_fail/verbs/rule.cpp": (("", SPDX), ("compile_fail/verbs/rule", "")),
    "examples/CMakeLists.txt": (("example/loopback", "verbena_example(loopback SOURCES a.cpp)\n"),),
}
REPORT = '<testsuite><testcase name="{0}" status="{1}">{2}</testcase></testsuite>'


class Parity(LintCase):
    def setUp(self):
        super().setUp()
        self.write("tests/conformance/differences.txt", "rxe0-* | device.opens | fail | kernel | it cannot\n")
        self.results("soft0")
        self.results("rxe0-6.1", **{"device.opens": "fail"})
        self.ran("conformance/soft0")

    def results(self, device, date="2026-01-02", commit="1234abc", **changed):
        outcomes = {"rc/messages.arrive/one": "pass", "rc/messages.arrive/two": "pass", "device.opens": "pass"}
        self.write(f"tests/conformance/results/{device}.json",
                   json.dumps({"date": date, "commit": commit, "tests": {**outcomes, **changed}}))

    def ran(self, name, outcome="", status="run"):
        file = name.replace("/", "_")
        self.write(f"build/logs/{file}.dev.xml", REPORT.format(name, status, outcome))

    def carry(self, identifiers):
        """Writes the sources with the identifiers above each test: name -> list."""
        for path, parts in SOURCES.items():
            sign = "#" if path.endswith(".txt") else "//"
            self.write(path, "".join((f"{sign} parity: {', '.join(identifiers[name])}\n" if identifiers.get(name) else "") + text
                                     for name, text in parts))

    def judge(self, *lines, options=(), page="other", carried=None):
        """Numbers the lines. The tests carry the identifiers of the lines that name them, or those of `carried`."""
        identifiers = {}
        numbered = []
        for number, line in enumerate(lines, 1):
            numbered.append(re.sub(r"^(\[.\]) (?!`)", rf"\1 `{page}-{number}` ", line))
            for name in set(re.findall("`([^`]+)`", line)):
                identifiers.setdefault(name, []).append(f"{page}-{number}")
        self.carry(identifiers if carried is None else carried)
        self.write(f"docs/parity/{page}.md", "# A page\n\n" + "".join(f"- {line}\n" for line in numbered))
        for report in (self.root / "build/logs").glob("*.xml"):
            if not report.with_suffix(".sources").exists():
                report.with_suffix(".sources").write_text(runner.fingerprint(self.root))
        done = self.run_script("parity.py", "--root", self.root, *options)
        for recorded in (self.root / "build/logs").glob("*.sources"):
            recorded.unlink()
        return done

    def names(self, *lines, page="other", carried=None):
        return self.judge(*lines, options=["--names"], page=page, carried=carried)


class Names(Parity):
    def test_names_of_every_kind_are_found(self):
        self.assert_clean(self.names("[x] a — `rc/messages.arrive/*`", "[x] b — `device.opens`, `verbs/guid.prints`",
                                     "[x] c — `verbs/posting.sends<*>`", "[x] d — `verbs/long_name.long_test`",
                                     "[x] e — `compile_fail/verbs/rule`", "[x] f — `example/loopback`"))

    def test_name_that_no_test_has(self):
        self.assert_finds(self.names("[x] a — `verbs/guid.sings`"), "the test verbs/guid.sings does not exist")
        self.assert_finds(self.names("[x] a — `rc/send_receive.*`"), "the test rc/send_receive.* does not exist")
        self.assert_finds(self.names("[x] a — `base/guid.prints`"), "does not exist")

    def test_line_without_its_form(self):
        for line in ("[x] no dash `device.opens`", "[X] a — `device.opens`", "[x] a — device.opens", "[ ] a",
                     "[x] a — `device.opens` and more", "[x] — `device.opens`"):
            self.assert_finds(self.names(line), "docs/parity/other.md:3")

    def test_difference_has_description_and_reason(self):
        self.assert_clean(self.names("[x] a; differs: not b, since c — `device.opens`"))
        self.assert_clean(self.names("[x] two different queues — `device.opens`"))
        for text in ("a; differs: not b", "Differs: a, since b", "a; Differs: not b, since c", "a, DIFFERING since c",
                     "a (differs)", "it differs: not b, since c", "a; differs: b, differs c"):
            self.assert_finds(self.names(f"[x] {text} — `device.opens`"), "differs: WHAT, WHY")

    def test_absence_has_a_reason_and_no_test(self):
        done = self.judge("[-] a — nobody has it", "[x] b — `device.opens`")
        self.assert_clean(done)
        self.assertIn("absent docs/parity/other.md:3: a — nobody has it", done.stdout)
        self.assertIn("2 lines: 1 shown, 1 absent, 0 open", done.stdout)
        self.assert_finds(self.names("[-] a"), "docs/parity/other.md:3")

    def test_identifier_belongs_to_the_page_and_is_unique(self):
        self.assert_finds(self.names("[x] `page-1` a — `device.opens`"), "the identifier page-1 is not other-NUMBER")
        self.assert_finds(self.names("[x] `other-1` a — `device.opens`", "[x] `other-1` b — `device.opens`"),
                          "other.md:3 has the same identifier")

    def test_test_carries_the_identifier_of_its_line(self):
        line = "[x] a — `device.opens`"
        self.assert_finds(self.names(line, carried={}), "no comment `parity: other-1` above device.opens")
        self.assert_finds(self.names(line, carried={"device.opens": ["other-2"]}), "no comment `parity: other-1`")

    def test_identifier_without_a_line(self):
        carried = {"device.opens": ["other-1"], "verbs/guid.prints": ["other-7"]}
        self.assert_finds(self.names("[x] a — `device.opens`", carried=carried), "has the identifier other-7")

    def test_identifier_whose_line_names_another_test(self):
        carried = {"device.opens": ["other-1"], "verbs/guid.prints": ["other-1"]}
        self.assert_finds(self.names("[x] a — `device.opens`", carried=carried), "(other-1) does not name this test")

    def test_test_of_checked_builds_needs_the_words(self):
        self.assert_clean(self.names("[x] a (checked builds) — `verbs/guid_death.stops`"))
        self.assert_finds(self.names("[x] a — `verbs/guid_death.stops`"), "does not say (checked builds)")
        self.assert_finds(self.names("[x] a (checked builds) — `verbs/guid.prints`"), "its tests exist in all builds")

    def test_early_return_is_a_complaint(self):
        self.assert_clean(self.names("[x] a — `device.opens`"))
        for text in ("  if (absent()) return;\n", "  if (absent()) {\n    return;\n  }\n"):
            self.write("tests/unit/base/b_test.cpp", f"TEST(guid, sings) {{\n{text}}}\n")
            self.assert_finds(self.names("[x] a — `device.opens`"), "guid.sings returns without an assertion")
        for text in ("  if (absent()) GTEST_SKIP() << \"x\";\n", "  if (IsSkipped()) return;\n",
                     "  if (absent()) {\n    EXPECT_TRUE(a);\n    return;\n  }\n"):
            self.write("tests/unit/base/b_test.cpp", f"TEST(guid, sings) {{\n{text}}}\n")
            self.assert_clean(self.names("[x] a — `device.opens`"))

    def test_test_of_too_many_lines(self):
        lines = [f"[x] {i} — `device.opens`" for i in range(4)]
        self.assert_clean(self.names(*lines[:3]))
        self.assert_finds(self.names(*lines), "4 lines name device.opens")

    def test_main_page_is_long(self):
        self.assert_finds(self.names("[x] a — `device.opens`", page="ibverbs"), "at least 150 are required")

    def test_pages_are_not_empty(self):
        self.assert_finds(self.names(), "0 lines")


class Results(Parity):
    def test_conformance_counts_on_every_device(self):
        done = self.judge("[x] a — `rc/messages.arrive/*`")
        self.assert_clean(done)
        self.assertIn("[rxe0-6.1 soft0]", done.stdout)

    def test_expected_difference_is_printed(self):
        done = self.judge("[x] a — `device.opens`")
        self.assert_clean(done)
        self.assertIn("[soft0]", done.stdout)
        self.assertIn("rxe0-6.1: fail (kernel): it cannot", done.stdout)

    def test_unexpected_failure(self):
        self.results("rxe0-6.1", **{"device.opens": "fail", "rc/messages.arrive/two": "fail"})
        self.assert_finds(self.judge("[x] a — `rc/messages.arrive/*`"), "fail: rc/messages.arrive/two")

    def test_software_device_is_never_excused(self):
        self.write("tests/conformance/differences.txt", "* | device.opens | fail | kernel | it cannot\n")
        self.results("soft0", **{"device.opens": "fail"})
        self.assert_finds(self.judge("[x] a — `device.opens`"), "soft0: device.opens: fail")

    def test_test_that_did_not_run_on_a_device(self):
        self.write("tests/conformance/results/rxe0-6.1.json", json.dumps({"date": "2026-01-02", "commit": "1", "tests": {}}))
        self.assert_finds(self.judge("[x] a — `device.opens`"), "rxe0-6.1: device.opens: did not run")

    def test_run_behind_the_stored_outcomes(self):
        self.ran("conformance/soft0", "<failure/>", "fail")
        self.assert_finds(self.judge("[x] a — `device.opens`"), "conformance/soft0 failed")
        (self.root / "build/logs/conformance_soft0.dev.xml").unlink()
        self.assert_finds(self.judge("[x] a — `device.opens`"), "conformance/soft0 did not run")

    def test_run_in_the_machine_that_failed(self):
        self.ran("vm/conformance_rxe0_6.1_1", "<failure/>", "fail")
        self.assert_finds(self.judge("[x] a — `device.opens`"), "vm/conformance_rxe0_6.1_1 failed")

    def test_other_tests_ran_and_passed(self):
        line = "[x] a — `verbs/guid.prints`"
        self.assert_finds(self.judge(line), "verbs/guid.prints: did not run")
        self.ran("verbs/guid.prints")
        self.assert_clean(self.judge(line))
        self.ran("verbs/guid.prints", "<skipped/>", "notrun")
        self.assert_finds(self.judge(line), "was skipped")
        self.ran("verbs/guid.prints", "<failure/>", "fail")
        self.assert_finds(self.judge(line), "failed")

    def test_test_with_a_type_for_a_variant(self):
        self.ran("verbs/posting.sends&lt;a::classic&gt;")
        self.assert_clean(self.judge("[x] a — `verbs/posting.sends<*>`"))

    def test_one_of_two_tests_is_not_enough(self):
        self.assert_finds(self.judge("[x] a — `device.opens`, `verbs/guid.prints`"), "host: verbs/guid.prints")

    def test_open_line_fails_the_run(self):
        done = self.judge("[ ] a — not there yet")
        self.assertEqual(done.returncode, 1)
        self.assertIn("OPEN   docs/parity/other.md:3: a — not there yet", done.stdout)
        self.assert_clean(self.names("[ ] a — not there yet"))

    def test_option_open_prints_only_open_lines(self):
        done = self.judge("[ ] a — not there yet", "[x] b — `device.opens`", options=["--open"])
        self.assertIn("other.md:3", done.stdout)
        self.assertNotIn("other.md:4", done.stdout)

    def test_report_as_json(self):
        self.judge("[x] a — `device.opens`", "[ ] b — later", options=["--json", self.root / "out.json"])
        report = json.loads((self.root / "out.json").read_text())
        self.assertEqual((report["lines"], report["open"], report["failed"]), (2, 1, 0))
        self.assertEqual(report["shown"][0]["outcomes"], {"rxe0-6.1": "excused", "soft0": "pass"})

    def test_device_without_date_and_commit_did_not_run(self):
        for missing in ({"date": ""}, {"commit": ""}):
            self.results("rxe0-6.1", **missing)
            done = self.judge("[x] a — `rc/messages.arrive/*`")
            self.assert_clean(done)
            self.assertIn("rxe0-6.1: not run", done.stdout)
            self.assertIn("[soft0]", done.stdout)

    def test_device_with_date_and_commit_states_them(self):
        self.assertIn("rxe0-6.1: 2026-01-02, commit 1234abc", self.judge("[x] a — `device.opens`").stdout)

    def test_whole_run_in_the_machine_confirms_the_stored_outcomes(self):
        self.results("rxe0-6.1", date="", commit="", **{"device.opens": "fail"})
        self.ran("vm/conformance_rxe0_6.1_1")
        self.assertIn("rxe0-6.1: this run", self.judge("[x] a — `device.opens`").stdout)

    def test_other_kinds_of_the_software_device_count_if_they_ran(self):
        self.results("soft0-efa", **{"device.opens": "fail"})
        self.write("tests/conformance/differences.txt", "[rs]*-* | device.opens | fail | device | it cannot\n")
        self.assertIn("soft0-efa: not run", self.judge("[x] a — `device.opens`").stdout)
        self.ran("conformance/soft0-efa")
        done = self.judge("[x] a — `device.opens`")
        self.assert_clean(done)
        self.assertIn("soft0-efa: this run", done.stdout)
        self.ran("conformance/soft0-efa", "<failure/>", "fail")
        self.assert_finds(self.judge("[x] a — `device.opens`"), "conformance/soft0-efa failed")

    def test_partial_run_in_the_machine_confirms_nothing(self):
        self.results("siw0-6.1", date="", commit="")
        self.ran("vm/conformance_siw0_6.1_1")
        self.assertIn("siw0-6.1: not run", self.judge("[x] a — `device.opens`").stdout)

    def test_report_of_other_sources_is_ignored(self):
        self.ran("verbs/guid.prints")
        self.write("build/logs/verbs_guid.prints.dev.sources", "another hash")
        done = self.judge("[x] a — `verbs/guid.prints`")
        self.assert_finds(done, "verbs/guid.prints: did not run")
        self.assertIn("ignored: 1 CTest reports of other sources", done.stdout)

    def test_report_without_recorded_sources_is_ignored(self):
        self.assertIsNone(runner.fingerprint_of(self.write("a.xml", "")))

    def test_hash_depends_on_sources_only(self):
        self.write("src/a.cpp", "one")
        before = runner.fingerprint(self.root)
        self.write("docs/a.md", "text")
        self.assertEqual(runner.fingerprint(self.root), before)
        self.write("src/a.cpp", "two")
        self.assertNotEqual(runner.fingerprint(self.root), before)

    def test_without_any_report(self):
        (self.root / "build/logs/conformance_soft0.dev.xml").unlink()
        self.assert_finds(self.judge("[x] a — `device.opens`"), "run ./dev test first")


class Repository(unittest.TestCase):
    def test_suites_of_this_repository_are_found(self):
        conforming, others = parity.known_tests(parity.ROOT)
        self.assertGreater(len(conforming), 100)
        self.assertGreater(len(others), 400)


if __name__ == "__main__":
    unittest.main()
