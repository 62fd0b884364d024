#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the tables of docs/guide/programs.md from the lists that the tests run. Without --fix it compares."""
import argparse
import importlib.util
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
PAGE = FOLDER.parent.parent / "docs" / "guide" / "programs.md"
BEGIN, END = "<!-- what the tests run: tests/programs/known.py --fix -->", "<!-- end of what the tests run -->"


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def row(*cells):
    return f"| {' | '.join(cells)} |"


def pingpong():
    tests = module(FOLDER / "ibverbs_utils" / "pingpong_test.py")
    programs = {}
    for program, options, *_ in [*tests.CASES, *tests.UNRELIABLE]:
        kinds = programs.setdefault(program, [])
        kinds.extend(kind for kind in [f"`{' '.join(options)}`"] if options and kind not in kinds)
    for program in {program for program, *_ in tests.SUBNET_CASES}:
        programs[program].append("by LID")
    return [row(f"`{program}`", ", ".join(["polling", *kinds])) for program, kinds in programs.items()]


def perftest():
    measures = module(FOLDER / "perftest" / "measures_test.py")
    measures.foreign.Setting.full = True
    programs = {}
    for one in [*measures.plain(), *measures.variants(), *measures.scalable()]:
        words = list(map(str, one.options))
        count = words.index("-n")
        del words[count:count + 2]
        kinds = programs.setdefault(one.program, [])
        kinds.extend(kind for kind in [" ".join(words)] if kind and kind not in kinds)
    return [row(f"`{program}`", ", ".join(["plainly", *(f"`{kind}`" for kind in kinds)]))
            for program, kinds in programs.items()]


def connected():
    sys.path.insert(0, str(FOLDER / "rdmacm"))
    clients = module(FOLDER / "rdmacm" / "clients_test.py")
    programs = {"rping": [f"{' '.join(map(str, options))}" for options, *_ in clients.PINGS],
                "ucmatose": [" ".join(map(str, (*both, *client))) for both, client in clients.CONNECTIONS],
                "udaddy": [" ".join(map(str, options)) for options in clients.DATAGRAMS],
                "mckey": [" ".join(map(str, options)) for options, _ in clients.GROUPS]}
    for server, client, options in clients.ENDPOINTS:
        programs.setdefault(f"{server}`, `{client}", []).append(" ".join(options))
    programs["cmtime"] = [""]
    for program, options, *_ in module(FOLDER / "rdmacm" / "perftest_test.py").RUNS:
        words = list(map(str, options))
        del words[words.index("-n"):words.index("-n") + 2]
        programs.setdefault(f"{program} -R", []).append(" ".join(words))
    return [row(f"`{program}`", ", ".join(dict.fromkeys(f"`{kind}`" if kind else "plainly" for kind in kinds)))
            for program, kinds in programs.items()]


def upstream():
    tests = module(FOLDER / "pyverbs" / "upstream_test.py")
    missing = tests.expected()
    lines = ["", "| module of rdma-core's tests | do not pass |", "|---|---|"]
    for name in (*tests.MODULES, *tests.CM_MODULES, *tests.EFA_MODULES):
        listed = {test: reason for test, (_, reason) in missing.items() if test.split(".")[1] == f"test_{name}"}
        counts = {reason: [test for test in listed if listed[test] == reason] for reason in sorted(set(listed.values()))}
        counted = (f"{'all' if any('*' in test for test in of) else len(of)}: {reason}" for reason, of in counts.items())
        lines.append(row(f"`test_{name}`", "; ".join(counted) or "none"))
    return [*lines, row(f"{len(tests.OTHER_MODULES)} modules for other devices", "those that need an adapter of mlx5 or CUDA")]


def tables():
    lines = ["| program | how |", "|---|---|", row("`ibv_devices`, `ibv_devinfo`", "plainly, `-l`, `-v`"),
             row("`ibv_asyncwatch`", "while things happen to the port and the device"),
             row("`ibstatus`", "plainly, `soft0`, `soft0:1`")]
    return "\n".join([BEGIN, *lines, *pingpong(), *perftest(), *connected(), *upstream(), END])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true")
    fix = parser.parse_args().fix
    sys.path[:0] = [str(FOLDER), str(FOLDER / "perftest")]
    sys.dont_write_bytecode = True
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = before + tables() + after
    if fix:
        PAGE.write_text(wanted)
    elif wanted != text:
        sys.exit("docs/guide/programs.md does not say what the tests run: tests/programs/known.py --fix")


if __name__ == "__main__":
    main()
