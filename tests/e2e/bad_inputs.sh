#!/usr/bin/env bash
# Bad inputs of every kind through the real binary: exit code, one clear message on standard error,
# nothing half-written. usage: bad_inputs.sh BIN_FOLDER
set -uo pipefail
planner=$1/planner
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# expect CODE TEXT ARGUMENTS...: the exit code, and an extended regular expression on stderr.
expect() {
  local code=$1 text=$2
  shift 2
  answers "$code" "$text" "$planner" "$@"
  if [[ $code -eq 2 && -s out.txt ]]; then complain "planner $*: refused, yet wrote on stdout"; fi
  if grep -q 'terminate called\|check failed\|CHECK' err.txt; then
    complain "planner $*: ended by a bug: $(head -c 300 err.txt)"
  fi
}
no_leftovers() {
  if compgen -G '.planner-*' >/dev/null; then complain "$1: left a temporary behind"; fi
  if [[ -e ${2:-/nonexistent} ]]; then complain "$1: wrote $2"; fi
}

small=(--model gpt2-124m --gpus 2 --gpu h100-sxm-80g --global-batch 4 --seq 64)
"$planner" "${small[@]}" --out plan.json >/dev/null || complain 'a plan of gpt2-124m on 2 GPUs'

"$planner" "${small[@]}" --mode finetune --lora-rank 4 --quantization gptq --out gptq.json >/dev/null ||
  complain 'a plan beside frozen weights in gptq'
expect 2 'expected none, int8, nf4 or two_factor, found gptq' exec gptq.json --scale-down

# more layers than anybody trains: planned, or refused by how many there may be
for layers in 5000 20000; do
  printf '{"model_type":"llama","num_hidden_layers":%s,"hidden_size":64,"intermediate_size":128,
    "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":64,"vocab_size":256}' \
    "$layers" >"layers$layers.json"
done
expect 0 '' --model layers5000.json --gpus 4 --gpu h100-sxm-80g --global-batch 8
expect 1 'fewer than 16384 layers' --model layers20000.json --gpus 4 --gpu h100-sxm-80g --global-batch 8

# the command line
expect 2 'did you mean explain' explian memory.weights
expect 2 'did you mean --objective' "${small[@]}" --objectiv time
expect 2 'gpus' "${small[@]}" --gpus
expect 2 'integer >= 1' --model gpt2-124m --gpus zero
expect 2 'integer >= 1' --model gpt2-124m --gpus 0
expect 2 'an integer from 0 to 0' --model bert-large --gpus 8 --mtp 1
expect 2 'predicts no tokens' --model mlp-mnist --gpus 8 --mtp 1
expect 2 'trains no modules' --model llama3-8b --gpus 8 --framework fsdp2 --mtp 1
expect 2 'not all of the model' --model llama3-8b --gpus 8 --mode finetune --lora-rank 8 --mtp 1
expect 2 'a mixture of experts' --model llama3-8b --gpus 8 --expert-imbalance 1.2
expect 2 'a framework that gathers weights in 8 bits' --model llama3-8b --gpus 8 --gpu h100 --precision fp8 --fp8-tensors params --framework deepspeed
expect 2 'gated feed-forward layers' --model gpt2-124m --gpus 8 --precision fp8 --fp8-tensors activation_input
expect 2 'experts, to which rows travel' --model llama3-8b --gpus 8 --precision fp8 --fp8-tensors dispatch
expect 2 'operators of the model: conv1.a' --model alexnet --gpus 8 --pin splits=dense=out
expect 2 'operators with the factor' --model alexnet --gpus 8 --pin splits=fc6.a
expect 2 'a norm from 0' --model gpt2-124m --gpus 2 --clip -1
expect 2 'a job that trains' --model gpt2-124m --gpus 2 --mode inference --clip 1
expect 2 'from 1 to 64' --model mixtral-8x7b --gpus 8 --expert-imbalance 0.5
expect 2 '--model' --gpus 2
expect 2 'adamw' "${small[@]}" --optimizer adamv
expect 2 'mixed' "${small[@]}" --recipe mixd

# models and machines
expect 2 'gpt2-1\.5b' --model gpt2-1.5 --gpus 8
expect 2 'rtx3090' --model gpt2-124m --gpus 8 --gpu rtx309
expect 2 'aws-p4d: expected a100-sxm-40g' "${small[@]}" --node aws-p4d
"$planner" --model gpt2-124m --gpus 16 --seq 64 --node aws-p6-b200 --json >rented.json 2>err.txt
grep -q '"gpu": *"b200-sxm-180g"' rented.json || complain 'a rented machine without --gpu: its own GPU'
expect 2 'write one of v100-pcie-16g, v100-sxm-16g' --model gpt2-124m --gpus 8 --gpu v100
expect 2 'choose --precision fp16' --model gpt2-124m --gpu t4 --precision bf16
expect 2 'choose --attention flash1' --model gpt2-124m --gpu t4 --attention flash2
expect 2 'nowhere' --model ./nowhere/config.json --gpus 2
printf '{"model_type":"gpt2","n_layer":6,"n_embd":' >cut.json
expect 2 'cut\.json:1' --model cut.json --gpus 2
printf '{"model_type":"gpt2","n_layer":6,"n_embd":97,"n_head":6,"n_positions":48,"vocab_size":9}' \
  >heads.json
expect 2 'head' --model heads.json --gpus 2
head -c 4096 /dev/urandom >noise.json
expect 2 'noise\.json' --model noise.json --gpus 2
expect 2 '' --model . --gpus 2

# pins
expect 2 'key=value' "${small[@]}" --pin data
expect 2 'did you mean sharding' "${small[@]}" --pin shardin=zero1
expect 2 'zero1' "${small[@]}" --pin sharding=zero9
expect 1 'no feasible strategy' "${small[@]}" --pin data=3
expect 1 'no feasible strategy' --model gpt2-124m --gpus 8 --gpu h100-sxm-80g --global-batch 2 \
  --pin data=8
expect 1 'memory' --model gpt3-175b --gpus 1 --gpu rtx3090

# an answer of no is still a plan
rm -f no.json
expect 1 '' "${small[@]}" --pin data=3 --json --out no.json
if ! grep -q '"chosen": null' out.txt; then complain 'exit 1 with --json lacks the plan'; fi
if ! cmp -s out.txt no.json; then complain 'exit 1: --out and --json differ'; fi

# plan files
expect 2 'missing\.json' compare missing.json plan.json
expect 2 'two files' compare plan.json
head -c 900 plan.json >half.json
expect 2 'half\.json' compare half.json plan.json
sed 's/"gpus": 2,/"gpus": -2,/' plan.json >negative.json
expect 2 'negative\.json:[0-9]+:[0-9]+ /cluster/gpus' explain time.step --plan negative.json
sed 's/"plan\/1"/"plan\/9"/' plan.json >schema.json
expect 2 'plan/1' explain time.step --plan schema.json
expect 2 'did you mean memory.weights' explain memory.weigths --plan plan.json
expect 2 'integer >= 2' explain laws --gpus 1

# targets
expect 2 'no/such' "${small[@]}" --out no/such/plan.json
no_leftovers 'a missing folder' no
expect 2 '' "${small[@]}" --out .
expect 3 'No space left' "${small[@]}" --out /dev/full
printf 'before' >kept.json
chmod 400 kept.json
if [[ $EUID -ne 0 ]]; then expect 2 'denied' "${small[@]}" --out kept.json; fi
if [[ $(cat kept.json) != before ]]; then complain 'a target that may not be written was'; fi
expect 2 'sharding' "${small[@]}" --pin sharding=zero9 --out never.json
no_leftovers 'bad input' never.json

# standard output: full, closed, or without a reader
"$planner" "${small[@]}" >/dev/full 2>err.txt
if [[ $? -ne 3 ]] || ! grep -q 'standard output' err.txt; then complain 'a full stdout'; fi
"$planner" "${small[@]}" --json --out closed.json >&- 2>err.txt
if [[ $? -ne 3 ]] || ! grep -q 'standard output' err.txt; then complain 'a closed stdout'; fi
if ! cmp -s closed.json plan.json && ! grep -q '"schema"' closed.json; then
  complain 'a closed stdout spoilt --out'
fi
"$planner" --help 2>err.txt >/dev/full
if [[ $? -ne 3 ]]; then complain 'help to a full stdout'; fi
mkfifo pipe
(exec 3<pipe; exec 3<&-) &
"$planner" "${small[@]}" --json 2>err.txt >pipe
code=$?
if [[ $code -ne 3 && $code -ne 0 ]]; then complain "a reader that left: exit $code"; fi
wait

# interruption, while the write of --out waits for a reader that never comes: it would catch SIGINT,
# and none of its threads computes any more. Threads end while this looks at them, and all may sleep
# for a moment in the search, where an interruption is answered alike.
waits_for_reader() {
  grep -q '^SigCgt:.*[2367abef]$' "/proc/$child/status" &&
    [[ -z $(cat "/proc/$child"/task/*/status 2>/dev/null | grep '^State:' | grep -v sleeping) ]]
}
mkfifo stuck
env --default-signal=INT "$planner" "${small[@]}" --quiet --out stuck >/dev/null 2>err.txt &
child=$!
begun $child waits_for_reader
kill -INT "$child"
wait "$child"
code=$?
if [[ $code -ne 130 ]]; then complain "interrupted: exit $code, expected 130"; fi
if ! grep -q interrupted err.txt; then complain 'interrupted without saying so'; fi
no_leftovers 'an interruption'

if [[ $failures -gt 0 ]]; then
  printf '%s checks failed\n' "$failures"
  exit 1
fi
printf 'bad inputs: all as they should be\n'
