#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# shellcheck shell=busybox disable=SC1091,SC2154
# Process 1 once the host's file system is there: devices, then the command, then its output's end marks and exit status.
# The two virtio ports stay open from here to the end, so that nothing written to them is lost. The shell is busybox,
# with its own mount, cat and so on, in RAM: a program of the host takes a while to come over 9p.
set -eu
export PATH=/run/vm:/usr/sbin:/usr/bin:/sbin:/bin
cd /run/vm
. ./settings # modules, devices, token
mkdir -p /dev/pts /dev/shm /lib/modules
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount --bind "$modules" /lib/modules
ln -sf /proc/self/fd /dev/fd
ln -sf /proc/self/fd/0 /dev/stdin
ln -sf /proc/self/fd/1 /dev/stdout
ln -sf /proc/self/fd/2 /dev/stderr
ulimit -l unlimited
sh ./devices.sh "$devices"

# The command writes to pipes: it may open /dev/stdout again, which a virtio port does not allow.
exec 8>/dev/vport0p1 9>/dev/vport0p2
mkfifo out err
setsid cat out >&8 2>/dev/null &
out=$!
setsid cat err >&9 2>/dev/null &
err=$!
set +e
(exec sh ./command.sh </dev/null >out 2>err 8>&- 9>&-)
status=$?

# Remaining processes of the command end here; then the pipes are empty and closed.
for process in /proc/[0-9]*; do
  process=${process#/proc/}
  case $process in
    1 | "$out" | "$err") ;;
    *) kill -9 "$process" 2>/dev/null ;;
  esac
done
wait "$out" "$err"
sync
printf '\000%s %d\n' "$token" "$status" >&8
printf '\000%s %d\n' "$token" "$status" >&9
exec sleep infinity
