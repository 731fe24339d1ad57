#!/usr/bin/env bash
# --backend cuda without the binary, and with it but without a device: what is missing and what to do,
# as `planner doctor` says it, exit 3; bad input is refused before any device is opened.
# usage: cuda_absent.sh BIN_FOLDER
set -euo pipefail
bin=$1
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# expect CODE PATTERN COMMAND...: its exit code, and lines on stderr that say so, each with its source.
expect() {
  ends "$@"
  ! grep -qv '^planner: ' err.txt || fail "a line of nobody's from: ${*:3} ($(cat err.txt))"
}

printf '%s' '{"model_type":"gpt2","n_layer":2,"n_embd":32,"n_head":2,"n_positions":16,"vocab_size":99}' >config.json
"$bin/planner" --model config.json --gpus 1 --seq 16 --global-batch 4 --gpu h100-sxm-80g --quiet \
  --out plan.json >/dev/null

# The binaries that every build has, elsewhere.
mkdir apart
cp "$bin/planner" "$bin/planner-exec" apart/
for binary in planner planner-exec; do
  expect 3 "planner-exec-cuda: expected the binary that runs plans on GPUs, found none.*CUDA toolkit" \
    "apart/$binary" exec plan.json --backend cuda --quiet
  cp err.txt exec.txt
  expect 3 "CUDA toolkit" "apart/$binary" calibrate --backend=cuda --quiet
  expect 1 "CUDA toolkit" "apart/$binary" doctor --for cuda
  cmp -s exec.txt err.txt || fail "exec and doctor say it differently: $(cat exec.txt err.txt)"
done
# One that is there and whose libraries are not.
printf '#!/bin/sh\necho "planner-exec-cuda: error while loading shared libraries: libcublasLt.so.13: none" >&2\nexit 127\n' \
  >apart/planner-exec-cuda
chmod +x apart/planner-exec-cuda
expect 3 "a binary that starts, found error while loading shared libraries: libcublasLt" \
  apart/planner exec plan.json --backend cuda --quiet
if [[ ! -x $bin/planner-exec-cuda ]]; then
  printf 'built without a CUDA toolkit: said so\n'
  exit 0
fi
export CUDA_VISIBLE_DEVICES=''
nothing="an NVIDIA GPU, found none\|NVIDIA's kernel driver, loaded, found none\|no NVIDIA driver\|shows no GPU"
expect 3 "$nothing" "$bin/planner" exec plan.json --backend cuda --quiet
expect 3 "$nothing" "$bin/planner" calibrate --backend cuda --quiet
expect 2 "none.json" "$bin/planner" exec none.json --backend cuda
expect 2 "ranks" "$bin/planner" calibrate --backend cuda --ranks 2
"$bin/planner-exec-cuda" exec plan.json --steps 1 --quiet >/dev/null || fail "the host, from the CUDA binary"
printf 'no device: said so\n'
