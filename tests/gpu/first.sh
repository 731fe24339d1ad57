#!/usr/bin/env bash
# The first minutes on a GPU: what works, what does not, and where a step's time goes. Three minutes.
# Sections, in this order when none is named (checks of one section run at the same time):
#   facts                                   driver, libraries, clocks
#   correct                                 each kernel, and losses, memory and traffic of strategies,
#                                           compared with the host's; NCCL on one card; PyTorch compiles
#   steps                                   ten steps of GPT-2 124M and 1.5B, kernel by kernel
#   families                                sixteen steps each of mixtures and other decoders, of few layers where
#                                           the whole is too large (families/), kernel by kernel
#   products                                matrix products by each algorithm that cuBLASLt proposes
#   attention                               own attention, with and without tensor cores, and cuDNN's
#   calibrate                               the profile of this GPU, and what it predicts of those steps
#   torch                                   GPT-2 124M here and in PyTorch, in turns
#   larger                                  GPT-2 1.5B, 355M and 774M so too (only when named)
#   sanitizer                               compute-sanitizer over a small run
# Each command has a limit of its own. Its whole output goes to OUT/logs, its end and exit code to a row
# of OUT/first.jsonl; OUT/first.tar.gz has all of that and is written anew after each section, so that a
# call which is killed loses the section at work alone. Called again, it runs what has no row of exit 0.
# FIRST_PATIENCE: what the limits are multiplied by, on a machine that is slow (1).
# usage: first.sh BIN_FOLDER OUT_FOLDER [SECONDS [SECTION...]]     SECONDS: for all of it (200)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$(cd "$1" && pwd)
mkdir -p "$2/logs"
out=$(cd "$2" && pwd)
limit=${3:-200}
shift $(($# < 3 ? $# : 3))
sections=("$@")
[[ ${#sections[@]} -gt 0 ]] || sections=(facts correct steps torch products attention calibrate sanitizer)
planner=$bin/planner
rows=$out/first.jsonl
touch "$rows"
# Models and batches of `steps`, one a line: others where the script is rehearsed.
mapfile -t cells <<<"${FIRST_CELLS:-gpt2-124m 32
gpt2-1.5b 8}"
# Those of `families`: a name or a file of families/, tokens a sample, samples a step, further options.
mapfile -t families <<<"${FIRST_FAMILIES:-mixtral.json 2048 8
qwen3-moe.json 2048 8
deepseek-v2-lite.json 2048 8
gpt-oss.json 2048 8
gemma-3-1b 2048 8
llama3.2-1b 2048 8
llama3.2-1b 2048 8 --precision fp8
qwen3-1.7b 2048 8
bert-large 512 32}"
SECONDS=0
gpu=
# shellcheck source=libraries.sh disable=SC1091
source "$here/libraries.sh"

# tried NAME SECONDS COMMAND...: a row and a log; what has a row of exit 0 is left alone. Always succeeds.
tried() {
  local name=$1 most=$(($2 * ${FIRST_PATIENCE:-1})) code=0 begin=$SECONDS left=$((limit - SECONDS))
  shift 2
  if grep -q "^{\"name\": \"$name\", \"exit\": 0," "$rows"; then return 0; fi
  if ((left < 5)); then
    printf '{"name": "%s", "exit": 124, "seconds": 0, "says": ["left out: no time was left"]}\n' "$name" >>"$rows"
    return 0
  fi
  timeout -k 5 "$((most < left ? most : left))" "$@" >"$out/logs/$name.txt" 2>&1 </dev/null || code=$?
  python3 "$here/collect.py" outcome "$name" "$code" "$out/logs/$name.txt" "$((SECONDS - begin))" >>"$rows"
  printf '%-16s exit %3d, %3d s: %s\n' "$name" "$code" "$((SECONDS - begin))" "$(tail -n 1 "$out/logs/$name.txt" | cut -c 1-150)"
}
pack() {
  tar -C "$out" -czf "$out/.packing" --exclude=first.tar.gz --exclude=.packing . 2>/dev/null || true
  mv "$out/.packing" "$out/first.tar.gz"
}

describe() {
  nvidia-smi -q -d MEMORY,CLOCK,POWER,TEMPERATURE,PERFORMANCE
  nvidia-smi --query-gpu=name,driver_version,vbios_version,pcie.link.gen.current,pcie.link.width.current,clocks.sm,clocks.mem,power.draw --format=csv
  nvcc --version | tail -n 2
  lscpu | head -n 20
  free -g
  ldd "$bin/planner-exec-cuda"
  python3 -c 'import torch; print("torch", torch.__version__, "cuda", torch.version.cuda, "cudnn", torch.backends.cudnn.version(), "nccl", torch.cuda.nccl.version())'
  "$planner" doctor
}

correct() {
  tried kernels 150 "$bin/gpu_kernels" --durations yes &
  for check in trains equals_host cudnn records strategies faults; do
    tried "check_$check" 60 "$here/gpu_test.sh" "$bin" "$check" &
  done
  tried nccl 90 "$here/nccl.sh" "$bin" "$out/nccl" &
  if [[ " ${sections[*]} " == *" torch "* ]]; then
    tried warm 100 python3 "$here/beside_torch.py" warm gpt2-124m 32 amp bf16 &
  fi
  if [[ " ${sections[*]} " == *" larger "* ]]; then
    tried warm_gpt2-1.5b 110 python3 "$here/beside_torch.py" warm gpt2-1.5b 8 amp &
  fi
  wait
}

# trained NAME STEPS OPTION...: plan and run of what the options describe, as rows plan_NAME and steps_NAME.
trained() {
  local name=$1 count=$2
  shift 2
  tried "plan_$name" 20 "$planner" "$@" --gpus 1 --recipe mixed --gpu "$gpu" --quiet --out "$out/$name.plan.json"
  [[ -f $out/$name.plan.json ]] || return 0
  tried "steps_$name" 70 "$planner" exec "$out/$name.plan.json" --backend cuda --steps "$count" --quiet \
    --device-times cupti --out "$out/$name.run.json"
  [[ ! -f $out/$name.run.json ]] ||
    python3 "$here/collect.py" kernels "$out/$name.run.json" | tee "$out/logs/kernels_$name.txt"
}

steps() {
  local model batch
  for cell in "${cells[@]}"; do
    read -r model batch <<<"$cell"
    trained "$model" 10 --model "$model" --global-batch "$batch" --pin "micro_batch=$batch"
  done
}

families() {
  local model tokens batch more file
  for cell in "${families[@]}"; do
    read -r model tokens batch more <<<"$cell"
    file=$here/families/$model
    [[ -f $file ]] || file=$model
    # shellcheck disable=SC2086  # options are words
    trained "${model%.json}${more:+-${more##* }}" 16 --model "$file" --seq "$tokens" --global-batch "$batch" \
      --pin "micro_batch=$((batch / 2))" $more
  done
}

attention() { tried attention 40 "$bin/gpu_attention" 3; }
products() { tried products 40 "$bin/gpu_products" 5; }

calibrate() {
  tried calibrate 60 "$planner" calibrate --backend cuda --quiet --out "$out/gpu.json"
  local model
  for cell in "${cells[@]}"; do
    model=${cell% *}
    [[ ! -f $out/$model.plan.json || ! -f $out/$model.run.json ]] ||
      tried "compare_$model" 20 "$planner" compare "$out/$model.plan.json" "$out/$model.run.json" --format md
  done
}

beside() { tried "torch_$1" "$4" python3 "$here/beside_torch.py" "$planner" "$gpu" "$1" "$2" 10 "$3" "${@:5}"; }
torch() { beside gpt2-124m 32 3 100 amp bf16; }
larger() {
  beside gpt2-1.5b 8 1 110 amp
  beside gpt2-355m 16 1 70 amp
  beside gpt2-774m 8 1 80 amp
}

sanitizer() {
  local tool
  "$planner" --model gpt2-124m --gpus 1 --seq 64 --global-batch 2 --gpu "$gpu" --recipe mixed --quiet --out "$out/small.plan.json" >/dev/null
  for tool in memcheck racecheck; do
    tried "sanitizer_$tool" 60 compute-sanitizer --tool "$tool" --error-exitcode 9 "$bin/planner-exec-cuda" exec "$out/small.plan.json" \
      --scale-down --backend cuda --steps 1 --quiet
  done
}

for section in "${sections[@]}"; do
  case $section in
    facts) tried facts 30 bash -c "$(declare -f describe); bin=$bin planner=$planner; describe" ;;
    correct | steps | families | products | larger | attention | calibrate | torch | sanitizer) "$section" ;;
    *)
      printf 'no section named %s\n' "$section" >&2
      exit 2
      ;;
  esac
  pack
done
