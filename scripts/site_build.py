#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the site: documents, reference, examples and benchmarks. scripts/dev/help/docs.txt describes it."""
import argparse
import pathlib
import shutil
import subprocess
import sys
import time

import reference

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The interpreter for which Debian packages Sphinx, matplotlib and Selenium.
PYTHON = "/usr/bin/python3" if pathlib.Path("/usr/bin/python3").exists() else sys.executable
TOOLS = ("doxygen", "sphinx-build", "linkchecker")


class Failed(Exception):
    """A step of the build found faults; the text lists them."""


def run(what, *words, cwd=ROOT):
    done = subprocess.run([str(word) for word in words], cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{done.stdout.strip()}\n{what} failed with status {done.returncode}")
    return done.stdout


def lay_out(output):
    """Writes all input of Sphinx to output/pages."""
    complaints = reference.run(ROOT, output)
    run("drawing the benchmarks", PYTHON, ROOT / "bench/plot.py", output / "plots")
    import site_pages  # imported here because the module reads the results of the steps above
    pages = site_pages.Pages(ROOT)
    plots = {path.stem: path for path in (output / "plots").glob("*.svg") if (ROOT / f"bench/results/{path.stem}.json").exists()}
    pages.make(output / "xml", plots)
    pages.write(output / "pages")
    if complaints or pages.problems:
        raise Failed("\n".join(complaints + pages.problems))


def build(output):
    # Built from an empty folder: otherwise Sphinx keeps old titles and removed pages in the sidebars of other pages.
    for old in ("doctrees", "html"):
        shutil.rmtree(output / old, ignore_errors=True)
    run("sphinx-build", "sphinx-build", "-b", "html", "-c", ROOT / "docs/site", "-d", output / "doctrees", "-j", "2", "-q", "-W",
        "--keep-going", output / "pages", output / "html")


def check_links(html):
    import site_links
    complaints = site_links.check(html)
    if complaints:
        raise Failed("\n".join(complaints))


def main(arguments):
    parser = argparse.ArgumentParser(prog="./dev docs", add_help=False)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--browser", action="store_true")
    options = parser.parse_args(arguments)
    if options.check:
        complaints = reference.check(ROOT)
        print("\n".join(complaints), end="\n" if complaints else "")
        return 1 if complaints else 0
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        print(f"missing: {', '.join(missing)}; scripts/dev/setup.sh docs installs them", file=sys.stderr)
        return 1
    output = ROOT / "build" / "docs"
    steps = [("pages", lambda: lay_out(output)), ("html", lambda: build(output)), ("links", lambda: check_links(output / "html"))]
    if options.browser:
        steps.append(("browser", lambda: print(run("the browser test", PYTHON, ROOT / "tests/site/browser_test.py", output / "html"), end="")))
    passed = True
    for name, step in steps:  # a failed step does not stop the others, so that one run shows every fault
        started = time.monotonic()
        try:
            step()
        except Failed as failed:
            passed = False
            print(failed)
        print(f"{name:8} {time.monotonic() - started:4.0f} s", flush=True)
    print("build/docs/html/index.html" if passed else "the site has faults")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
