#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# shellcheck shell=busybox
# devices.sh LIST: creates the RDMA devices that LIST names (rxe, siw, or none). rxe0 and rxe1 use the veth pair v0 and v1
# (10.0.0.1, 10.0.0.2); siw0 and siw1 use w0 and w1 (10.0.1.1, 10.0.1.2).
# Both ends of a pair have addresses of one kernel, which by default delivers packets between its addresses over the
# loopback device. The routing rules send these packets through the veth pair. The local table is used only for packets
# that a veth device received, and for packets from an address to itself.
# One process of ip and one of rdma, both of the host, execute all commands.
set -eu

host() { # PROGRAM [ARGUMENT...]: runs the program of the host instead of the one of busybox
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

common_rules() {
  cat <<TEXT
link set lo up
rule add pref 1000 lookup local
rule del pref 0
TEXT
}

veth_pair() { # PREFIX NETWORK TABLE
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

rdma_pair() { # TYPE PREFIX
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
  common_rules
  if has rxe; then veth_pair v 10.0.0 100; fi
  if has siw; then veth_pair w 10.0.1 101; fi
} | host ip -b -
if [ "$devices" = none ]; then exit; fi
modules="ib_uverbs rdma_ucm"
if has rxe; then modules="rdma_rxe $modules"; fi
if has siw; then modules="siw $modules"; fi
# shellcheck disable=SC2086 # a list of module names
host modprobe -a $modules
{
  if has rxe; then rdma_pair rxe v; fi
  if has siw; then rdma_pair siw w; fi
} | host rdma -b -
