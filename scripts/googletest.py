# SPDX-License-Identifier: MIT
"""Reads the list of tests of GoogleTest programs."""
import subprocess


def tests_of(program, choice="*"):
    """Returns the names of the tests that a GoogleTest filter selects, in the order of the program."""
    listed = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={choice}"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    suite, names = "", []
    for line in listed.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            names.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return names
