# SPDX-License-Identifier: MIT
"""Steps of builds that scripts run for their user."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run_step(script, what, *words):
    """Runs a step of the build; prints its output only on failure, and then ends the script."""
    done = subprocess.run(list(map(str, words)), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout[-4000:], file=sys.stderr)
        sys.exit(f"{script}: {what} failed")
