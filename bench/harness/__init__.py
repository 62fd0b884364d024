# SPDX-License-Identifier: MIT
"""What the benchmarks of ./dev bench share: rounds, figures, tables, building and counting."""
