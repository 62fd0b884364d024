# SPDX-License-Identifier: MIT
"""Runs modules of rdma-core's Python tests and writes the outcome of each test as JSON.

Called by /usr/bin/python3 in the folder that holds their package `tests`: runner.py OUTPUT DEVICE MODULE...
"""
import importlib
import json
import os
import pathlib
import sys
import unittest


class Outcomes(unittest.TextTestResult):
    """Records one outcome and its reason for each test."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.found = {}

    def note(self, test, outcome, reason=""):
        self.found[test.id()] = {"outcome": outcome, "reason": reason}

    def addSuccess(self, test):
        super().addSuccess(test)
        self.found.setdefault(test.id(), {"outcome": "pass", "reason": ""})

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "fail", str(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "error", str(err[1]))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skip", reason)


def give_addresses():
    """Replaces the function that asks the kernel for the network interface of a device: soft0 uses `lo`."""
    base = importlib.import_module("tests.base")

    def append(case, device, port, index):
        case.args.append([device, port, index, "127.0.0.1", "00:00:00:00:00:00"])
    base.RDMATestCase._get_ip_mac = append


def main():
    output, device, *modules = sys.argv[1:]
    sys.path[:0] = [os.getcwd(), os.path.join(os.getcwd(), "tests")]
    sys.argv[1:] = ["--dev", device]
    importlib.import_module("args_parser").parser.parse_args()
    if any(name.endswith("rdmacm") for name in modules):
        give_addresses()
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromName(f"tests.{name}") for name in modules)
    result = unittest.TextTestRunner(verbosity=2, resultclass=Outcomes).run(suite)
    pathlib.Path(output).write_text(json.dumps(result.found, indent=1, sort_keys=True))


if __name__ == "__main__":
    main()
