#!/usr/bin/env bash
# tests/gpu/first.sh on a GPU's twin, killed while it works and called again: what has ended is kept and
# not run again, its file can be read, and in the end every section has a row.
# usage: first_twin.sh BIN_FOLDER BINARY
set -euo pipefail
first=$(cd "$(dirname "${BASH_SOURCE[0]}")/../gpu" && pwd)/first.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
mkdir bin
cp "$1/planner" "$1/planner-exec" "$2" bin/
printf '#!/bin/sh\nexit 77\n' | tee bin/gpu_kernels bin/gpu_attention >bin/gpu_products
chmod +x bin/gpu_*
cat >tiny.json <<'JSON'
{"model_type":"gpt2","n_layer":2,"n_embd":64,"n_head":4,"n_positions":64,"vocab_size":501}
JSON
export FIRST_CELLS="tiny.json 1" FIRST_PATIENCE=6000  # however slow this machine is
rows() { grep -c '"name": "'"$1"'"' out/first.jsonl || true; }

# Killed once something has ended, whatever is under way then.
setsid bash "$first" bin out 3000000 facts correct steps >first.txt 2>&1 &
leader=$!
eventually "a first row" test -s out/first.jsonl
kill -KILL -- -"$leader" 2>/dev/null || true
wait "$leader" 2>killed.txt || true
kept=$(cat out/first.jsonl)
[[ $kept == *'"name": "facts", "exit": 0'* ]] || fail "no row of facts: $kept"

bash "$first" bin out 3000000 facts correct steps >again.txt 2>&1 || fail "$(cat again.txt)"
[[ $(rows facts) -eq 1 ]] || fail "facts ran again"
for name in check_trains check_equals_host check_records check_strategies plan_tiny.json steps_tiny.json; do
  grep -q '"name": "'"$name"'", "exit": 0' out/first.jsonl || fail "$name: $(grep "$name" out/first.jsonl)"
done
[[ $(rows kernels) -ge 1 ]] || fail "no row of the kernels"
tar -tzf out/first.tar.gz >list.txt
grep -q logs/steps_tiny.json.txt list.txt || fail "the file has no log of the steps"
grep -q 'actions .* ms by events' out/logs/kernels_tiny.json.txt || fail "$(cat out/logs/kernels_tiny.json.txt)"

# What no time is left for is told, and run when there is.
bash "$first" bin late 0 facts >late.txt 2>&1 || fail "$(cat late.txt)"
grep -q 'no time was left' late/first.jsonl || fail "$(cat late/first.jsonl)"
bash "$first" bin late 3000000 facts >late.txt 2>&1 || fail "$(cat late.txt)"
grep -q '"name": "facts", "exit": 0' late/first.jsonl || fail "$(cat late/first.jsonl)"
