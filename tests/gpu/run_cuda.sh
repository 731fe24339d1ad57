#!/usr/bin/env bash
# All that is to be measured on one GPU, into OUT/cuda-<section>.json; each file says the command, clocks
# and every repeat. Sections, in this order when none is named:
#   kernels     each kernel beside its host twin, on the GPU            gpu_kernels
#   strategies  losses, memory and traffic beside the host's            gpu_test.sh
#   calibrate   the profile of this GPU, OUT/gpu.json; goes on from its points
#   attention   with tensor cores beside without and cuDNN's, forward and backward, in turn
#   graphs      launch-bound plans with a step kept as a CUDA graph beside without, in interleaved pairs
#   choices     steps with own attention beside cuDNN's, own GELU beside products', in interleaved pairs
#   records     a step's actions by their events beside their kernels as CUPTI records them
#   plans       twelve plans: memory and time, predicted by the shipped and by the calibrated profile,
#               beside executed
#   torch       GPT-2 of four sizes beside PyTorch (compiled, flash attention), in interleaved pairs
#   sanitizer   compute-sanitizer on two ranks of a small model
# What is in OUT/rows is not measured again, so that a call which was cut off is called again. Needs bash
# and python3 with the standard library; nothing is fetched. Nothing else should run on the GPU.
# usage: run_cuda.sh [BIN_FOLDER [OUT_FOLDER [STEPS [SECTION...]]]]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$(cd "${1:-$here/../../build/release/bin}" && pwd)
mkdir -p "${2:-$here/../../reports/measured}"
out=$(cd "${2:-$here/../../reports/measured}" && pwd)
steps=${3:-12}
command="$0 $*"
shift $(($# < 3 ? $# : 3))
sections=("$@")
[[ ${#sections[@]} -gt 0 ]] || sections=(kernels strategies calibrate attention graphs choices records plans torch sanitizer)
planner=$bin/planner
rows=$out/rows
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$rows"

gpu=
# shellcheck source=libraries.sh disable=SC1091
source "$here/libraries.sh"

clocks() {
  nvidia-smi --query-gpu=name,clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv,noheader 2>/dev/null ||
    printf 'nvidia-smi does not answer'
}
join() { python3 "$here/collect.py" join "$rows/$1.jsonl" "$command" "$out/cuda-$1.json"; }
has() { [[ -f $rows/$1.jsonl ]] && grep -q "\"name\": \"$2\"" "$rows/$1.jsonl"; }
# outcome SECTION NAME CODE LOG: a row of what ended with a code and a last line.
outcome() {
  python3 "$here/collect.py" outcome "$2" "$3" "$4" >>"$rows/$1.jsonl"
  join "$1"
  printf '%s: %s ended with %s\n' "$1" "$2" "$3" >&2
}
# tried SECTION NAME COMMAND...: once, with its outcome as a row.
tried() {
  local section=$1 name=$2 code=0
  shift 2
  if has "$section" "$name"; then return 0; fi
  "$@" >"$work/log.txt" 2>&1 || code=$?
  outcome "$section" "$name" "$code" "$work/log.txt"
}

printf '%s' '{"model_type":"gpt2","n_layer":2,"n_embd":64,"n_head":4,"n_positions":64,"vocab_size":501}' \
  >"$work/config.json"
"$planner" --model "$work/config.json" --gpus 2 --seq 64 --global-batch 4 --gpu "$gpu" --quiet \
  --pin data=2 --out "$work/small.json" >/dev/null
if ! "$planner" exec "$work/small.json" --backend cuda --steps 1 --quiet >/dev/null; then
  printf 'no GPU to measure on: see the line above\n' >&2
  exit 77
fi

kernels() { tried kernels gpu_kernels "$bin/gpu_kernels"; }

strategies() {
  for check in trains equals_host cudnn records strategies faults; do
    tried strategies "$check" "$here/gpu_test.sh" "$bin" "$check"
  done
}

calibrate() {
  [[ -f $out/gpu.json ]] && return
  local code=0
  SECONDS=0
  "$planner" calibrate --backend cuda --quiet --out "$out/gpu.json" >"$out/cuda-calibration.txt" \
    2>"$work/log.txt" || code=$?
  if [[ $code -ne 0 ]]; then
    outcome calibrate planner "$code" "$work/log.txt"
    return
  fi
  printf 'calibrated in %s s\n' "$SECONDS" | tee -a "$out/cuda-calibration.txt" >&2
}

attention() {
  if [[ -s $rows/attention.jsonl ]]; then return; fi
  before=$(clocks)
  code=0
  "$bin/gpu_attention" 7 >"$work/attention.jsonl" 2>"$work/log.txt" || code=$?
  if [[ $code -ne 0 ]]; then
    cat "$work/attention.jsonl" >>"$work/log.txt"
    outcome attention gpu_attention "$code" "$work/log.txt"
    return
  fi
  python3 "$here/collect.py" clocked "$work/attention.jsonl" "$before" "$(clocks)" >"$rows/attention.jsonl"
  join attention
}

# SECTION MODEL BATCH STEPS OPTION VALUE...: three runs with each value of an option, in turn, each to
# $work/SECTION.VALUE.PAIR.json; sets before (clocks) and code (0, or that of the last run that failed).
in_turn() {
  local section=$1 model=$2 batch=$3 count=$4 option=$5 pair value
  shift 5
  "$planner" --model "$model" --gpus 1 --global-batch "$batch" --recipe mixed --gpu "$gpu" --quiet \
    --out "$work/$section.plan.json" >/dev/null
  before=$(clocks)
  code=0
  for pair in 1 2 3; do
    for value in "$@"; do
      [[ $code -ne 0 ]] || "$planner" exec "$work/$section.plan.json" --backend cuda --steps "$count" "--$option" "$value" --quiet \
        --out "$work/$section.$value.$pair.json" >/dev/null 2>"$work/log.txt" || code=$?
    done
  done
}

# Small steps, where the host cannot issue kernels as fast as the GPU runs them.
graphs() {
  for cell in "gpt2-124m 1" "gpt2-124m 4" "gpt2-1.5b 1"; do
    read -r model batch <<<"$cell"
    if has graphs "$model-b$batch"; then continue; fi
    in_turn graphs "$model" "$batch" "$((4 * steps))" graphs on off
    if [[ $code -ne 0 ]]; then
      outcome graphs "$model-b$batch" "$code" "$work/log.txt"
      continue
    fi
    python3 "$here/collect.py" graphs "$model-b$batch" "$before" "$(clocks)" "$work" >>"$rows/graphs.jsonl"
    join graphs
    printf 'measured %s with and without graphs\n' "$model-b$batch" >&2
  done
}

# Own kernels beside a library's, as a run chooses them.
choices() {
  for cell in "gpt2-124m 32 attention-kernel auto" "gpt2-124m 32 gelu product" \
    "gpt2-1.5b 8 attention-kernel auto" "gpt2-1.5b 8 gelu product"; do
    read -r model batch option other <<<"$cell"
    if has choices "$model-$option"; then continue; fi
    in_turn choices "$model" "$batch" "$steps" "$option" own "$other"
    if [[ $code -ne 0 ]]; then
      outcome choices "$model-$option" "$code" "$work/log.txt"
      continue
    fi
    python3 "$here/collect.py" choices "$model-$option" "$other" "$before" "$(clocks)" "$work" >>"$rows/choices.jsonl"
    join choices
    printf 'measured %s with --%s own and %s\n' "$model" "$option" "$other" >&2
  done
}

# Two figures of one step that should agree where kernels are long, and part where they are short.
records() {
  for cell in "gpt2-124m 32" "gpt2-124m 1"; do
    read -r model batch <<<"$cell"
    if has records "$model-b$batch"; then continue; fi
    in_turn records "$model" "$batch" "$steps" device-times events cupti
    if [[ $code -ne 0 ]]; then
      outcome records "$model-b$batch" "$code" "$work/log.txt"
      continue
    fi
    python3 "$here/collect.py" records "$model-b$batch" "$before" "$(clocks)" "$work" >>"$rows/records.jsonl"
    join records
    python3 "$here/collect.py" print_records "$rows/records.jsonl" "$model-b$batch" >&2
  done
}

# name | model | gpus | global batch | options; several --gpus share the card, so their times are not compared.
table() {
  cat <<'TABLE'
124m-b32|gpt2-124m|1|32|--recipe mixed
124m-accumulated|gpt2-124m|1|64|--recipe mixed --pin micro_batch=16
124m-recomputed|gpt2-124m|1|32|--recipe mixed --pin checkpoint=every_k --pin checkpoint_every=1
124m-fp32|gpt2-124m|1|16|--recipe fp32
124m-offloaded|gpt2-124m|1|32|--recipe mixed --pin offload=optimizer
355m-b16|gpt2-355m|1|16|--recipe mixed
355m-selective|gpt2-355m|1|16|--recipe mixed --pin checkpoint=selective
774m-b8|gpt2-774m|1|8|--recipe mixed
1.5b-b8|gpt2-1.5b|1|8|--recipe mixed
124m-data2|gpt2-124m|2|32|--recipe mixed --pin data=2
124m-zero3|gpt2-124m|2|32|--recipe mixed --pin data=2 --pin sharding=zero3
124m-pipeline|gpt2-124m|2|32|--recipe mixed --pin pipeline=2 --pin schedule=1f1b
124m-exchange|gpt2-124m|2|32|--recipe mixed --pin context=2 --pin context_method=exchange
124m-ring|gpt2-124m|2|32|--recipe mixed --pin context=2 --pin context_method=ring
TABLE
}

plans() {
  while IFS='|' read -r name model gpus batch options; do
    if has plans "$name"; then continue; fi
    local question=(--model "$model" --gpus "$gpus" --global-batch "$batch" --quiet)
    # shellcheck disable=SC2206  # words
    question+=($options)
    before=$(clocks)
    code=0
    "$planner" "${question[@]}" --gpu "$gpu" --out "$work/$name.plan.json" >/dev/null 2>"$work/log.txt" || code=$?
    [[ $code -ne 0 ]] || "$planner" exec "$work/$name.plan.json" --backend cuda --steps "$steps" --quiet \
      --out "$work/$name.run.json" >/dev/null 2>"$work/log.txt" || code=$?
    if [[ $code -ne 0 ]]; then
      outcome plans "$name" "$code" "$work/log.txt"
      continue
    fi
    # The same strategy, as the measured profile predicts it.
    if [[ -f $out/gpu.json ]]; then
      mapfile -t pins < <(python3 "$here/collect.py" pins "$work/$name.plan.json")
      "$planner" "${question[@]}" "${pins[@]}" --gpu "$out/gpu.json" --out "$work/$name.calibrated.json" >/dev/null || true
    fi
    python3 "$here/collect.py" plan "$name" "$gpus" "$before" "$(clocks)" "$options" "$work" >>"$rows/plans.jsonl"
    join plans
    printf 'measured %s\n' "$name" >&2
  done < <(table)
}

torch() {
  if ! python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    printf 'left out: PyTorch with CUDA is not installed (pip install torch)\n' >&2
    return 0
  fi
  for cell in "gpt2-124m 32" "gpt2-355m 16" "gpt2-774m 8" "gpt2-1.5b 8"; do
    read -r model batch <<<"$cell"
    if has torch "$model"; then continue; fi
    code=0
    variants=(amp bf16)
    [[ $model == gpt2-1.5b ]] && variants=(amp)   # both at once do not fit beside the executor in 80 GB
    python3 "$here/beside_torch.py" "$planner" "$gpu" "$model" "$batch" "$steps" 3 "${variants[@]}" \
      2>"$work/log.txt" | tail -n 1 >"$work/torch.jsonl" || code=$?
    if [[ $code -ne 0 ]]; then
      outcome torch "$model" "$code" "$work/log.txt"
      continue
    fi
    cat "$work/torch.jsonl" >>"$rows/torch.jsonl"
    join torch
    printf 'measured %s beside PyTorch\n' "$model" >&2
  done
}

sanitizer() {
  if ! command -v compute-sanitizer >/dev/null; then
    printf 'left out: compute-sanitizer is not on the PATH (it is part of the CUDA toolkit)\n' >&2
    return 0
  fi
  for tool in memcheck racecheck synccheck initcheck; do
    tried sanitizer "$tool" timeout 120 compute-sanitizer --tool "$tool" --error-exitcode 9 \
      "$bin/planner-exec-cuda" exec "$work/small.json" --backend cuda --steps 2 --quiet
  done
}

for section in "${sections[@]}"; do
  case $section in
    kernels | strategies | calibrate | attention | graphs | choices | records | plans | torch | sanitizer) "$section" ;;
    *)
      printf 'no section named %s\n' "$section" >&2
      exit 2
      ;;
  esac
done
