#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails when an archive or object refers to a function of rdma-core, or a program is linked to it.

Verbs are reached through tables that are filled at run time; a direct reference, also one by way of an inline function
or macro of verbs.h, would make every user's program need libibverbs at link time.
"""
import argparse
import re
import subprocess
import sys

FOREIGN = re.compile(r"_?(ibv|rdma|efadv|mlx5dv)_\w+$")
LIBRARIES = re.compile(r"lib(ibverbs|rdmacm|efa|mlx5)\.so")


def tool(*words):
    done = subprocess.run(list(words), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def undefined(path):
    names = [line.split()[-1].split("@")[0] for line in tool("nm", "-u", path).splitlines() if " U " in line]
    return sorted({name for name in names if FOREIGN.match(name)})


def linked(path):
    return sorted(set(re.findall(r"\(NEEDED\).*\[(\S+)\]", tool("readelf", "-d", "-W", path))))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--undefined", nargs="*", default=[], help="archives and objects")
    parser.add_argument("--linked", nargs="*", default=[], help="programs and shared libraries")
    options = parser.parse_args()
    complaints = [f"{path} refers to {', '.join(undefined(path))}" for path in options.undefined if undefined(path)]
    for path in options.linked:
        found = [name for name in linked(path) if LIBRARIES.match(name)]
        if found:
            complaints.append(f"{path} is linked to {', '.join(found)}")
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
