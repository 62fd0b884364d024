# SPDX-License-Identifier: MIT
"""Shared code of the ./dev bench benchmarks: builds, rounds, instruction counts, figures, tables."""
