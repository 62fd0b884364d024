# SPDX-License-Identifier: MIT
"""Runs all of rdma-core's Python tests, as packaged by Debian, on soft0.

pyverbs_expected.txt lists every test that does not pass, with the reason. A test that is not listed must pass. A listed
test must not pass, unless its outcome depends on the machine ("maybe": passes or is skipped).
"""
import fnmatch
import gzip
import json
import os
import pathlib
import shutil
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
import foreign  # noqa: E402

SHIPPED = pathlib.Path("/usr/share/doc/rdma-core/tests")
INTERPRETER = "/usr/bin/python3"  # the interpreter of Debian's pyverbs
MODULES = ("addr", "atomic", "cq", "cq_events", "cqex", "device", "flow", "fork", "mr", "odp", "parent_domain", "pd", "qp",
           "qpex", "relaxed_ordering", "rss_traffic", "shared_pd", "tag_matching")
CM_MODULES = ("rdmacm",)
EFA_MODULES = ("efa_srd", "efadv")  # run with soft0 as an Elastic Fabric Adapter
# Modules for other devices, which run to show that each of their tests is skipped or passes.
OTHER_MODULES = ("cuda_dmabuf", *(f"mlx5_{name}" for name in (
    "cq", "crypto", "cuda_umem", "dc", "devx", "dm_ops", "dma_memcpy", "dr", "flow", "huge_page", "lag_affinity", "mkey", "pp",
    "query_port", "raw_wqe", "rdmacm", "sched", "timestamp", "uar", "udp_sport", "var", "vfio")))


def unpack(folder):
    """Copies the tests and decompresses those that Debian compresses."""
    target = folder / "tests"
    target.mkdir()
    for path in SHIPPED.iterdir():
        if path.suffix == ".gz":
            (target / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, target)


def expected():
    """Returns {test: (outcome, reason)} of pyverbs_expected.txt."""
    table = {}
    for line in (FOLDER / "pyverbs_expected.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            outcome, test, reason = (part.strip() for part in line.split("|", 2))
            table[test] = (outcome, reason)
    return table


def pattern_of(test, listed):
    """Returns the pattern of the list that matches the test, or None."""
    return test if test in listed else next((each for each in listed if fnmatch.fnmatchcase(test, each)), None)


def differences(outcomes, listed):
    """Returns a line with a remedy for each outcome that differs from the list."""
    lines, used = [], set()
    for test, found in sorted(outcomes.items()):
        pattern = pattern_of(test, listed)
        used.add(pattern)
        outcome = listed[pattern][0] if pattern else "pass"
        wanted = ("pass", "skip") if outcome == "maybe" else (outcome,)
        if found["outcome"] not in wanted:
            lines.append(f"{test}: expected {outcome}, found {found['outcome']} ({found['reason']})")
    return lines + [f"{test}: listed, but there is no such test" for test in sorted(set(listed) - used)]


def module_of(test):
    return test.split(".")[1].removeprefix("test_")


def shipped_modules():
    """Returns the modules of tests that Debian's package contains."""
    return {path.name.split(".")[0].removeprefix("test_") for path in SHIPPED.glob("test_*.py*")}


class Upstream(foreign.Case):
    def check(self, modules):
        with tempfile.TemporaryDirectory(prefix="verbena-pyverbs-") as name:
            folder = pathlib.Path(name)
            unpack(folder)
            shutil.copy(FOLDER / "runner.py", folder)
            output = folder / "outcomes.json"
            output.touch()
            os.chmod(folder, 0o755)
            os.chown(output, foreign.uid(), -1)
            done = foreign.run(INTERPRETER, "-B", "runner.py", output, "soft0",
                               *(f"test_{module}" for module in modules), cwd=folder)
            self.assert_succeeded(done)
            outcomes = json.loads(output.read_text())
        passed = sum(found["outcome"] == "pass" for found in outcomes.values())
        print(f"{len(outcomes)} tests, {passed} pass", flush=True)
        self.assertEqual({module_of(test) for test in outcomes}, set(modules), done)
        listed = {test: what for test, what in expected().items() if module_of(test) in modules}
        found = "\n".join(differences(outcomes, listed))
        self.assertFalse(found, f"{found}\n{done}")

    def test_outcomes_are_the_listed_ones(self):
        self.check(MODULES)

    def test_outcomes_of_connections_are_the_listed_ones(self):
        if foreign.Setting.full or foreign.Setting.number() in (0, 3):  # each way and each user once
            self.check(CM_MODULES)

    def test_outcomes_of_an_efa_are_the_listed_ones(self):
        with foreign.Setting.also(VERBENA_SOFTDEV_PERSONA="efa"):
            self.check(EFA_MODULES)

    def test_outcomes_of_tests_for_other_devices_are_the_listed_ones(self):
        if foreign.Setting.full or foreign.Setting.number() in (1, 2):
            self.check(OTHER_MODULES)

    def test_every_shipped_module_runs(self):
        listed = [*MODULES, *CM_MODULES, *EFA_MODULES, *OTHER_MODULES]
        self.assertEqual(sorted(listed), sorted(shipped_modules()))

    def test_every_listed_test_has_a_reason(self):
        for test, (outcome, reason) in expected().items():
            self.assertIn(outcome, ("fail", "error", "skip", "maybe"), test)
            self.assertTrue(reason, test)

    def test_both_kinds_of_differences_are_found(self):
        passing = {"outcome": "pass", "reason": ""}
        skipped = {"outcome": "skip", "reason": "why"}
        listed = {"b": ("skip", "reason"), "gone": ("fail", "reason")}
        self.assertEqual(differences({"a": passing, "b": skipped}, {"b": ("skip", "reason")}), [])
        self.assertEqual(differences({"a": passing, "b": skipped}, {"a": ("maybe", "x"), "b": ("maybe", "x")}), [])
        self.assertEqual(len(differences({"a": skipped, "b": skipped}, {"b": ("skip", "reason")})), 1)
        self.assertEqual(len(differences({"a": passing, "b": passing}, listed)), 2)

    def test_a_pattern_applies_to_each_test_that_no_own_line_lists(self):
        passing = {"outcome": "pass", "reason": ""}
        skipped = {"outcome": "skip", "reason": "why"}
        listed = {"m.*": ("skip", "reason"), "m.b": ("maybe", "reason")}
        self.assertEqual(differences({"m.a": skipped, "m.b": passing}, listed), [])
        self.assertEqual(len(differences({"m.a": passing, "m.b": passing}, listed)), 1)
        self.assertEqual(len(differences({"m.b": passing}, listed)), 1)


if __name__ == "__main__":
    foreign.main()
