#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs the missing packages of scripts/packages.txt. Uses the network only if a package is missing.
set -euo pipefail
program=setup
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=scripts/dev/common.sh
source "$root/scripts/dev/common.sh"

usage() {
  cat <<'TEXT'
usage: scripts/dev/setup.sh [--list] GROUP...

Installs the Debian packages that are missing. Groups: build, test, bench, docs, vm (scripts/packages.txt).
As root it calls apt-get itself, else through sudo when that needs no password; otherwise it prints the command.

  --list   only print the missing packages
  --help   this text
TEXT
}

# Prints the packages of the given groups that are not installed according to dpkg.
missing_packages() {
  local group package rest installed
  installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${binary:Package} ${Provides}\n' 2>/dev/null |
    sed -n 's/^ii *//p' | tr ' ,' '\n\n' | sed 's/:.*//')
  while read -r group package rest; do
    [[ $group == '#'* || -z $group ]] && continue
    [[ " $* " == *" $group "* ]] || continue
    grep -qx -- "$package" <<<"$installed" || printf '%s\n' "$package"
  done <"$root/scripts/packages.txt" | sort -u
}

install_packages() {
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120)
  if [[ $(id -u) -ne 0 ]]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      apt=(sudo -n "${apt[@]}")
    else
      say "These packages are missing and need root to install. Please run:" >&2
      say "  apt-get update && apt-get install --no-install-recommends $*" >&2
      exit 1
    fi
  fi
  say "Installing $# missing Debian packages with apt-get: $*"
  "${apt[@]}" -q update </dev/null || die "apt-get update failed: is there a network, and a package source for Debian?"
  "${apt[@]}" -q -y install --no-install-recommends "$@" </dev/null || die "apt-get install failed; see above"
}

main() {
  local list=0 groups=() argument
  for argument in "$@"; do
    case $argument in
      --help | -h) usage; exit 0 ;;
      --list) list=1 ;;
      build | test | bench | docs | vm) groups+=("$argument") ;;
      *) refuse "unknown argument '$argument'" ;;
    esac
  done
  [[ ${#groups[@]} -gt 0 ]] || refuse "name a group: build, test, bench, docs or vm"
  command -v dpkg-query >/dev/null ||
    { say "setup: no dpkg here, so nothing is installed; the packages' purposes are in scripts/packages.txt" >&2; exit 0; }
  local missing
  mapfile -t missing < <(missing_packages "${groups[@]}")
  if [[ ${#missing[@]} -eq 0 ]]; then
    return
  elif [[ $list -eq 1 ]]; then
    printf '%s\n' "${missing[@]}"
  else
    install_packages "${missing[@]}"
  fi
}
main "$@"
