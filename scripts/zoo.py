#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs classic RDMA mistakes. scripts/dev/help/zoo.txt describes `./dev zoo`, tests/zoo/README.md how to add an entry."""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "dev"
LOG = ROOT / "build" / "logs" / "zoo.log"
CASES = ROOT / "tests" / "compile_fail"
COMPILER = "g++-12"
LONGEST_S = 60
CRATES = {"ib": "ibverbs", "rs": "ibverbs-rs", "rr": "rrddmma"}
MARKS = {"yes": "+", "no": "-", "absent": ".", "unknown": "?"}
# Messages that must not appear in the output of a correct program.
ALARMS = re.compile(r"usage error|still use memory at process exit|left registered|refused")


@dataclasses.dataclass
class Run:
    """The status, output and duration of a form that ran."""
    status: int
    said: str
    seconds: float

    def line(self, word):
        found = re.search(rf"^{word}: (.*)$", self.said, re.MULTILINE)
        return found.group(1) if found else None

    def last(self):
        lines = self.said.strip().splitlines()
        return lines[-1] if lines else f"no output, status {self.status}"


def run_form(program, entry, form):
    """Runs a form. `raw` is the form `harm` with the checker: a program of C verbs in a checked build."""
    environment = {**os.environ, "VERBENA_SOFTDEV": "only", "VERBENA_CHECKER": "off" if form == "harm" else "on"}
    started = time.monotonic()
    try:
        done = subprocess.run([program, entry["name"], "harm" if form == "raw" else form], env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LONGEST_S, check=False)
        status, said = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, said = 124, (late.stdout or b"") + b"\nfailed: it hangs\n"
    return Run(status, said.decode(errors="replace"), time.monotonic() - started)


def judge_harm(entry, run):
    """Returns a complaint, or "" if the harm occurred and no check stopped the program."""
    if "usage error" in run.said:
        return f"harm: stopped by a check although the checker is off: {run.last()}"
    if entry["harm"] == "crash":
        return "" if run.status < 0 else f"harm: the program did not crash: {run.last()}"
    return "" if run.status == 0 and run.line("harm") else f"harm: no harm was observed: {run.last()}"


def judge_caught(entry, run):
    words = {"stop": "verbena: usage error", "value": "reported", "unwritable": "verified"}[entry["level"]]
    said = run.line(words)
    if said is None or not re.search(entry["words"], said):
        return f"caught: expected `{words}: {entry['words']}`, but the output is: {run.last()}"
    if entry["level"] == "stop" and run.status != -6:
        return f"caught: the program was not stopped: status {run.status}"
    if entry["level"] != "stop" and (run.status != 0 or "usage error" in run.said):
        return f"caught: status {run.status}: {run.last()}"
    if entry["level"] == "unwritable" and ALARMS.search(run.said):
        return f"caught: the nearest correct program reports: {run.said.strip()}"
    return ""


def judge_raw(entry, run):
    """Returns a complaint if the table is wrong about what reports the mistake in C verbs."""
    if entry["in_c_verbs"]:
        found = re.search(entry["in_c_verbs"], run.said)
        return "" if found else f"C verbs: expected `{entry['in_c_verbs']}`, but the output is: {run.last()}"
    more = [line for line in run.said.splitlines() if line and not line.startswith("harm: ")]
    return f"C verbs: the table says that nothing reports the mistake, but the output is: {more[0]}" if more else ""


def judge_twin(run):
    if run.status != 0 or run.last() != "done":
        return f"twin: status {run.status}: {run.last()}"
    alarm = ALARMS.search(run.said)
    return f"twin: false alarm: {run.said.strip()}" if alarm else ""


def compile_case(entry):
    """Returns a complaint, or "" if the compiler refuses the mistake and compiles the program without the mistake."""
    case = CASES / (entry["words"] + ".cpp")
    command = [sys.executable, "scripts/compile_fail.py", "--compiler", COMPILER, "--flags",
               str(BUILD / "compile_fail_flags.txt"), "--prepared", str(BUILD / "compile_fail"), str(case)]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout.strip() or "the mistake compiles" if done.returncode else ""


def judge(entry, program, compiles, pool):
    """Starts all forms of an entry; returns a function that waits for them and evaluates the entry."""
    forms = ["harm", "twin"] + (["caught"] if entry["level"] != "compiler" else [])
    forms += ["raw"] if entry["level"] == "unwritable" else []
    running = {form: pool.submit(run_form, program, entry, form) for form in forms}
    compiling = pool.submit(compile_case, entry) if entry["level"] == "compiler" and compiles else None

    def finish():
        runs = {form: future.result() for form, future in running.items()}
        found = [judge_harm(entry, runs["harm"]), judge_twin(runs["twin"])]
        if entry["level"] != "compiler":
            found.append(judge_caught(entry, runs["caught"]))
        elif not (CASES / (entry["words"] + ".cpp")).is_file():
            found.append(f"caught: tests/compile_fail/{entry['words']}.cpp does not exist")
        elif compiling:
            found.append(compiling.result())
        if "raw" in runs:
            found.append(judge_raw(entry, runs["raw"]))
        entry["complaints"] = [complaint for complaint in found if complaint]
        entry["seconds"] = round(sum(run.seconds for run in runs.values()), 2)
        entry["observed"] = runs["harm"].line("harm") or f"ended by signal {-runs['harm'].status}"
        if "caught" in runs:
            entry["said"] = next((said for word in ("verbena: usage error", "reported", "verified")
                                   if (said := runs["caught"].line(word))), "")
        return entry
    return finish


def mark(answer):
    return MARKS[answer["stops"]] + ("r" if answer["stops"] != "unknown" else " ")


def row(entry):
    crates = " ".join(mark(entry[crate]) for crate in CRATES.values())
    verdict = "BAD" if entry["complaints"] else "ok"
    in_c = " " if entry["level"] != "unwritable" else "+" if entry["in_c_verbs"] else "-"
    return f"  {entry['name']:<{NAME}} {entry['harm']:<10} {entry['level']:<10} {in_c} {crates} {verdict}"


NAME = 80 - len("  " + " wrong data unwritable C ib rs rr BAD")


def print_table(entries):
    print(f"{'':<{NAME + 2}} {'harm':<10} {'caught by':<10} C {' '.join(CRATES)}")
    shown = ""
    for entry in entries:
        if entry["class"] != shown:
            shown = entry["class"]
            print(shown)
        print(row(entry))
        for complaint in entry["complaints"]:
            print("    " + complaint.replace("\n", "\n    "))


def print_all(entry):
    print(f"\n{entry['name']}: {entry['mistake']}\n  seen: {entry['seen']}\n  harm: {entry['harm']}: "
          f"{entry['observed']}\n  caught by: {entry['level']}: {entry.get('said') or entry['words']}")
    if entry["level"] == "unwritable":
        print(f"  in C verbs: {entry['in_c_verbs'] or 'nothing reports the mistake, in checked builds neither'}")
    for crate in CRATES.values():
        answer = entry[crate]
        print(f"  {crate}: {answer['stops']}{': ' + answer['why'] if answer['why'] else ''} (from the sources, not tested)")


def check_data(entries):
    """Returns complaints about the data: duplicate or invalid names, empty texts, missing reasons."""
    names = [entry["name"] for entry in entries]
    found = [f"{name}: the name is not unique" for name in set(names) if names.count(name) > 1]
    for entry in entries:
        if not re.fullmatch(r"[a-z0-9_]+", entry["name"]) or len(entry["name"]) > NAME:
            found.append(f"{entry['name']}: use only a-z, 0-9 and _, at most {NAME} characters")
        found += [f"{entry['name']}: {key} is empty" for key in ("mistake", "seen", "words") if not entry[key]]
        if entry["in_c_verbs"] and entry["level"] != "unwritable":
            found.append(f"{entry['name']}: in_c_verbs is only for the level unwritable")
        found += [f"{entry['name']}: {crate}: give a reason unless the answer is unknown" for crate in CRATES.values()
                  if (entry[crate]["stops"] == "unknown") != (not entry[crate]["why"])]
    return found


def summary(entries):
    failed = [entry["name"] for entry in entries if entry["complaints"]]
    by_level = {level: sum(entry["level"] == level for entry in entries)
                for level in ("compiler", "stop", "value", "unwritable")}
    crates = ", ".join(f"{sum(entry[crate]['stops'] == 'yes' for entry in entries)} by {crate}"
                       for crate in CRATES.values())
    levels = ", ".join(f"{count} {level}" for level, count in by_level.items() if count)
    print(f"\n{len(entries)} mistakes: {levels}; {len(failed)} failed. Stopped {crates} (from the sources, not tested).")
    raw = [entry for entry in entries if entry["level"] == "unwritable"]
    silent = sum(not entry["in_c_verbs"] for entry in raw)
    if raw:
        print(f"Programs that use C verbs can make the {len(raw)} unwritable mistakes: a status, an errno or the checker "
              f"reports {len(raw) - silent} (+), nothing reports {silent} (-).")


def build():
    """Builds the program and prepares the cases of tests/compile_fail; prints the log only on failure."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    configure = ["cmake", "--preset", "dev"]
    if not (BUILD / "CMakeCache.txt").exists():
        configure.append("-DVERBENA_UNITY=ON")
    if os.environ.get("VERBENA_COMPILER_LAUNCHER"):
        configure.append(f"-DCMAKE_CXX_COMPILER_LAUNCHER={os.environ['VERBENA_COMPILER_LAUNCHER']}")
    jobs = str(max(2, os.cpu_count() or 2))
    steps = [configure, ["cmake", "--build", str(BUILD), "--parallel", jobs, "--target", "zoo"],
             ["ctest", "--test-dir", str(BUILD), "--no-tests=error", "-R", "^compile_fail/prepare$"]]
    print("Building the zoo ...", file=sys.stderr, flush=True)
    with LOG.open("w") as log:
        for words in steps:
            done = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                  check=False)
            if done.returncode != 0:
                print(LOG.read_text(errors="replace")[-4000:], file=sys.stderr)
                sys.exit(f"zoo: the build failed; the whole output is in {LOG.relative_to(ROOT)}")
    return BUILD / "tests" / "zoo" / "zoo"


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev zoo", add_help=False)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--class", action="append", default=[], dest="classes")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path)  # for CTest, which builds the program and tests compile_fail separately
    options = parser.parse_args(arguments)
    program = options.program or build()
    entries = json.loads(subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    for name, key in [(name, "name") for name in options.only] + [(name, "class") for name in options.classes]:
        if name not in [entry[key] for entry in entries]:
            parser.error(f"unknown {key} '{name}'")
    return options, program, entries


def main(arguments):
    options, program, entries = parse(arguments)
    complaints = check_data(entries)
    if options.only or options.classes:
        entries = [entry for entry in entries if entry["name"] in options.only or entry["class"] in options.classes]
    with concurrent.futures.ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as pool:
        waiting = [judge(entry, program, not options.program, pool) for entry in entries]
        entries = [finish() for finish in waiting]
    print_table(entries)
    for entry in entries:
        if entry["name"] in options.only:
            print_all(entry)
    summary(entries)
    for complaint in complaints:
        print(f"FAILED {complaint}")
    if options.json:
        options.json.write_text(json.dumps({"entries": entries, "complaints": complaints}, indent=1) + "\n")
    return 1 if complaints or any(entry["complaints"] for entry in entries) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("zoo: interrupted")
