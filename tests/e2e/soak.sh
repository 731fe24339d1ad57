#!/usr/bin/env bash
# What people do, again and again: plan, run, kill, go on, verify, simulate, report. Another run goes on for the
# whole time. Nothing may be left behind, and its memory and its open files may not grow.
# usage: soak.sh BIN_FOLDER SECONDS
set -euo pipefail
planner=$1/planner
readonly seconds=$2
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

mkdir -p cycle long
"$planner" --model mlp-mnist --gpus 2 --gpu h100-sxm-80g --recipe fp32 --global-batch 8 --pin data=2 \
  --quiet --out plan.json >/dev/null
# A run keeps the loss and the times of each step. Steps of a third of a second make that little, so that
# what else grows shows.
"$planner" --model mlp-mnist --gpus 2 --gpu h100-sxm-80g --recipe fp32 --global-batch 8192 --pin data=2 \
  --quiet --out long.json >/dev/null
"$planner" exec long.json --quiet --steps 1000000000 --checkpoint-dir long --checkpoint-every 1000000 \
  --communicator local >/dev/null 2>long.txt &
long=$!
trap 'kill -9 $long 2>/dev/null || true; rm -rf "$work"' EXIT
resident() { awk '/^VmRSS/ {print $2}' "/proc/$1/status"; }
files() { find "/proc/$1/fd" -mindepth 1 | wc -l; }

kept() { find cycle -maxdepth 1 -name 'step-*' | sort | tail -n 1; }
RANDOM=${SEED:-7}
cycles=0
first_resident=0
first_files=0
end=$((SECONDS + seconds))
while [[ $SECONDS -lt $end ]]; do
  "$planner" --model gpt2-124m --gpus 4 --gpu h100-sxm-80g --quiet --out other.json >/dev/null
  "$planner" exec plan.json --quiet --steps 1000000 --checkpoint-dir cycle >/dev/null 2>err.txt &
  run=$!
  sleep "0.$((RANDOM % 9 + 1))"
  kill -9 $run
  wait $run 2>/dev/null || true
  if [[ -n $(kept) ]]; then
    reached=$(kept | sed 's/.*step-0*//')
    "$planner" exec plan.json --quiet --steps $((reached + 2)) --checkpoint-dir cycle --out run.json \
      >/dev/null
    "$planner" verify cycle >/dev/null
    "$planner" compare plan.json run.json >/dev/null
    "$planner" report plan.json run.json --out page.html
  fi
  "$planner" simulate other.json --out simulated.json >/dev/null
  cycles=$((cycles + 1))
  if [[ $cycles -eq 10 ]]; then
    first_resident=$(resident $long)
    first_files=$(files $long)
  fi
done >/dev/null

[[ $cycles -gt 10 ]] || fail "only $cycles cycles in $seconds s"
kill -0 $long || fail "the long run ended: $(cat long.txt)"
last_resident=$(resident $long)
[[ $last_resident -lt $((first_resident * 105 / 100 + 1024)) ]] ||
  fail "the long run grew from $first_resident to $last_resident KiB"
[[ $(files $long) -eq $first_files ]] ||
  fail "the long run has $(files $long) files open, $first_files before"
left=$(find . -name '.planner*' -o -name '.step-*' | head -n 3)
[[ -z $left ]] || fail "left behind: $left"
printf '%s cycles in %s s; the long run took %s KiB, %s at the end\n' \
  "$cycles" "$seconds" "$first_resident" "$last_resident"
