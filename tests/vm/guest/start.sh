#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# shellcheck shell=busybox disable=SC1091,SC2154
# Process 1 after the file system of the host is mounted. It creates the devices, runs the command, and writes the end
# mark and the exit status to both outputs. The two virtio ports stay open until the machine ends, so that no output is
# lost. The shell and its commands are those of busybox in RAM, because programs of the host are loaded slowly over 9p.
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

# The command writes to pipes, because a virtio port cannot be opened a second time, for example as /dev/stdout.
exec 8>/dev/vport0p1 9>/dev/vport0p2
mkfifo out err
setsid cat out >&8 2>/dev/null &
out=$!
setsid cat err >&9 2>/dev/null &
err=$!
set +e
(exec sh ./command.sh </dev/null >out 2>err 8>&- 9>&-)
status=$?

# Kills the remaining processes of the command, so that both pipes are closed and read to their end.
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
