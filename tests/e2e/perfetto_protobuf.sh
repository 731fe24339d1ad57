#!/usr/bin/env bash
# Traces of packets by the real binaries, read by the protobuf library and held against the JSON.
# usage: perfetto_protobuf.sh BIN_FOLDER
set -uo pipefail
planner=$1/planner
reader=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/perfetto_protobuf.py
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
if ! command -v python3 >/dev/null; then
  printf 'skipped: no python3\n'
  exit 77
fi
if ! python3 -c 'from google.protobuf import descriptor_pool' 2>/dev/null; then
  printf 'skipped: no protobuf library for python3 (python3-protobuf)\n'
  exit 77
fi

# agrees OPTIONS...: a simulated trace in both formats, read by the library.
agrees() {
  "$planner" simulate plan.json --trace step.pftrace "$@" >page.txt || complain "writing with $*"
  "$planner" simulate plan.json --trace step.json "$@" >/dev/null || complain "writing with $*"
  python3 "$reader" step.pftrace step.json || complain "the library does not agree: $*"
}
"$planner" --model gpt2-124m --gpus 4 --gpu rtx3090 --global-batch 16 --seq 64 --pin pipeline=2 \
  --pin data=2 --pin schedule=1f1b --pin micro_batch=1 --out plan.json >/dev/null || fail 'planning'
agrees
grep -q 'shows every rank and every micro-batch' page.txt || complain "$(tail -3 page.txt)"
agrees --detail op
agrees --ranks 1,3 --micro-batches 0..1
grep -q 'shows ranks 1, 3 of 4 and micro-batches 0 to 1 of 8' page.txt || complain "$(tail -3 page.txt)"
agrees --jitter 0.1 --seed 3
"$planner" simulate plan.json --trace named --trace-format perfetto >/dev/null
"$planner" simulate plan.json --trace again.pftrace >/dev/null
cmp -s named again.pftrace || complain '--trace-format perfetto is not what .pftrace gives'

if [[ $failures -gt 0 ]]; then
  printf '%s checks failed\n' "$failures"
  exit 1
fi
printf 'perfetto: the protobuf library agrees\n'
