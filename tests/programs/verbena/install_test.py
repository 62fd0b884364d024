# SPDX-License-Identifier: MIT
"""An installation in a folder that is not known at build time: bin/verbena finds its libraries only there."""
import os
import subprocess
import unittest

import harness

BUILD = os.environ["BUILD"]


class Installation(harness.Case):
    def setUp(self):
        super().setUp()
        self.prefix = self.work / "prefix"
        done = subprocess.run(["cmake", "--install", BUILD, "--component", "runtime", "--prefix", str(self.prefix)],
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.BOUND, check=False)
        self.assert_ended(done)

    def tool(self, *words):
        return subprocess.run([self.prefix / "bin/verbena", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=harness.BOUND, check=False)

    def test_shows_soft0_by_its_own_library(self):
        self.assert_ended(self.tool("devinfo", "soft0"))
        for library in self.prefix.rglob("libverbena-soft.so*"):
            library.unlink()
        self.assertEqual(self.tool("devinfo", "soft0").returncode, 1)

    def test_runs_programs_by_its_own_libraries(self):
        for way in ("--preload", "--dropin"):
            done = self.tool("run", "-v", way, "--", "ibv_devices")
            self.assert_ended(done)
            self.assertIn("soft0", harness.text(done.stdout))
            self.assertRegex(harness.text(done.stderr), rf"LD_PRELOAD={self.prefix}/lib")

    def test_prints_its_version(self):
        self.assertRegex(harness.text(self.tool("--version").stdout), r"\Averbena \d+\.\d+\.\d+\n\Z")


if __name__ == "__main__":
    unittest.main()
