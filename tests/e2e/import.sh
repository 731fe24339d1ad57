#!/usr/bin/env bash
# Configurations that were emitted come back as the same question: planned again with what was read and
# emitted again, the file is the same. usage: import.sh BIN_FOLDER
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/lib.sh"
planner=$1/planner

# round_trip FRAMEWORK ENDING OPTION...: the options of a plan.
trips=0
round_trip() {
  local framework=$1 ending=$2
  shift 2
  trips=$((trips + 1))
  "$planner" "$@" --gpu h100-sxm-80g --out plan.json --quiet >/dev/null || fail "no plan: $*"
  "$planner" emit plan.json --for "$framework" --out "first.$ending" --quiet >/dev/null ||
    fail "not emitted: $*"
  # A configuration of DeepSpeed or accelerate has no model in it.
  local named=()
  if [[ $framework == deepspeed || $framework == accelerate ]]; then named=(--model "$2"); fi
  "$planner" import "first.$ending" "${named[@]}" --gpu h100-sxm-80g --json --quiet >import.json ||
    fail "not imported: $*"
  # The command is a line of JSON: the file has one, and it is the last of its kind.
  sed -n 's/^  "command": "planner \(.*\)",$/\1/p' import.json >command.txt
  [[ $(wc -l <command.txt) -eq 1 ]] || fail "no command: $*"
  printf '"%s" %s --out again.json --quiet\n' "$planner" "$(cat command.txt)" >again.sh
  bash again.sh >/dev/null || fail "its command does not plan: $(cat command.txt)"
  "$planner" emit again.json --for "$framework" --out "second.$ending" --quiet >/dev/null ||
    fail "not emitted again: $(cat command.txt)"
  # Comments hold the strategy as it is told, with keys that the framework has no word for.
  diff <(grep -v '^# ' "first.$ending") <(grep -v '^# ' "second.$ending") >diff.txt ||
    fail "another file: $* ($(cat diff.txt))"
}

megatron() { round_trip megatron sh "$@" --framework megatron_core; }
megatron --model gpt2-774m --gpus 8 --pin tensor=2 --pin pipeline=2 --pin schedule=1f1b
megatron --model llama3-70b --gpus 64
megatron --model mixtral-8x7b --gpus 32
megatron --model qwen3-30b-a3b --gpus 32
megatron --model qwen3-8b --gpus 8 --precision fp8 --fp8-scaling blockwise
megatron --model qwen3-8b --gpus 8 --precision fp8 --fp8-tensors params --pin sharding=zero1
megatron --model qwen2.5-7b --gpus 16 --recipe megatron_bf16_moments --pin sharding=zero1
megatron --model mistral-7b --gpus 8
megatron --model smollm3-3b --gpus 8 --pin checkpoint='modules(layernorm+core_attn)'
megatron --model llama3-8b --gpus 16 --pin context=2 --pin context_method=ring --seq 32k
megatron --model llama3-8b --gpus 8 --pin pipeline=4 --pin stages=7,8,9,8 --pin schedule=1f1b
megatron --model llama3-8b --gpus 8 --pin pipeline=2 --pin schedule=interleaved --pin virtual_stages=4
megatron --model llama3-8b --gpus 8 --pin checkpoint='first_k(3)'
megatron --model llama3-70b --gpus 16 --pin offload=optimizer
megatron --model mixtral-8x7b --gpus 16 --pin tensor=2 --pin expert=8 --pin expert_tensor=1 \
  --pin expert_dispatch=deepep
megatron --model llama3-8b --gpus 8 --pin tensor=2 --pin tp_overlap=true --pin sequence_parallel=true
megatron --model llama3-8b --gpus 8 --recipe fp32
megatron --model qwen3-8b --gpus 8 --precision fp16
grep -q -- '--recipe megatron' command.txt || fail "fp16 with sums in f32 is another recipe"
round_trip megatron sh --model gpt3-175b --gpus 512 --framework megatron --precision fp16
round_trip megatron sh --model llama2-7b --gpus 8 --framework megatron --attention unfused
round_trip megatron sh --model gpt2-124m --gpus 4 --framework megatron --optimizer sgd \
  --pin sharding=none

accelerate() { round_trip accelerate yaml "$@" --framework fsdp2 --reduce-dtype bf16; }
accelerate --model llama3-8b --gpus 8 --pin sharding=zero3 --pin checkpoint='every_k(1)'
accelerate --model qwen3-8b --gpus 16 --pin sharding=zero3 --pin shard_group=8
accelerate --model gpt2-1.5b --gpus 8 --pin sharding=zero2

titan() { round_trip torchtitan toml "$@" --framework fsdp2; }
titan --model llama3-8b --gpus 8
titan --model llama3.1-405b --gpus 512
titan --model llama3-8b --gpus 16 --pin sharding=zero3 --pin shard_group=8
titan --model llama3-8b --gpus 8 --precision fp8 --fp8-scaling rowwise
titan --model llama3-8b --gpus 8 --precision fp8 --fp8-tensors params --pin sharding=zero3
titan --model llama3-8b --gpus 8 --pin checkpoint='every_k(2)'
titan --model llama3-8b --gpus 8 --pin checkpoint=selective_op --pin tensor=2 --pin tp_overlap=true
titan --model llama3-8b --gpus 8 --pin pipeline=4 --pin schedule=interleaved --pin virtual_stages=2 \
  --pin sharding=zero2
titan --model llama3-8b --gpus 16 --pin context=2 --pin context_method=ring --seq 32k
titan --model llama3-70b --gpus 32 --pin offload=params
titan --model llama3-8b --gpus 8 --optimizer adam --reduce-dtype bf16

# Neither file knows context ranks.
released() { round_trip torchtitan_0.3 py "$@" --framework fsdp2 --reduce-dtype f32 --pin context=1; }
main_branch() { round_trip torchtitan_python py "$@" --framework fsdp2 --reduce-dtype f32 --pin context=1; }
for of_release in released main_branch; do
  $of_release --model llama3.2-1b --gpus 8 --pin sharding=none
  $of_release --model llama3-8b --gpus 8 --pin pipeline=2 --pin schedule=1f1b --pin sharding=zero2 \
    --pin checkpoint=none
done
main_branch --model llama3-8b --gpus 16 --pin sharding=zero3 --pin shard_group=8
main_branch --model llama3-8b --gpus 8 --precision fp8 --fp8-scaling rowwise --pin sharding=zero2
main_branch --model llama3-8b --gpus 8 --pin checkpoint=selective_op --pin tensor=2 --pin tp_overlap=true
main_branch --model llama3-8b --gpus 8 --pin pipeline=4 --pin schedule=interleaved --pin virtual_stages=2 \
  --pin sharding=zero2 --pin checkpoint='every_k(1)'

deepspeed() { round_trip deepspeed json "$@" --framework deepspeed; }
deepspeed --model gpt2-1.5b --gpus 8
deepspeed --model llama3-8b --gpus 8 --pin sharding=zero2
deepspeed --model llama3-8b --gpus 16 --pin sharding=zero3 --pin offload=optimizer
deepspeed --model llama3-8b --gpus 16 --pin sharding=zero3 --pin offload=params
deepspeed --model gpt2-1.5b --gpus 4 --precision fp16 --optimizer sgd --pin sharding=zero1
deepspeed --model gpt2-774m --gpus 4 --recipe fp32 --reduce-dtype f32
deepspeed --model gpt2-774m --gpus 4 --pin overlap=false --pin bucket_bytes=50MiB
deepspeed --model gpt2-774m --gpus 16 --pin sharding=zero3 --pin shard_group=8

# ---- what it takes, beside the best -----------------------------------------------------------------
"$planner" --model llama3-8b --gpus 8 --framework megatron_core --pin tensor=4 --out plan.json --quiet \
  >/dev/null
"$planner" emit plan.json --for megatron --out train.sh --quiet >/dev/null
"$planner" import train.sh --plan --gpu h100-sxm-80g >page.txt
grep -q '^  yours ' page.txt || fail "yours is not in the answer: $(cat page.txt)"
grep -q '^  best ' page.txt || fail "the best is not in the answer: $(cat page.txt)"
grep -q 'planner --model llama3-8b --gpus 8' page.txt || fail "no command: $(cat page.txt)"
"$planner" import train.sh --gpus 16xH100 --json >asked.json
grep -q '"label": "yours"' asked.json || fail 'yours is not in the machine form'
grep -q '"data=4"' asked.json || fail 'twice the GPUs are not twice the data ranks'
# A configuration that does not fit is answered, and says so.
code=0
"$planner" import train.sh --gpus 4xrtx3090 >page.txt 2>err.txt || code=$?
[[ $code -eq 1 ]] || fail "exit $code instead of 1: $(cat err.txt)"
grep -q '^planner: ' err.txt || fail "no reason: $(cat err.txt)"

# ---- a model that no name is of ----------------------------------------------------------------------
sed 's/--ffn-hidden-size 14336/--ffn-hidden-size 14592/' train.sh >other.sh
"$planner" import other.sh >page.txt
grep -q -- '--model-out model.json' page.txt || fail "not said how to write it: $(cat page.txt)"
ends 2 '--model-out' "$planner" import other.sh --plan --gpu h100-sxm-80g
"$planner" import other.sh --model-out model.json --plan --gpu h100-sxm-80g >page.txt
"$planner" --model model.json --gpus 8 --quiet >/dev/null || fail 'the model that was written is none'

# ---- nothing of a script is run, and nothing of it is printed as it is -------------------------------
{
  printf 'touch PWNED; $(touch PWNED) `touch PWNED`\n'
  cat train.sh
  printf -- '--lr $(touch PWNED)\n'
} >hostile.sh
sed -i "s/^  --lr 1.0e-4/  --lr \$(touch PWNED) --name 'a\x1b]0;y\x07b'/" hostile.sh
"$planner" import hostile.sh >page.txt
[[ ! -e PWNED ]] || fail 'a command of the script was run'
grep -q $'\x1b' page.txt && fail 'a control character reaches the terminal'
grep -q 'a\\x1b\]0;y\\x07b' page.txt || fail "the value is not shown: $(cat page.txt)"

# ---- one function of several ------------------------------------------------------------------------
"$planner" --model llama3-8b --gpus 8 --framework fsdp2 --reduce-dtype f32 --pin pipeline=1 --pin context=1 \
  --out plan.json \
  --quiet >/dev/null
"$planner" emit plan.json --for torchtitan_python --out planned.py --quiet >/dev/null
cat >>planned.py <<'PYTHON'


def changed() -> Trainer.Config:
    config = planned()
    config.training.num_tokens_per_train_step = 64 * config.training.max_context_length
    open("PWNED", "w")
    return config
PYTHON
ends 2 'say which with --config NAME' "$planner" import planned.py
"$planner" import planned.py --config changed >page.txt
grep -q -- '--global-batch 64' page.txt || fail "another batch: $(cat page.txt)"
[[ ! -e PWNED ]] || fail 'a call of the Python file was run'
ends 2 'did you mean changed?' "$planner" import planned.py --config change

# ---- bad input ---------------------------------------------------------------------------------------
printf 'hello\n' >none.txt
ends 2 'expected a script of Megatron-LM' "$planner" import none.txt
ends 2 'no-such.sh' "$planner" import no-such.sh
ends 2 'a multiple of 4' "$planner" import train.sh --gpus 3
ends 2 'NAME=VALUE' "$planner" import train.sh --var TP
ends 2 'FILE' "$planner" import
printf 'A=(\n--num-layers 2' >open.sh
ends 2 'open.sh:1' "$planner" import open.sh
printf '%s configurations came back as they were\n' "$trips"
