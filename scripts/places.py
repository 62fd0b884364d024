# SPDX-License-Identifier: MIT
"""What the place where tests run allows: asked by the tests themselves and by whoever counts their skips."""
import ctypes
import functools
import os
import pathlib
import platform
import re
import subprocess

OWN_MOUNTS = (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"])
HUGE_PAGES_WANTED = 4  # tests/unit/verbs/huge_pages_turn.hpp


@functools.cache
def own_mounts():
    """The command that gives a process a mount table of its own, or None where that is not allowed."""
    for command in OWN_MOUNTS:
        tried = subprocess.run([*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], stdin=subprocess.DEVNULL,
                               capture_output=True, check=False)
        if tried.returncode == 0:
            return command
    return None


@functools.cache
def own_network():
    """Whether a process may have network interfaces of its own."""
    return any(subprocess.run([*command, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0
               for command in (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"]))


@functools.cache
def tells_of_memory():
    """Whether the kernel tells a process what happens to its memory: userfaultfd(2), for faults in user mode."""
    system_call = {"x86_64": 323, "aarch64": 282}.get(platform.machine())
    descriptor = ctypes.CDLL(None).syscall(system_call, 1) if system_call else -1
    if descriptor >= 0:
        os.close(descriptor)
    return descriptor >= 0


def has_huge_pages():
    free = re.search(r"HugePages_Free:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return free is not None and int(free.group(1)) >= HUGE_PAGES_WANTED
