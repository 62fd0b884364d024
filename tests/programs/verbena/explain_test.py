# SPDX-License-Identifier: MIT
"""`verbena explain`: the vendor error codes of soft0."""
import json
import re
import unittest

import harness


class Explain(harness.Case):
    def test_describes_a_code_in_decimal_and_in_hexadecimal(self):
        for code in ("0x303", "771"):
            done = harness.verbena("explain", code)
            self.assertEqual(done.returncode, 0, harness.text(done.stderr))
            lines = harness.text(done.stdout).splitlines()
            self.assertEqual(lines[0], "0x303 remote_range (IBV_WC_REM_ACCESS_ERR)")
            self.assertIn("exceeds the peer's memory region", lines[1])
            self.assertTrue(lines[2].startswith("  remedy: "), lines[2])

    def test_lists_all_codes_in_ascending_order_and_with_all_texts(self):
        rows = json.loads(harness.text(harness.verbena("explain", "--json").stdout))
        codes = [row["code"] for row in rows]
        self.assertEqual(codes, sorted(set(codes)))
        self.assertGreater(len(codes), 30)
        for row in rows:
            for key in ("name", "status", "check", "remedy"):
                self.assertTrue(row[key], row)
        printed = harness.text(harness.verbena("explain").stdout)
        headings = re.sub(r"\n {6}(?! )", " ", printed)  # they continue below the name
        for row in rows:
            self.assertIn(f"0x{row['code']:x} {row['name']} ({row['status']})\n", headings)
        self.assertLessEqual(max(map(len, printed.splitlines())), 80)

    def test_refuses_an_unknown_code_and_other_text(self):
        done = harness.verbena("explain", "0x999")
        self.assertEqual(done.returncode, 1)
        self.assertIn("soft0 has no vendor error code 0x999", harness.text(done.stderr))
        done = harness.verbena("explain", "0xffffffff")
        self.assertEqual(done.returncode, 1)
        self.assertIn("soft0 has no vendor error code 0xffffffff", harness.text(done.stderr))
        self.assertEqual(harness.verbena("explain", "range").returncode, 2)
        self.assertEqual(harness.verbena("explain", "0").returncode, 2)


if __name__ == "__main__":
    unittest.main()
