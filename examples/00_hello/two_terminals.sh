#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the two programs of the example, as in two terminals: two_terminals.sh HELLO
set -e
"$1" > listening.txt &
listener=$!
trap 'kill "$listener" 2> /dev/null || true' EXIT
connected=$("$1" localhost:7471)
wait "$listener"
trap - EXIT
[ "$connected" = hello ] || { echo "the connecting program printed: $connected"; exit 1; }
[ "$(cat listening.txt)" = hello ] || { echo "the listening program printed: $(cat listening.txt)"; exit 1; }
echo "both programs printed hello"
