# SPDX-License-Identifier: MIT
"""scripts/parity.py accepts a line only if its tests exist, ran and passed."""
import json
import unittest

from lint_case import SPDX, LintCase
import parity

CONFORMANCE = SPDX + ("INSTANTIATE_TEST_SUITE_P(rc, messages, variants());\n"
                      "TEST_P(messages, arrive) {}\nTEST(device, opens) {}\n")
UNIT = SPDX + "TEST(guid, prints) {}\nTYPED_TEST(posting, sends) {}\nTEST_F(long_name,\n       long_test) {}\n"
REPORT = '<testsuite><testcase name="{0}" status="{1}">{2}</testcase></testsuite>'


class Parity(LintCase):
    def setUp(self):
        super().setUp()
        self.write("tests/conformance/a_test.cpp", CONFORMANCE)
        self.write("tests/unit/verbs/a_test.cpp", UNIT)
        self.write("tests/compile_fail/verbs/rule.cpp", SPDX)
        self.write("examples/CMakeLists.txt", "verbena_example(loopback SOURCES a.cpp)\n")
        self.write("tests/conformance/differences.txt", "rxe0-* | device.opens | fail | kernel | it cannot\n")
        self.results("soft0")
        self.results("rxe0-6.1", **{"device.opens": "fail"})
        self.ran("conformance/soft0")

    def results(self, device, **changed):
        outcomes = {"rc/messages.arrive/one": "pass", "rc/messages.arrive/two": "pass", "device.opens": "pass"}
        self.write(f"tests/conformance/results/{device}.json", json.dumps({"tests": {**outcomes, **changed}}))

    def ran(self, name, outcome="", status="run"):
        file = name.replace("/", "_")
        self.write(f"build/logs/{file}.dev.xml", REPORT.format(name, status, outcome))

    def judge(self, *lines, options=(), page="other"):
        self.write(f"docs/parity/{page}.md", "# A page\n\n" + "".join(f"- {line}\n" for line in lines))
        return self.run_script("parity.py", "--root", self.root, *options)

    def names(self, *lines, page="other"):
        return self.judge(*lines, options=["--names"], page=page)


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
        self.assert_finds(self.names("[x] a; differs: not b — `device.opens`"), "differs: WHAT, WHY")

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
        self.write("tests/conformance/results/rxe0-6.1.json", json.dumps({"tests": {}}))
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
