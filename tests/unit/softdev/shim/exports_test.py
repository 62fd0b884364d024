#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks exports, dependencies and SONAME of libverbena-soft.so."""
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(library):
    defined = {line.split()[-1] for line in output("nm", "-D", "--defined-only", library).splitlines()}
    undefined = [line.split()[-1] for line in output("nm", "-D", "-u", library).splitlines()]
    dynamic = output("readelf", "-d", library)
    problems = []
    if {name for name in defined if not name.startswith(("efadv_", "rdma_"))} != {"verbena_soft_entry"}:
        problems.append(f"exports {sorted(defined)[:10]}, not only verbena_soft_entry and the functions of libefa and librdmacm")
    for name in undefined:
        if name.lstrip("_").startswith(("ibv_", "rdma_", "verbs_", "efadv_", "mlx5dv_")):
            problems.append(f"needs {name}, a function of rdma-core")
    for line in dynamic.splitlines():
        if "(NEEDED)" in line and any(name in line for name in ("ibverbs", "rdmacm", "efa")):
            problems.append(f"is linked to rdma-core: {line.strip()}")
    if "Library soname: [libverbena-soft.so.0]" not in dynamic:
        problems.append("has another SONAME than libverbena-soft.so.0")
    for problem in problems:
        print(f"{library} {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
