# SPDX-License-Identifier: MIT
"""Builds the programs of a benchmark with the release preset, in a separate build folder."""
from __future__ import annotations

import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILERS = {"gcc": ("gcc-12", "g++-12"), "clang": ("clang-19", "clang++-19")}


SOFT_DEVICE = ("verbena-soft",)


class BuildFailed(Exception):
    pass


def folder(compiler: str) -> pathlib.Path:
    return ROOT / "build" / ("bench" if compiler == "gcc" else f"bench-{compiler}")


def configure_command(compiler: str) -> list[str]:
    c, cxx = COMPILERS[compiler]
    command = [
        "cmake", "--preset", "release", "-B", str(folder(compiler)), "-DVERBENA_BUILD_BENCH=ON",
        "-DVERBENA_BUILD_TESTS=OFF", "-DVERBENA_BUILD_EXAMPLES=OFF",
        f"-DCMAKE_C_COMPILER={c}", f"-DCMAKE_CXX_COMPILER={cxx}",
    ]  # fmt: skip
    if shutil.which("ccache"):
        command += ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
    return command


def build(compiler: str, targets: list[str]) -> pathlib.Path:
    """Builds `targets` and returns the folder that contains the programs."""
    log = folder(compiler) / "bench_build.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        steps = [
            configure_command(compiler),
            ["cmake", "--build", str(folder(compiler)), "--target", *targets],
        ]
        for step in steps:
            done = subprocess.run(step, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, check=False)
            if done.returncode != 0:
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
                raise BuildFailed(f"{tail}\n(whole log: {log.relative_to(ROOT)})")
    return folder(compiler) / "bench"


def version(command: str) -> str:
    """Returns the first line of `COMMAND --version`."""
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    return (done.stdout.splitlines() or ["unknown"])[0]
