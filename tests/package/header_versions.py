#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compiles all installed headers of Verbena, and a program on soft0, with the headers of one version of rdma-core.

The program is linked with the library of this build. VERSION is `installed`; a number: the installed headers without the
names of later versions (older_headers.py); or a suite of Debian, whose packages are fetched.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import older_headers

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "scripts"))
import places  # noqa: E402

SKIPPED = 77
PACKAGES = ("libibverbs-dev", "librdmacm-dev")


class Failed(Exception):
    pass


def run(*words, **settings):
    done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          stdin=subprocess.DEVNULL, **settings)
    if done.returncode != 0:
        raise Failed(f"$ {' '.join(map(str, words))}\nstatus {done.returncode}\n{done.stdout}")
    return done.stdout


def installed():
    """The folder with the headers of the installed rdma-core."""
    found = run("pkg-config", "--variable=includedir", "libibverbs").strip()
    return pathlib.Path(found)


def fetched(suite, folder, kept):
    """The headers of the packages of a suite of Debian. They are kept in the folder `kept`."""
    if (kept / suite).exists():
        return kept / suite / "usr/include"
    settings = places.apt_of_suite(suite, folder)
    run("apt-get", *settings, "update")
    run("apt-get", *settings, "download", *PACKAGES, cwd=folder)
    for package in folder.glob("*.deb"):
        run("dpkg-deb", "-x", package, folder / "tree")
    kept.mkdir(parents=True, exist_ok=True)
    # A rename, so that an interrupted test leaves no half of a tree.
    shutil.copytree(folder / "tree", kept / f"{suite}.new", symlinks=True, dirs_exist_ok=True)
    (kept / f"{suite}.new").rename(kept / suite)
    return kept / suite / "usr/include"


def without_system_headers(compiler, folder):
    """Options that make the compiler search its own folders without those of the installed rdma-core."""
    said = run(compiler, "-E", "-v", "-x", "c++", "/dev/null")
    searched = re.search(r"search starts here:\n#include <\.\.\.>.*?:\n(.*?)End of search list", said, re.S)
    words = ["-nostdinc", "-nostdinc++"]
    for place in searched.group(1).split("\n"):
        place = pathlib.Path(place.strip())
        if not place.name:
            continue
        if (place / "infiniband").exists():
            shadow = folder / "shadow"
            (shadow / "rdma").mkdir(parents=True)
            for entry in place.iterdir():
                if entry.name not in ("infiniband", "rdma"):
                    (shadow / entry.name).symlink_to(entry)
            for entry in (place / "rdma").iterdir():  # the other headers are the kernel's
                if not entry.name.startswith(("rdma_cma", "rdma_verbs", "rsocket")):
                    (shadow / "rdma" / entry.name).symlink_to(entry)
            place = shadow
        words += ["-isystem", place]
    return words


def check(options, headers, folder, *more):
    program = folder / "program"
    run(options.compiler, "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *options.flag,
        f'-DVERBENA_ALL_HEADERS="{options.all_headers}"', f"-I{HERE.parent.parent}/include", "-isystem", headers,
        *without_system_headers(options.compiler, folder), *more, HERE / "header_versions.cpp", options.library,
        *options.link, "-o", program)
    said = run(program, env={**os.environ, "VERBENA_SOFTDEV": "on", "VERBENA_SOFTDEV_LIBRARY": str(options.device)})
    if "received: hello" not in said:
        raise Failed(f"the program said:\n{said}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--library", required=True, help="libverbena.a")
    parser.add_argument("--device", required=True, help="libverbena-soft.so")
    parser.add_argument("--all-headers", required=True, help="a file that includes all headers")
    parser.add_argument("--kept", type=pathlib.Path, required=True, help="the folder of fetched headers")
    parser.add_argument("--flag", action="append", default=[], help="an option of the compiler")
    parser.add_argument("--link", action="append", default=[], help="a library")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="verbena_headers_") as folder:
        folder = pathlib.Path(folder).resolve()
        try:
            headers = folder / "headers"
            if options.version == "installed":
                older_headers.make(installed(), headers, sys.maxsize)
            elif options.version.isdigit():
                older_headers.make(installed(), headers, int(options.version))
            elif not places.has_package_sources():
                print("skipped: the package sources of Debian cannot be reached")
                return SKIPPED
            else:
                headers = fetched(options.version, folder, options.kept)
            check(options, headers, folder)
            # As in MLNX_OFED, which has no driver for EFA.
            if options.version == "28":
                (headers / "infiniband/efadv.h").unlink()
                shutil.rmtree(folder / "shadow")
                check(options, headers, folder, "-fsyntax-only")
        except Failed as failed:
            print(failed, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
