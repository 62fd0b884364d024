#!/bin/sh
# SPDX-License-Identifier: MIT
# devices.sh LIST: rxe0 and rxe1 on the pair of veth devices v0 and v1 (10.0.0.1, 10.0.0.2); siw0 and siw1 on w0 and w1
# (10.0.1.1, 10.0.1.2). Both ends are addresses of one kernel, which would hand packets from one to the other by itself:
# the rules make it send them over the wire, and deliver locally only what came in by one of the two, or goes from an
# address to itself.
set -eu

wire() { # PREFIX NETWORK TABLE
  first=$2.1
  second=$2.2
  ip link add "${1}0" type veth peer name "${1}1"
  for number in 0 1; do
    echo 1 >"/proc/sys/net/ipv4/conf/$1$number/accept_local"
    echo 0 >"/proc/sys/net/ipv4/conf/$1$number/rp_filter"
    ip address add "$2.$((number + 1))/24" dev "$1$number"
    ip link set "$1$number" up
    ip rule add pref 20 iif "$1$number" lookup local
  done
  ip rule add pref 10 from "$first" to "$first" lookup local
  ip rule add pref 10 from "$second" to "$second" lookup local
  ip route add "$second" dev "${1}0" src "$first" table "$3"
  ip route add "$first" dev "${1}1" src "$second" table "$3"
  ip rule add pref 30 lookup "$3"
}

pair() { # TYPE NETDEV
  modprobe "$3"
  rdma link add "${1}0" type "$1" netdev "${2}0"
  rdma link add "${1}1" type "$1" netdev "${2}1"
}

echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
ip rule add pref 1000 lookup local
ip rule del pref 0
case ,$1, in
  *,rxe,*)
    wire v 10.0.0 100
    pair rxe v rdma_rxe
    ;;
esac
case ,$1, in
  *,siw,*)
    wire w 10.0.1 101
    pair siw w siw
    ;;
esac
case $1 in
  none) ;;
  *)
    modprobe ib_uverbs
    modprobe rdma_ucm
    ;;
esac
