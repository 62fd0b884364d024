#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Formats the sources in place with clang-format-19, or only checks them.
set -euo pipefail
program=fmt
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
# shellcheck source=scripts/dev/common.sh
source scripts/dev/common.sh

main() {
  local mode=(-i) files=() argument
  for argument in "$@"; do
    case $argument in
      --help | -h) cat scripts/dev/help/fmt.txt; exit 0 ;;
      --check) mode=(--dry-run --Werror) ;;
      -*) refuse "unknown option '$argument'" ;;
      *) [[ -f $argument ]] || refuse "no such file: '$argument'"; files+=("$argument") ;;
    esac
  done
  command -v clang-format-19 >/dev/null || die "clang-format-19 is missing; scripts/dev/setup.sh test installs it"
  if [[ ${#files[@]} -eq 0 ]]; then
    mapfile -d '' -t files < <(find include src softdev tools tests examples bench \
      -type f \( -name '*.hpp' -o -name '*.cpp' -o -name '*.h' -o -name '*.c' \) -print0 2>/dev/null | sort -z)
  fi
  clang-format-19 "${mode[@]}" --style=file "${files[@]}"
}
main "$@"
