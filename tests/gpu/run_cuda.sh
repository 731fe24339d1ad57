#!/usr/bin/env bash
# All that is to be measured on one GPU, into reports/measured/cuda-<gpu>-<what>.json: twelve plans
# predicted beside executed, GPT-2 beside PyTorch (compiled, flash attention), compute-sanitizer.
# usage: run_cuda.sh [BIN_FOLDER] [OUT_FOLDER] [STEPS]
# Each file says the command, clocks before and after, and every repeat. Nothing else should run on the GPU.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=${1:-$here/../../build/release/bin}
out=${2:-$here/../../reports/measured}
steps=${3:-12}
planner=$bin/planner
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

clocks() {
  nvidia-smi --query-gpu=name,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv,noheader 2>/dev/null ||
    printf 'nvidia-smi does not answer'
}

"$planner" --model gpt2-124m --gpus 1 --global-batch 8 --gpu h200-sxm-141g --quiet --out "$work/try.json" >/dev/null
if ! "$planner" exec "$work/try.json" --backend cuda --steps 1 --quiet >/dev/null; then
  printf 'no GPU to measure on: see the line above\n' >&2
  exit 77
fi

# ---- twelve plans, predicted and executed ----------------------------------------------------------
# name | model | gpus | global batch | options; several --gpus share the card, so their times are not compared.
plans() {
  cat <<'TABLE'
124m-b32|gpt2-124m|1|32|--recipe mixed
124m-accumulated|gpt2-124m|1|64|--recipe mixed --pin micro_batch=16
124m-recomputed|gpt2-124m|1|32|--recipe mixed --pin checkpoint=every_k --pin checkpoint_every=1
124m-fp32|gpt2-124m|1|16|--recipe fp32
355m-b16|gpt2-355m|1|16|--recipe mixed
355m-selective|gpt2-355m|1|16|--recipe mixed --pin checkpoint=selective
774m-b8|gpt2-774m|1|8|--recipe mixed
1.5b-b8|gpt2-1.5b|1|8|--recipe mixed
1.5b-megatron|gpt2-1.5b|1|8|--recipe megatron
124m-data2|gpt2-124m|2|32|--recipe mixed --pin data=2
124m-zero3|gpt2-124m|2|32|--recipe mixed --pin data=2 --pin sharding=zero3
124m-pipeline|gpt2-124m|2|32|--recipe mixed --pin pipeline=2 --pin schedule=1f1b
TABLE
}
while IFS='|' read -r name model gpus batch options; do
  # shellcheck disable=SC2086  # words
  "$planner" --model "$model" --gpus "$gpus" --global-batch "$batch" --gpu h200-sxm-141g --quiet \
    --out "$work/$name.plan.json" $options >/dev/null
  before=$(clocks)
  "$planner" exec "$work/$name.plan.json" --backend cuda --steps "$steps" --quiet \
    --out "$work/$name.run.json" >/dev/null
  "$planner" compare "$work/$name.plan.json" "$work/$name.run.json" --json >"$work/$name.compare.json" || true
  python3 "$here/collect.py" plan "$name" "$gpus" "$before" "$(clocks)" "$options" "$work" \
    >>"$work/plans.jsonl"
  printf 'measured %s\n' "$name" >&2
done < <(plans)
python3 "$here/collect.py" join "$work/plans.jsonl" "$0 $*" "$out/cuda-plans.json"

# ---- beside PyTorch --------------------------------------------------------------------------------
if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
  for cell in "gpt2-124m 32" "gpt2-355m 16" "gpt2-774m 8" "gpt2-1.5b 8"; do
    read -r model batch <<<"$cell"
    python3 "$here/beside_torch.py" "$planner" "$model" "$batch" "$steps" >>"$work/torch.jsonl"
    printf 'measured %s beside PyTorch\n' "$model" >&2
  done
  python3 "$here/collect.py" join "$work/torch.jsonl" "$0 $*" "$out/cuda-beside-torch.json"
else
  printf 'left out: PyTorch with CUDA is not installed (pip install torch)\n' >&2
fi

# ---- compute-sanitizer -----------------------------------------------------------------------------
if command -v compute-sanitizer >/dev/null; then
  printf '%s' '{"model_type":"gpt2","n_layer":2,"n_embd":64,"n_head":4,"n_positions":64,"vocab_size":501}' \
    >"$work/config.json"
  "$planner" --model "$work/config.json" --gpus 2 --seq 64 --global-batch 4 --gpu h200-sxm-141g --quiet \
    --pin data=2 --out "$work/small.json" >/dev/null
  for tool in memcheck racecheck synccheck initcheck; do
    code=0
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$bin/planner-exec-cuda" exec "$work/small.json" \
      --backend cuda --steps 2 --quiet >"$work/$tool.txt" 2>&1 || code=$?
    tail -n 1 "$work/$tool.txt" | python3 -c "import json,sys; print(json.dumps({'tool': '$tool', 'exit': $code, 'says': sys.stdin.read().strip()}))" \
      >>"$work/sanitizer.jsonl"
  done
  python3 "$here/collect.py" join "$work/sanitizer.jsonl" "$0 $*" "$out/cuda-sanitizer.json"
else
  printf 'left out: compute-sanitizer is not on the PATH (it is part of the CUDA toolkit)\n' >&2
fi
