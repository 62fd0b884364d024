# SPDX-License-Identifier: MIT
"""`verbena launch` starts the ranks of a group; `verbena store` serves groups of other launchers."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

import harness

GROUP = pathlib.Path(os.environ["BUILD"]) / "examples" / "group"


def launch(count, *program, **options):
    return harness.verbena("launch", "-n", count, "--", *program, **options)


class Launch(harness.Case):
    def start(self, count, *program):
        """Starts ranks, which end with the test."""
        started = subprocess.Popen([harness.VERBENA, "launch", "-n", str(count), "--", *program], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for each in (started.stdout.close, started.stderr.close, started.wait, started.kill):
            self.addCleanup(each)
        return started

    def test_gives_each_process_its_place(self):
        done = launch(4, "sh", "-c", 'echo "$RANK $LOCAL_RANK $WORLD_SIZE $VERBENA_STORE $VERBENA_SECRET $1"', "sh", "an argument")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = sorted(harness.text(done.stdout).splitlines())
        self.assertEqual(len(lines), 4)
        stores = set()
        for rank, line in enumerate(lines):
            found = re.fullmatch(rf"{rank} {rank} 4 (127\.0\.0\.1:\d+ [0-9a-f]{{64}}) an argument", line)
            self.assertIsNotNone(found, line)
            stores.add(found[1])
        self.assertEqual(len(stores), 1)
        # Another launch has another secret.
        self.assertNotIn(stores.pop().split()[1], harness.text(launch(1, "sh", "-c", "echo $VERBENA_SECRET").stdout))

    def test_replaces_the_place_in_the_environment(self):
        done = launch(1, "sh", "-c", "echo $RANK $WORLD_SIZE", env={"RANK": "7", "WORLD_SIZE": "9"})
        self.assertEqual(harness.text(done.stdout), "0 1\n")

    def test_names_the_ranks_that_failed_and_returns_the_first_status(self):
        started = self.start(3, "sh", "-c",
                             "[ $RANK != 1 ] || exit 7; [ $RANK != 2 ] || { echo $$; exec sleep 300; }")
        second = int(started.stdout.readline())
        first_line = started.stderr.readline().decode()
        self.assertRegex(first_line, r"verbena launch: rank 1 \(process \d+\) ended with status 7\n")
        os.kill(second, signal.SIGKILL)
        self.assertEqual(started.stderr.read().decode(),
                         f"verbena launch: rank 2 (process {second}) was ended by signal 9 (Killed)\n")
        self.assertEqual(started.wait(harness.BOUND), 7)

    def test_returns_the_signal_of_a_rank(self):
        self.assertEqual(launch(2, "sh", "-c", "[ $RANK = 0 ] || kill -KILL $$").returncode, 128 + signal.SIGKILL)

    def test_passes_signals_on(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            started = self.start(2, sys.executable, "-c",
                                 "import os, signal, sys\n"
                                 "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])\n"
                                 "os.write(1, b'ready\\n')\n"
                                 "sys.exit(signal.sigwait([signal.SIGTERM, signal.SIGINT]))")
            for _ in range(2):
                self.assertEqual(started.stdout.readline(), b"ready\n")
            started.send_signal(number)
            self.assertEqual(started.wait(harness.BOUND), number, started.stderr.read())

    def test_interrupts_reach_each_process_once(self):
        for by in ("the terminal", "kill"):
            with self.subTest(by):
                started, keyboard = self.start_on_terminal("launch", "-n", 2, "--", sys.executable, "-c", harness.COUNT_INTERRUPTS)
                self.assert_ready(started, 2)
                if by == "kill":
                    started.send_signal(signal.SIGINT)
                    self.assert_interrupted(started, 2)
                else:
                    self.interrupt(started, keyboard, 2)
                started.send_signal(signal.SIGTERM)
                self.assertEqual(started.wait(harness.BOUND), 0, started.stderr.read())

    def test_ends_if_it_was_started_with_ignored_signals_of_children(self):
        done = subprocess.run([harness.VERBENA, "launch", "-n", "2", "--", "sh", "-c", "exit 3"], check=False, capture_output=True,
                              timeout=harness.BOUND, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(done.returncode, 3, done.stderr)

    def test_ranks_end_with_the_launcher(self):
        started = self.start(2, "sh", "-c", "echo ready; exec sleep 300")
        for _ in range(2):
            self.assertEqual(started.stdout.readline(), b"ready\n")
        started.kill()
        # The end of the output is the end of all processes that have it.
        self.assertEqual(started.stdout.read(), b"")

    def test_refuses_programs_that_cannot_be_started(self):
        missing = launch(2, self.work / "missing")
        self.assertEqual(missing.returncode, 127)
        self.assertIn("missing: No such file or directory", harness.text(missing.stderr))
        self.assertEqual(launch(1, self.script("plain", "", 0o644)).returncode, 126)

    def test_refuses_wrong_arguments(self):
        for words, why in ((("-n", "2"), "the program is missing; usage: verbena launch -n N -- PROGRAM ARGS..."),
                           (("-n", "0", "--", "true"), "Value 0 not in range 1 to 4096"), (("--", "true"), "required"),
                           (("-n", "4097", "--", "true"), "Value 4097 not in range")):
            done = harness.verbena("launch", *words)
            self.assertEqual(done.returncode, 125, words)
            self.assertIn(why, harness.text(done.stderr))


class Group(harness.Case):
    """The program of the guide."""

    def assert_measured(self, done, ranks):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"barrier of {ranks} ranks, dissemination", harness.text(done.stdout))

    def test_by_launch(self):
        self.assert_measured(launch(3, GROUP), 3)

    def test_by_a_separate_store(self):
        secret = {"VERBENA_SECRET": "of this test"}
        store = subprocess.Popen([harness.VERBENA, "store", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=harness.environment(**secret))
        for each in (store.stdout.close, store.stderr.close, store.wait, store.kill):
            self.addCleanup(each)
        name, place = store.stdout.readline().decode().strip().split("=")
        self.assertEqual(name, "VERBENA_STORE")
        stranger = subprocess.run([str(GROUP)], stderr=subprocess.PIPE, timeout=harness.BOUND, check=False,
                                  env=harness.environment(RANK="0", WORLD_SIZE="2", VERBENA_STORE=place))
        self.assertEqual(stranger.returncode, 1)
        self.assertIn(b"the store requires a secret", stranger.stderr)
        ranks = [subprocess.Popen([str(GROUP)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  env=harness.environment(RANK=str(rank), WORLD_SIZE="2", VERBENA_STORE=place, **secret))
                 for rank in range(2)]
        output = [each.communicate(timeout=harness.BOUND)[0] for each in ranks]
        self.assertEqual([each.returncode for each in ranks], [0, 0])
        self.assertIn(b"barrier of 2 ranks", output[0])
        store.send_signal(signal.SIGTERM)
        self.assertRegex(store.stderr.read().decode(), r"verbena store: 3 connections, 0 refused, \d+ exchanges, 0 failed")
        self.assertEqual(store.wait(harness.BOUND), 0)


class Store(harness.Case):
    def test_refuses_addresses(self):
        wrong = harness.verbena("store", "--listen", "127.0.0.1:x")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("127.0.0.1:x", harness.text(wrong.stderr))
        foreign = harness.verbena("store", "--listen", "192.0.2.77:29500")
        self.assertEqual(foreign.returncode, 1)
        self.assertIn("192.0.2.77", harness.text(foreign.stderr))


if __name__ == "__main__":
    unittest.main()
