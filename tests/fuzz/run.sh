#!/usr/bin/env bash
# Runs each target of libFuzzer for a while from the corpus, as many at once as there are cores. What
# ends a target is kept in WORK/TARGET, and named. Nothing is added to the corpus: --merge does that.
# usage: run.sh BIN_FOLDER WORK SECONDS [TARGET...]
#        run.sh --merge BIN_FOLDER WORK [TARGET...]   the corpus, and what WORK found, made minimal
set -euo pipefail
corpus=$(cd "$(dirname "${BASH_SOURCE[0]}")/corpus" && pwd)
merges=
if [[ ${1:-} == --merge ]]; then
  merges=1
  shift
fi
bin=$1 work=$2
shift 2
seconds=0
if [[ -z $merges ]]; then
  seconds=$1
  shift
fi
mkdir -p "$work"
targets=("$@")
if [[ ${#targets[@]} == 0 ]]; then
  for folder in "$corpus"/*/; do targets+=("$(basename "$folder")"); done
fi
# A hang is 10 s of one input; an input of more than 64 KiB finds little that a smaller one does not.
readonly kLimits=(-timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1)

fuzz() {
  local target=$1 found=$work/$1
  mkdir -p "$found"
  if ! "$bin/fuzz_$target" "${kLimits[@]}" -max_total_time="$seconds" -artifact_prefix="$found/ends-" \
    "$found" "$corpus/$target" >"$work/$target.log" 2>&1; then
    printf '%s: ended by an input; %s\n' "$target" "$work/$target.log"
    return 1
  fi
  awk -v target="$target" '/stat::number_of_executed_units/ {units = $2} /stat::peak_rss_mb/ {rss = $2}
    END {printf "%s: %d inputs, %d MiB, clean\n", target, units, rss}' "$work/$target.log"
}

# Small files alone, since the corpus lies in the tree; the seeds stay.
merge() {
  local target=$1 minimal
  minimal=$(mktemp -d)
  "$bin/fuzz_$target" -merge=1 -max_len=4096 "$minimal" "$corpus/$target" "$work/$target" >/dev/null 2>&1
  local file kept=0
  for file in "$minimal"/*; do
    if [[ $kept -ge 40 || ! -f $file ]]; then break; fi
    cp -n "$file" "$corpus/$target/$(basename "$file" | cut -c 1-12)"
    kept=$((kept + 1))
  done
  rm -rf "$minimal"
  printf '%s: %s files\n' "$target" "$(find "$corpus/$target" -type f | wc -l)"
}

failures=0
running=0
for target in "${targets[@]}"; do
  if [[ -n $merges ]]; then
    merge "$target"
    continue
  fi
  fuzz "$target" &
  running=$((running + 1))
  if [[ $running -ge $(nproc) ]]; then
    wait -n || failures=$((failures + 1))
    running=$((running - 1))
  fi
done
while [[ $running -gt 0 ]]; do
  wait -n || failures=$((failures + 1))
  running=$((running - 1))
done
if [[ $failures -gt 0 ]]; then
  printf '%s targets were ended by an input\n' "$failures"
  exit 1
fi
