# SPDX-License-Identifier: MIT
"""Shared code of the benchmarks of ./dev bench: rounds, figures, tables, building and counting."""
