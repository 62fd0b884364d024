# SPDX-License-Identifier: MIT
"""What programs made with GoogleTest say of themselves."""
import subprocess


def tests_of(program, choice="*"):
    """The names of the tests that a filter of GoogleTest chooses, in the program's order."""
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
