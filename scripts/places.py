# SPDX-License-Identifier: MIT
"""Detects the features of this machine that tests need. Used by the tests and by the check of expected skips."""
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
    """Returns the command that starts a process in its own mount namespace, or None if that is not permitted."""
    for command in OWN_MOUNTS:
        tried = subprocess.run([*command, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], stdin=subprocess.DEVNULL,
                               capture_output=True, check=False)
        if tried.returncode == 0:
            return command
    return None


@functools.cache
def own_users():
    """Returns whether a process can create its own user namespace."""
    return subprocess.run(["unshare", "--user", "true"], stdin=subprocess.DEVNULL, capture_output=True,
                          check=False).returncode == 0


@functools.cache
def own_network():
    """Returns whether a process can create its own network namespace."""
    return any(subprocess.run([*command, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0
               for command in (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"]))


@functools.cache
def userfaultfd_is_available():
    """Returns whether userfaultfd(2) for faults in user mode is available to this process."""
    system_call = {"x86_64": 323, "aarch64": 282}.get(platform.machine())
    descriptor = ctypes.CDLL(None).syscall(system_call, 1) if system_call else -1
    if descriptor >= 0:
        os.close(descriptor)
    return descriptor >= 0


def may_place():
    """Returns whether the kernel permits this process to place memory on NUMA nodes (tests/unit/memory/host_pages.hpp)."""
    system_call = {"x86_64": 238, "aarch64": 237}.get(platform.machine())
    return system_call is not None and ctypes.CDLL(None).syscall(system_call, 0, None, 0) == 0


def has_huge_pages():
    free = re.search(r"HugePages_Free:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return free is not None and int(free.group(1)) >= HUGE_PAGES_WANTED
