# SPDX-License-Identifier: MIT
# Shared by ./dev and scripts/dev/*.sh.
# shellcheck shell=bash

say() { printf '%s\n' "$*"; }
die() {
  printf '%s: %s\n' "${program:-dev}" "$*" >&2
  exit 1
}
# Reports a wrong command line and how to get help, and exits.
refuse() {
  printf '%s: %s (try --help)\n' "${program:-dev}" "$*" >&2
  exit 2
}
