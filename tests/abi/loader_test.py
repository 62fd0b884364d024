#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Loads each library and driver of rdma-core that refers to libibverbs with the drop-in, and checks the loader's messages.

  loader_test.py DROPIN-DIRECTORY
"""
import os
import pathlib
import subprocess
import sys

FOLDERS = [pathlib.Path(folder) for folder in ("/usr/lib", "/usr/lib64")]


def libraries():
    """Returns rdma-core's other libraries and its drivers."""
    found = {}
    for folder in FOLDERS:
        for pattern in ("lib*.so.*", "*/lib*.so.*"):
            for path in folder.glob(pattern):
                if path.name.split(".")[0] in ("librdmacm", "libmlx5", "libmlx4", "libefa", "libibverbs"):
                    found[path.resolve()] = path
        found.update({path.resolve(): path for path in folder.glob("**/libibverbs/lib*-rdmav*.so")})
    return sorted(path for path in found if not path.name.startswith("libibverbs.so"))


def problems_of(path, dropin):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(dropin)}
    done = subprocess.run(["ldd", "-r", path], env=environment, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    complaints = [line for line in lines if "undefined symbol" in line or "version" in line]
    used = [line for line in lines if "libibverbs.so.1 =>" in line]
    if not used or str(dropin) not in used[0]:
        complaints.append(f"does not use the drop-in: {used}")
    return complaints


def main(dropin):
    dropin = pathlib.Path(dropin).resolve()
    checked = libraries()
    failed = False
    if len(checked) < 5:
        print(f"only {len(checked)} libraries of rdma-core were found: {checked}")
        failed = True
    for path in checked:
        for complaint in problems_of(path, dropin):
            print(f"{path}: {complaint.strip()}")
            failed = True
    print(f"{len(checked)} libraries")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
