#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Configures the project for a system other than Linux: CMake must name the requirement. Arguments: source folder, compiler."""
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    done = subprocess.run(["cmake", "-S", sys.argv[1], "-B", folder, "-DCMAKE_SYSTEM_NAME=FreeBSD",
                           f"-DCMAKE_CXX_COMPILER={sys.argv[2]}"], capture_output=True, text=True, check=False)
if done.returncode == 0 or "Verbena needs Linux with 64-bit addresses" not in " ".join(done.stderr.split()):
    sys.exit(f"exit status {done.returncode}; expected: Verbena needs Linux with 64-bit addresses\n{done.stderr}")
