#!/usr/bin/env bash
# What people type on the command line: GPUs, models, nodes and keys by their usual names.
# usage: names.sh BIN_FOLDER
set -uo pipefail
planner=$1/planner
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# same FILE ARGUMENTS...: the plan's question and choice are those of FILE.
chosen() { grep -v '"seconds"\|"assumptions"\|is taken to mean\|GPU .*:' "$1"; }
same() {
  local file=$1
  shift
  answers 0 '' "$planner" "$@" --out typed.json
  cmp -s <(chosen "$file") <(chosen typed.json) || complain "planner $*: another plan than $file"
}

"$planner" --model llama3-8b --gpus 8 --gpu h100-sxm-80g --pin data=4 --pin tensor=2 \
  --pin sharding=zero1 --out plain.json >/dev/null || complain 'a plan in the planner'"'"'s own names'
same plain.json --model meta-llama/Meta-Llama-3-8B --gpus 8xH100 --pin dp=4 --pin tp=2 --pin zero=1
same plain.json --model Llama-3-8B --gpus 8 --gpu 'NVIDIA H100 80GB HBM3' --pin DP=4 --pin TP=2 \
  --pin sharding=ZeRO-1
answers 0 '' "$planner" --model gpt2 --gpus 8xH100 --json
grep -q 'H100 is taken to mean h100-sxm-80g' out.txt ||
  complain '--gpus 8xH100: the assumption is not stated'

answers 2 'write one of v100-pcie-16g, v100-sxm-16g' "$planner" --model gpt2 --gpus 8xV100
answers 2 'a number beside --gpu' "$planner" --model gpt2 --gpus 8xH100 --gpu h100-sxm-80g
answers 0 '' "$planner" --model gpt2 --gpus '8xH100 + 8xA100'
grep -q 'on 8 x h100-sxm-80g + 8 x a100-sxm-80g, 2 nodes' out.txt ||
  complain '--gpus 8xH100+8xA100: another machine'
answers 2 'machines of one size' "$planner" --model gpt2 --gpus 8xH100+4xA100
answers 2 'kinds of GPUs with how many' "$planner" --model gpt2 --gpus 8xH100+A100
answers 2 'with . between them' "$planner" --model gpt2 --gpus 8xH100,8xA100
answers 2 'at most 4 kinds' "$planner" --model gpt2 --gpus 8xH100+8xA100+8xV100+8xH200+8xB200
answers 2 'tensor \(tp\).*did you mean tensor' "$planner" --model gpt2 --gpus 8 --pin tensr=2
# Sizes in k, as sweep takes them.
answers 0 '' "$planner" --model gpt2 --gpus 1xH100 --seq 1k --global-batch 1K --json
grep -q '"seq_len": 1024' out.txt || complain '--seq 1k is not 1024'
grep -q '"global_batch": 1024' out.txt || complain '--global-batch 1K is not 1024'
# Options by the names that launchers and trainers have for them.
answers 2 'did you mean --global-batch' "$planner" --model gpt2 --batch-size 512
answers 2 'did you mean --seq' "$planner" --model gpt2 --seq-len 1024
answers 2 'did you mean --pin tensor=VALUE' "$planner" --model gpt2 --tensor-parallel 2
answers 0 '' "$planner" gpus 'RTX 4090'
grep -q '^ *gpu.usable = ' out.txt || complain 'gpus NAME: no numbers'
answers 2 'did you mean rtx4090' "$planner" gpus rtx409

if [[ $failures -gt 0 ]]; then exit 1; fi
printf 'names: understood as people type them\n'
