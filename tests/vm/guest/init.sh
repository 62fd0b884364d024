#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# The first program of the virtual machine, in the initial RAM disk. It mounts the file system of the host, read-only and
# with an overlay in RAM, and continues there with start.sh. A failure ends process 1. The kernel then panics, and the run
# fails.
set -eu
export PATH=/bin
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
mount -t proc proc /proc
mount -t sysfs sys /sys
while read -r module; do
  insmod "/modules/$module"
done </modules/order

options=trans=virtio,version=9p2000.L,msize=262144
mkdir -p /lower /ram /host
mount -t 9p -o "$options,ro,cache=loose" root /lower
mount -t tmpfs -o mode=755 ram /ram
mkdir /ram/upper /ram/work
mount -t overlay -o lowerdir=/lower,upperdir=/ram/upper,workdir=/ram/work overlay /host

# Folders of the host that the guest may write to, mounted at their own paths.
number=0
while read -r folder; do
  mount -t 9p -o "$options,cache=none" "writable$number" "/host$folder"
  number=$((number + 1))
done </guest/writable

mkdir -p /host/dev /host/proc /host/sys /host/run
mount --move /dev /host/dev
mount --move /proc /host/proc
mount --move /sys /host/sys
mount -t tmpfs -o mode=755 run /host/run
mkdir /host/run/vm
cp /guest/* /bin/busybox /host/run/vm/
ln -s busybox /host/run/vm/sh
exec switch_root /host /run/vm/sh /run/vm/start.sh
