#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a command in a virtual machine with the kernel's RDMA devices; scripts/dev/help/vm.txt describes `./dev vm`."""
import argparse
import os
import pathlib
import platform
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "vm"))
import kernels  # noqa: E402
import machine  # noqa: E402

DEVICES = ("rxe", "siw")
MOST_NODES = 8


def device_list(text):
    if text == "none":
        return ()
    names = tuple(text.split(","))
    for name in names:
        if name not in DEVICES:
            raise argparse.ArgumentTypeError(f"unknown device '{name}': use rxe, siw, rxe,siw or none")
    return names


def writable_folder(text):
    folder = pathlib.Path(text).resolve()
    if not folder.is_dir() or "\n" in str(folder):
        raise argparse.ArgumentTypeError(f"'{text}' is not an existing folder")
    return folder


def nodes_of(text, memory_mib):
    """Returns the MiB of each NUMA node for a number of nodes (the first gets the remainder) or a list of sizes."""
    sizes = tuple(map(int, text.split(",")))
    if len(sizes) == 1:
        count, sizes = sizes[0], ()
        if 1 <= count <= MOST_NODES:
            sizes = (memory_mib - memory_mib // count * (count - 1), *[memory_mib // count] * (count - 1))
    if not 1 <= len(sizes) <= MOST_NODES or min(sizes) < 1:
        raise ValueError(text)
    return sizes


def positive(text):
    value = float(text)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds between 0 and 1000000")
    return value


def parse(arguments):
    if "--" not in arguments:
        options, command = arguments, []
    else:
        place = arguments.index("--")
        options, command = arguments[:place], arguments[place + 1:]
    parser = argparse.ArgumentParser(prog="./dev vm", add_help=False, allow_abbrev=False)
    parser.add_argument("--kernel", choices=sorted(kernels.METAS), default="6.1")
    parser.add_argument("--devices", type=device_list, default=("rxe",))
    parser.add_argument("--timeout", type=positive, default=600.0)
    parser.add_argument("--writable", type=writable_folder, action="append", default=[])
    parser.add_argument("--memory", type=int, default=2048)
    parser.add_argument("--cpus", type=int, choices=range(1, 9), default=2)
    parser.add_argument("--nodes", default="1")
    parser.add_argument("--console", type=pathlib.Path)
    parser.add_argument("--refresh", action="store_true")
    parser.add_argument("--prepare", action="store_true")
    parsed = parser.parse_args(options)
    try:
        parsed.nodes = nodes_of(parsed.nodes, parsed.memory)
    except ValueError:
        parser.error(f"--nodes {parsed.nodes}: give a number from 1 to {MOST_NODES} or the MiB of each node, as in 1792,256")
    if not command and not parsed.prepare:
        parser.error("the command is missing: ./dev vm [OPTION...] -- COMMAND [ARGUMENT...]; "
                     "an interactive shell is not supported (see --help)")
    return parsed, command


def main(arguments):
    options, command = parse(arguments)
    if platform.machine() != "x86_64":
        kernels.say(f"{platform.machine()} hosts are not supported; use an x86-64 host")
        return machine.BROKEN
    try:
        kernel = kernels.prepare(options.kernel, "siw" in options.devices, options.refresh)
        if not command:
            return 0
        return machine.run(kernel, machine.Request(
            command=command, cwd=pathlib.Path.cwd(), environment=dict(os.environ), devices=options.devices,
            writable=tuple(options.writable), timeout_s=options.timeout, nodes_mib=options.nodes,
            cpus=options.cpus, console=options.console))
    except kernels.VmError as error:
        kernels.say(str(error))
        return machine.BROKEN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
