# SPDX-License-Identifier: MIT
"""Detects the features of this machine that tests need. Used by the tests and by the check of expected skips."""
import ctypes
import functools
import os
import pathlib
import platform
import re
import subprocess
import tempfile

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
def own_hosts():
    """Returns whether an ordinary user can create network namespaces, within a user namespace."""
    return subprocess.run(["unshare", "--user", "--map-root-user", "--net", "true"], stdin=subprocess.DEVNULL, capture_output=True,
                          check=False).returncode == 0


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


def debian_source():
    """Returns the address and the signing key of Debian's packages in the configuration of apt, or None."""
    for file in sorted(pathlib.Path("/etc/apt").glob("sources.list.d/*.sources")):
        for entry in re.split(r"\n\s*\n", file.read_text()):
            address = re.search(r"^URIs:\s*(\S+/debian)/?\s*$", entry, re.M)
            key = re.search(r"^Signed-By:\s*(/\S+)\s*$", entry, re.M)
            if address and key:
                return address.group(1), key.group(1)
    for file in [pathlib.Path("/etc/apt/sources.list"), *sorted(pathlib.Path("/etc/apt").glob("sources.list.d/*.list"))]:
        found = re.search(r"^deb\s+(?:\[.*?\]\s+)?(\S+/debian)/?\s", file.read_text() if file.exists() else "", re.M)
        if found:
            return found.group(1), "/usr/share/keyrings/debian-archive-keyring.gpg"
    return None


def apt_of_suite(suite, folder):
    """Returns options of apt-get for another suite of Debian. The state of apt is in `folder`, not in the system."""
    address, key = debian_source()
    for part in ("state/lists/partial", "cache/archives/partial", "parts"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "sources.list").write_text(f"deb [signed-by={key}] {address} {suite} main\n")
    options = {"Dir::State": folder / "state", "Dir::State::status": "/dev/null", "Dir::Cache": folder / "cache",
               "Dir::Etc::sourcelist": folder / "sources.list", "Dir::Etc::sourceparts": folder / "parts",
               "APT::Sandbox::User": "root", "Acquire::Retries": "2", "Acquire::http::Timeout": "20"}
    return ["-q", *(f"-o{name}={value}" for name, value in options.items())]


@functools.cache
def has_package_sources():
    """Returns whether apt reaches Debian's packages here."""
    if debian_source() is None:
        return False
    with tempfile.TemporaryDirectory(prefix="verbena_apt_") as folder:
        try:
            return subprocess.run(["/usr/lib/apt/apt-helper", "-oAcquire::http::Timeout=20", "download-file",
                                   f"{debian_source()[0]}/dists/stable/Release", f"{folder}/Release"],
                                  stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False
