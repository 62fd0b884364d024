#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the zoo of classic mistakes: scripts/dev/help/zoo.txt says what for, tests/zoo/README.md how one is written."""
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
# What a legal program must not be told.
ALARMS = re.compile(r"rule broken|in flight when the process exits|left registered|refused")


@dataclasses.dataclass
class Run:
    """A form that ran: how it ended and what it said."""
    status: int
    said: str
    seconds: float

    def line(self, word):
        found = re.search(rf"^{word}: (.*)$", self.said, re.MULTILINE)
        return found.group(1) if found else None

    def last(self):
        lines = self.said.strip().splitlines()
        return lines[-1] if lines else f"nothing, and ended with status {self.status}"


def run_form(program, animal, form):
    environment = {**os.environ, "VERBENA_SOFTDEV": "only", "VERBENA_CHECKER": "off" if form == "harm" else "on"}
    started = time.monotonic()
    try:
        done = subprocess.run([program, animal["name"], form], env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LONGEST_S, check=False)
        status, said = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, said = 124, (late.stdout or b"") + b"\nfailed: it hangs\n"
    return Run(status, said.decode(errors="replace"), time.monotonic() - started)


def judge_harm(animal, run):
    """Complaint or "": the harm must have been seen, and by nobody stopped."""
    if "rule broken" in run.said:
        return f"harm: stopped although the checker is off: {run.last()}"
    if animal["harm"] == "crash":
        return "" if run.status < 0 else f"harm: it does not crash: {run.last()}"
    return "" if run.status == 0 and run.line("harm") else f"harm: none was seen: {run.last()}"


def judge_caught(animal, run):
    words = {"stop": "verbena: rule broken", "value": "told", "unwritable": "held"}[animal["level"]]
    said = run.line(words)
    if said is None or not re.search(animal["words"], said):
        return f"caught: `{words}: {animal['words']}` was expected, it said: {run.last()}"
    if animal["level"] == "stop" and run.status != -6:
        return f"caught: it was not stopped: status {run.status}"
    if animal["level"] != "stop" and (run.status != 0 or "rule broken" in run.said):
        return f"caught: status {run.status}: {run.last()}"
    if animal["level"] == "unwritable" and ALARMS.search(run.said):
        return f"caught: the nearest program is not silent: {run.said.strip()}"
    return ""


def judge_twin(run):
    if run.status != 0 or run.last() != "done":
        return f"twin: status {run.status}: {run.last()}"
    alarm = ALARMS.search(run.said)
    return f"twin: a false alarm: {run.said.strip()}" if alarm else ""


def compile_case(animal):
    """The mistake must be refused, and the same program without it must compile."""
    case = CASES / (animal["words"] + ".cpp")
    command = [sys.executable, "scripts/compile_fail.py", "--compiler", COMPILER, "--flags",
               str(BUILD / "compile_fail_flags.txt"), "--precompiled", str(BUILD / "compile_fail"), str(case)]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout.strip() or "the compiler takes it" if done.returncode else ""


def judge(animal, program, compiles, pool):
    """Starts all that is to be run of an animal; returns a function that waits and judges."""
    forms = ["harm", "twin"] + (["caught"] if animal["level"] != "compiler" else [])
    running = {form: pool.submit(run_form, program, animal, form) for form in forms}
    compiling = pool.submit(compile_case, animal) if animal["level"] == "compiler" and compiles else None

    def finish():
        runs = {form: future.result() for form, future in running.items()}
        found = [judge_harm(animal, runs["harm"]), judge_twin(runs["twin"])]
        if animal["level"] != "compiler":
            found.append(judge_caught(animal, runs["caught"]))
        elif not (CASES / (animal["words"] + ".cpp")).is_file():
            found.append(f"caught: there is no tests/compile_fail/{animal['words']}.cpp")
        elif compiling:
            found.append(compiling.result())
        animal["complaints"] = [complaint for complaint in found if complaint]
        animal["seconds"] = round(sum(run.seconds for run in runs.values()), 2)
        animal["observed"] = runs["harm"].line("harm") or f"ended by signal {-runs['harm'].status}"
        if "caught" in runs:
            animal["said"] = next((said for word in ("verbena: rule broken", "told", "held")
                                   if (said := runs["caught"].line(word))), "")
        return animal
    return finish


def mark(answer):
    return MARKS[answer["stops"]] + ("r" if answer["stops"] != "unknown" else " ")


def row(animal):
    crates = " ".join(mark(animal[crate]) for crate in CRATES.values())
    verdict = "FAILED" if animal["complaints"] else "ok"
    return f"  {animal['name']:<{NAME}} {animal['harm']:<10} {animal['level']:<10} {crates} {verdict}"


NAME = 80 - len("  " + " wrong data unwritable ib rs rr FAILED")


def print_table(animals):
    print(f"{'':<{NAME + 2}} {'harm':<10} {'caught by':<10} {' '.join(CRATES)}")
    shown = ""
    for animal in animals:
        if animal["class"] != shown:
            shown = animal["class"]
            print(shown)
        print(row(animal))
        for complaint in animal["complaints"]:
            print("    " + complaint.replace("\n", "\n    "))


def print_all(animal):
    print(f"\n{animal['name']}: {animal['mistake']}\n  seen: {animal['seen']}\n  harm: {animal['harm']}: "
          f"{animal['observed']}\n  caught by: {animal['level']}: {animal.get('said') or animal['words']}")
    for crate in CRATES.values():
        answer = animal[crate]
        print(f"  {crate}: {answer['stops']}{': ' + answer['why'] if answer['why'] else ''} (read, not tried)")


def check_data(animals):
    """What the table would not show: names that are not there twice, lengths, reasons."""
    names = [animal["name"] for animal in animals]
    found = [f"{name}: there are two of this name" for name in set(names) if names.count(name) > 1]
    for animal in animals:
        if not re.fullmatch(r"[a-z0-9_]+", animal["name"]) or len(animal["name"]) > NAME:
            found.append(f"{animal['name']}: a name is of a-z, 0-9 and _, at most {NAME}")
        found += [f"{animal['name']}: {key} is empty" for key in ("mistake", "seen", "words") if not animal[key]]
        found += [f"{animal['name']}: {crate}: why?" for crate in CRATES.values()
                  if (animal[crate]["stops"] == "unknown") != (not animal[crate]["why"])]
    return found


def summary(animals):
    failed = [animal["name"] for animal in animals if animal["complaints"]]
    by_level = {level: sum(animal["level"] == level for animal in animals)
                for level in ("compiler", "stop", "value", "unwritable")}
    crates = ", ".join(f"{sum(animal[crate]['stops'] == 'yes' for animal in animals)} by {crate}"
                       for crate in CRATES.values())
    levels = ", ".join(f"{count} {level}" for level, count in by_level.items() if count)
    print(f"\n{len(animals)} mistakes: {levels}; {len(failed)} failed. Stopped {crates} (read, not tried).")


def build():
    """Builds the program, and the headers that the cases of tests/compile_fail share; quiet unless it fails."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    configure = ["cmake", "--preset", "dev"]
    if not (BUILD / "CMakeCache.txt").exists():
        configure.append("-DVERBENA_UNITY=ON")
    if os.environ.get("VERBENA_LAUNCHER"):
        configure.append(f"-DCMAKE_CXX_COMPILER_LAUNCHER={os.environ['VERBENA_LAUNCHER']}")
    jobs = str(max(2, os.cpu_count() or 2))
    steps = [configure, ["cmake", "--build", str(BUILD), "--parallel", jobs, "--target", "zoo"],
             ["ctest", "--test-dir", str(BUILD), "--no-tests=error", "-R", "^compile_fail/headers$"]]
    print("Building the zoo ...", file=sys.stderr, flush=True)
    with LOG.open("w") as log:
        for words in steps:
            done = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                  check=False)
            if done.returncode != 0:
                print(LOG.read_text(errors="replace")[-4000:], file=sys.stderr)
                sys.exit(f"zoo: the build failed; the whole log is {LOG.relative_to(ROOT)}")
    return BUILD / "tests" / "zoo" / "zoo"


def parse(arguments):
    parser = argparse.ArgumentParser(prog="./dev zoo", add_help=False)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--class", action="append", default=[], dest="classes")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path)  # for CTest: built already, and compile_fail has its own tests
    options = parser.parse_args(arguments)
    program = options.program or build()
    animals = json.loads(subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    for name, key in [(name, "name") for name in options.only] + [(name, "class") for name in options.classes]:
        if name not in [animal[key] for animal in animals]:
            parser.error(f"there is no {key} '{name}'")
    return options, program, animals


def main(arguments):
    options, program, animals = parse(arguments)
    complaints = check_data(animals)
    if options.only or options.classes:
        animals = [animal for animal in animals if animal["name"] in options.only or animal["class"] in options.classes]
    with concurrent.futures.ThreadPoolExecutor(max(2, os.cpu_count() or 2)) as pool:
        waiting = [judge(animal, program, not options.program, pool) for animal in animals]
        animals = [finish() for finish in waiting]
    print_table(animals)
    for animal in animals:
        if animal["name"] in options.only:
            print_all(animal)
    summary(animals)
    for complaint in complaints:
        print(f"FAILED {complaint}")
    if options.json:
        options.json.write_text(json.dumps({"animals": animals, "complaints": complaints}, indent=1) + "\n")
    return 1 if complaints or any(animal["complaints"] for animal in animals) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("zoo: interrupted")
