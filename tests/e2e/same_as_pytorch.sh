#!/usr/bin/env bash
# planner exec trains what PyTorch trains: the same losses from the same weights and samples, on one
# rank and on several. usage: same_as_pytorch.sh BIN_FOLDER
set -uo pipefail
planner=$1/planner
trainer=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/same_as_pytorch.py
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python=${PLANNER_TORCH_PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
  printf 'skipped: no %s\n' "$python"
  exit 77
fi
if ! "$python" -c 'import torch' 2>/dev/null; then
  printf 'skipped: no PyTorch for %s (PLANNER_TORCH_PYTHON names another interpreter)\n' "$python"
  exit 77
fi

same() { "$python" "$trainer" "$planner" "$@" || complain "losses differ: $*"; }
same
rm -r first
same --pins 'data=2 tensor=2 sharding=zero1 micro_batch=2'
rm -r first
same --pins 'pipeline=2 data=2 sharding=zero1 micro_batch=1 schedule=1f1b'
rm -r first
same --half 1024 --tolerance 2e-3
rm -r first
same --half 16777216
rm -r first
same --half 1024 --tolerance 2e-3 --pins 'data=2 tensor=2 sharding=zero1 micro_batch=2'
if [[ $failures -gt 0 ]]; then exit 1; fi
printf 'the losses are those of PyTorch\n'
