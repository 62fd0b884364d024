#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests adapters of the kernel and soft0 in one process, with each forwarder. Needs a machine with adapters, for example
#   ./dev vm -- tests/abi/hardware_test.sh build/dev rxe0
# Arguments: a build folder with the targets abi_transfer, abi_by_name, abi_mixed and abi_mixed_system; an adapter; an
# optional address of the adapter, with which connections by librdmacm (rping) are also tested.
build=$(cd "$1" && pwd) || exit 2
adapter=${2:?"usage: $0 BUILD-FOLDER ADAPTER [ADDRESS]"}
address=$3
programs=$build/tests/abi
preload=LD_PRELOAD=$build/lib/libverbena-preload.so
dropin=LD_LIBRARY_PATH=$build/lib/dropin
dropin_preloaded=LD_PRELOAD=$build/lib/dropin/libibverbs.so.1
failures=0

# expect WHAT WANTED COMMAND...: checks that the command succeeds and prints exactly WANTED.
expect() {
  what=$1 wanted=$2
  shift 2
  if got=$("$@" 2>&1) && [ "$got" = "$wanted" ]; then
    echo "ok: $what"
  else
    echo "FAILED: $what: expected '$wanted', got '$got'"
    failures=$((failures + 1))
  fi
}

kernel=$("$programs/abi_transfer" --list) || { echo "libibverbs lists no adapter here"; exit 2; }
all=$(printf '%s\nsoft0' "$kernel")
both=$(printf 'soft0: ok\n%s: ok' "$adapter")
for way in "$preload" "$dropin" "$dropin_preloaded"; do
  expect "$way: all are listed" "$all" env "$way" "$programs/abi_transfer" --list
  expect "$way: off" "$kernel" env "$way" VERBENA_SOFTDEV=off "$programs/abi_transfer" --list
  expect "$way: only" soft0 env "$way" VERBENA_SOFTDEV=only "$programs/abi_transfer" --list
  expect "$way: both transfer" "$both" env "$way" "$programs/abi_transfer" soft0 "$adapter"
  expect "$way: the library lists each once" "$all" env "$way" "$programs/abi_mixed_system" --list
done
files=$(ls /sys/class/infiniband)
nodes=$(ls /dev/infiniband)
guid=$(cat "/sys/class/infiniband/$adapter/node_guid")
for way in "$preload" "$dropin_preloaded"; do
  expect "$way: files of all" "$(printf '%s\nsoft0' "$files")" env "$way" ls /sys/class/infiniband
  expect "$way: files of soft0 alone" soft0 env "$way" VERBENA_SOFTDEV=only ls /sys/class/infiniband
  expect "$way: files without soft0" "$files" env "$way" VERBENA_SOFTDEV_SYSFS=off ls /sys/class/infiniband
  expect "$way: nodes of all" "$(printf '%s\nuverbs9999' "$nodes")" env "$way" ls /dev/infiniband
  expect "$way: a file of soft0" "1: CA" env "$way" cat /sys/class/infiniband/soft0/node_type
  expect "$way: a file of the adapter" "$guid" env "$way" cat "/sys/class/infiniband/$adapter/node_guid"
  expect "$way: a file of the adapter in a folder" "$guid" env "$way" sh -c "cd /sys/class/infiniband && cat $adapter/node_guid"
done
expect "by name" soft0 env "$dropin" "$programs/abi_by_name"
expect "linked: the library lists each once" "$all" "$programs/abi_mixed" --list
expect "linked: raw verbs" "0 failures" "$programs/abi_mixed"
if [ -n "$address" ]; then
  for way in "$preload" "$dropin"; do
    env "$way" rping -s -a "$address" -C 5 > /dev/null 2>&1 &
    server=$!
    tries=0
    until env "$way" rping -c -a "$address" -C 5 > /dev/null 2>&1; do
      tries=$((tries + 1))
      [ $tries -lt 20 ] || break
    done
    expect "$way: rping" "" test $tries -lt 20
    kill $server 2> /dev/null
    wait $server
  done
fi
echo "$failures failures"
[ $failures -eq 0 ]
