#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# shellcheck shell=busybox
# devices.sh LIST: rxe0 and rxe1 on the pair of veth devices v0 and v1 (10.0.0.1, 10.0.0.2); siw0 and siw1 on w0 and w1
# (10.0.1.1, 10.0.1.2). Both ends are addresses of one kernel, which would hand packets from one to the other by itself:
# the rules make it send them over the wire, and deliver locally only what came in by one of the two, or goes from an
# address to itself. Everything in one process of ip and one of rdma, both the host's.
set -eu

host() { # PROGRAM [ARGUMENT...]: the host's, not busybox's
  for folder in /usr/sbin /usr/bin /sbin /bin; do
    if [ -x "$folder/$1" ]; then
      program=$folder/$1
      shift
      "$program" "$@"
      return
    fi
  done
  echo "$1 is missing; scripts/dev/setup.sh vm installs it" >&2
  return 1
}

base() {
  cat <<TEXT
link set lo up
rule add pref 1000 lookup local
rule del pref 0
TEXT
}

wire() { # PREFIX NETWORK TABLE
  cat <<TEXT
link add ${1}0 type veth peer name ${1}1
address add $2.1/24 dev ${1}0
address add $2.2/24 dev ${1}1
link set ${1}0 up
link set ${1}1 up
rule add pref 10 from $2.1 to $2.1 lookup local
rule add pref 10 from $2.2 to $2.2 lookup local
rule add pref 20 iif ${1}0 lookup local
rule add pref 20 iif ${1}1 lookup local
route add $2.2 dev ${1}0 src $2.1 table $3
route add $2.1 dev ${1}1 src $2.2 table $3
rule add pref 30 lookup $3
TEXT
}

pair() { # TYPE NETDEV
  cat <<TEXT
link add ${1}0 type $1 netdev ${2}0
link add ${1}1 type $1 netdev ${2}1
TEXT
}

has() {
  case ,$devices, in
    *,"$1",*) ;;
    *) return 1 ;;
  esac
}

devices=$1
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
echo 0 >/proc/sys/net/ipv4/conf/default/rp_filter
echo 1 >/proc/sys/net/ipv4/conf/default/accept_local
{
  base
  if has rxe; then wire v 10.0.0 100; fi
  if has siw; then wire w 10.0.1 101; fi
} | host ip -b -
if [ "$devices" = none ]; then exit; fi
modules="ib_uverbs rdma_ucm"
if has rxe; then modules="rdma_rxe $modules"; fi
if has siw; then modules="siw $modules"; fi
# shellcheck disable=SC2086 # a list of words
host modprobe -a $modules
{
  if has rxe; then pair rxe v; fi
  if has siw; then pair siw w; fi
} | host rdma -b -
