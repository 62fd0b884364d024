# SPDX-License-Identifier: MIT
# Shared by ./dev and scripts/dev/*.sh.
# shellcheck shell=bash

say() { printf '%s\n' "$*"; }
die() {
  printf '%s: %s\n' "${program:-dev}" "$*" >&2
  exit 1
}
# A wrong command line: says what is wrong and where help is.
refuse() {
  printf '%s: %s (try --help)\n' "${program:-dev}" "$*" >&2
  exit 2
}
