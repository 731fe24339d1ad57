#!/usr/bin/env bash
# Execution traces of the real binary, read by the protobuf library; one of its making, played.
# usage: chakra_protobuf.sh BIN_FOLDER
set -uo pipefail
planner=$1/planner
reader=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/chakra_protobuf.py
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
if ! command -v python3 >/dev/null; then
  printf 'skipped: no python3\n'
  exit 77
fi
python3 "$reader" --write hand.0.et
case $? in
  0) ;;
  77) exit 77 ;;
  *) fail 'writing a trace by hand' ;;
esac
"$planner" simulate hand.0.et --json >hand.json || complain 'a trace of the library is refused'
grep -q '"step": 1.2e-05' hand.json || complain "5 + 7 us: $(grep -m1 step hand.json)"
for version in 1.0.0 none; do
  python3 "$reader" --write hand.0.et "$version"
  "$planner" simulate hand.0.et --json >hand.json || complain "version $version is refused"
  grep -q '"step": 1.2e-05' hand.json || complain "$version: $(grep -m1 step hand.json)"
done
python3 "$reader" --write hand.0.et 2.0.0
ends 2 'found version 2.0.0' "$planner" simulate hand.0.et

# traces PINS...: planned, written, read by the library.
traces() {
  "$planner" --model gpt2-124m --gpus 4 --gpu rtx3090 --global-batch 8 --seq 64 --out plan.json \
    "$@" >/dev/null || complain "planning $*"
  "$planner" simulate plan.json --chakra traces >/dev/null || complain "writing traces of $*"
  python3 "$reader" traces || complain "the library does not read $*"
}
traces --pin pipeline=2 --pin data=2 --pin schedule=1f1b
traces --pin data=4 --pin sharding=zero3
traces --pin tensor=4 --pin sequence_parallel=true
traces --pin grad_sync=parameter_server --pin servers=2
traces --pin data=4 --pin offload=optimizer

if [[ $failures -gt 0 ]]; then
  printf '%s checks failed\n' "$failures"
  exit 1
fi
printf 'chakra: the protobuf library agrees\n'
