#!/usr/bin/env bash
# What tests/gpu/nccl.sh checks on a GPU, on its twin with a fake of NCCL: the script has been run before
# a GPU is there. usage: nccl_gpu_checks.sh BIN_FOLDER BINARY FAKE_NCCL
set -euo pipefail
script=$(cd "$(dirname "${BASH_SOURCE[0]}")/../gpu" && pwd)/nccl.sh
source "$(dirname "${BASH_SOURCE[0]}")/played_gpus.sh"
export NCCL_PATIENCE=7200  # however slow this machine is
bash "$script" . out "$work/libnccl.so.2" >log.txt || fail "$(cat log.txt)"
[[ $(grep -c '^held' out/nccl.txt) -eq 13 ]] || fail "other checks: $(cat out/nccl.txt)"
grep -q 'nccl.ring.count | [0-9]* | [1-9]' out/nccl.txt || fail "not what NCCL ran: $(cat out/nccl.txt)"
# A sum that a rank gets wrong is seen, and so is a library that is missing.
code=0
PLANNER_FAKE_NCCL='rank=1 error=2' bash "$script" . wrong "$work/libnccl.so.2" >log.txt || code=$?
[[ $code -eq 1 ]] || fail "exit $code with an error on a rank: $(cat log.txt)"
code=0
bash "$script" . none "$work/none.so" >log.txt || code=$?
[[ $code -eq 77 ]] || fail "exit $code without NCCL: $(cat log.txt)"
printf 'NCCL on one GPU: its checks hold on a twin\n'
