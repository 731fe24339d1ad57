#!/usr/bin/env bash
# A control group's bound on memory is known, and a run that needs more is refused before it starts.
# Skipped where no control group can be made. usage: memory_bound.sh BIN_FOLDER
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/lib.sh"
planner=$1/planner
readonly kMiB=1048576
if [[ -f /sys/fs/cgroup/cgroup.controllers ]]; then
  group=/sys/fs/cgroup/planner-test-$$ limit=memory.max
else
  group=/sys/fs/cgroup/memory/planner-test-$$ limit=memory.limit_in_bytes
fi
if ! mkdir "$group" 2>/dev/null || ! printf '%s' $((600 * kMiB)) 2>/dev/null >"$group/$limit"; then
  rmdir "$group" 2>/dev/null || true
  printf 'skipped: no control group can be made here\n'
  exit 77
fi
# It can be removed once nothing is in it, which the kernel may notice a moment later.
trap 'until rmdir "$group" 2>/dev/null || [[ ! -d $group ]]; do :; done' EXIT

# inside COMMAND...: in the group, whatever it ends with.
inside() { bash -c 'printf %s $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"; }
inside "$planner" doctor >page.txt || fail "doctor does not run in 600 MiB: $(cat page.txt)"
tr -s ' \n' ' ' <page.txt | grep -Eq " memory 600 MiB, [0-9.]+ [KM]iB free, bounded by $group/$limit " ||
  fail "the bound is not told: $(cat page.txt)"
inside "$planner" doctor --json | grep -q "\"memory_bound\": \"$group/$limit\"" || fail 'not in the JSON form'

"$planner" --model gpt2-124m --gpus 1 --gpu host --global-batch 1 --out large.json --quiet >/dev/null
ends 2 "this machine has .* free .its memory is bounded by $group" inside "$planner" exec large.json --quiet
"$planner" --model mlp-mnist --gpus 2 --gpu host --out small.json --quiet >/dev/null
inside "$planner" exec small.json --steps 2 --quiet >/dev/null || fail 'a small run does not fit into 600 MiB'
inside "$planner" --model mlp-mnist --gpus 1 --gpu host --out bound.json --quiet >/dev/null
grep -q "\"memory\": \[\"629145600 B\", \"$group/$limit" bound.json || fail "$(grep '"memory": \[' bound.json)"
