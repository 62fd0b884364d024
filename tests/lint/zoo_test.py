# SPDX-License-Identifier: MIT
"""./dev zoo fails if an effect is not observed, a mistake is not detected, or a correct program is stopped."""
import json
import unittest

from lint_case import LintCase, ROOT

GOOD = {"harm": "echo harm: the bytes differ",
        "caught": "echo 'verbena: usage error: requests do not overlap (a.cpp:1)'; kill -ABRT $$",
        "twin": "echo done"}


def entry(**changes):
    crate = {"stops": "no", "why": "it is unsafe"}
    return {"name": "two_receives", "class": "aliasing", "mistake": "one", "seen": "a man page", "harm": "wrong data",
            "level": "stop", "words": "requests do not overlap", "ibverbs": crate, "ibverbs-rs": crate,
            "rrddmma": crate, "in_c_verbs": "", **changes}


class Zoo(LintCase):
    def visit(self, forms=None, **changes):
        """Runs the zoo with one entry, whose forms are shell commands; returns its status and output."""
        known = {**GOOD, **(forms or {})}
        cases = "\n".join(f"{form}) {text};;" for form, text in known.items())
        listed = json.dumps([entry(**changes)])
        program = self.write("program", f"#!/bin/sh\nif [ $1 = --list ]; then cat <<'X'\n{listed}\nX\nexit 0; fi\n"
                                        f"case $2 in\n{cases}\nesac\n")
        program.chmod(0o755)
        done = self.run_command(ROOT / "scripts/zoo.py", "--program", program)
        return done.returncode, done.stdout

    def fails(self, expected, forms=None, **changes):
        status, text = self.visit(forms, **changes)
        self.assertEqual(status, 1, text)
        self.assertIn(expected, text)

    def test_valid_entry_passes_in_eighty_columns(self):
        status, text = self.visit()
        self.assertEqual(status, 0, text)
        self.assertLessEqual(max(len(line) for line in text.splitlines() if line.startswith("  ")), 80)

    def test_effect_that_is_not_observed_fails(self):
        self.fails("no harm was observed", {"harm": "echo done"})
        self.fails("no harm was observed", {"harm": "echo harm: something; exit 3"})
        self.fails("did not crash", {"harm": "echo harm: something"}, harm="crash")
        self.fails("stopped by a check", {"harm": GOOD["caught"]})

    def test_undetected_mistake_fails(self):
        self.fails("caught: expected", {"caught": "echo done"})
        self.fails("caught: expected", words="another rule")
        self.fails("was not stopped", {"caught": "echo verbena: usage error: requests do not overlap"})
        self.fails("caught: expected", level="value", words="x")
        self.fails("does not exist", level="compiler", words="verbs/nothing_like_this")

    def test_report_in_c_verbs_is_compared_in_both_directions(self):
        level = {"level": "unwritable", "words": "it waits"}
        verified = {"caught": "echo verified: it waits"}
        self.assertEqual(self.visit(verified, **level)[0], 0)
        self.assertIn("nothing reports 1 (-)", self.visit(verified, **level)[1])
        self.assertEqual(self.visit(verified, **level, in_c_verbs="bytes differ")[0], 0)
        self.fails("C verbs: expected `EBUSY`", verified, **level, in_c_verbs="EBUSY")
        stopped = {**verified, "harm": "[ $VERBENA_CHECKER = off ] || echo verbena: usage error; echo harm: the bytes differ"}
        self.fails("C verbs: the table says that nothing reports", stopped, **level)
        self.fails("only for the level unwritable", in_c_verbs="EBUSY")

    def test_report_of_a_correct_program_fails(self):
        self.fails("twin: ", {"twin": GOOD["caught"]})
        self.fails("false alarm", {"twin": "echo '1 work requests still use memory at process exit'; echo done"})

    def test_answers_for_the_crates_have_reasons(self):
        self.fails("give a reason unless", ibverbs={"stops": "yes", "why": ""})


if __name__ == "__main__":
    unittest.main()
