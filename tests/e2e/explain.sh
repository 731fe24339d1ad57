#!/usr/bin/env bash
# `planner explain`: words without a plan, figures and why-not of one. usage: explain.sh BIN_FOLDER
set -uo pipefail
planner=$1/planner
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# shows TEXT ARGUMENTS...: exit code 0, and a text on standard output.
shows() {
  local text=$1
  shift
  answers 0 '' "$planner" explain "$@"
  tr -s '\n ' ' ' <out.txt | grep -- "$text" >/dev/null || complain "explain $*: stdout lacks /$text/: $(head -c 400 out.txt)"
}

shows 'fully sharded' zero3
shows 'fully sharded' ZeRO-3
shows 'sharding=zero2' sharding
shows 'rank 3 \.\.\.\.\.\.F1B1==' 1f1b
shows 'Model FLOPs utilisation' mfu
shows 'tensor (strategy key)' tp
shows 'reduce_scatter (collective)' reduce scatter
shows 'strategy key: data, tensor' words
answers 2 'did you mean pointwise' "$planner" explain pointwize
answers 2 'explain words' "$planner" explain qqqqqqqqqq

"$planner" --model gpt2-124m --gpus 4 --gpu h100-sxm-80g --global-batch 16 --seq 64 \
  --out plan.json >/dev/null || complain 'a plan'
shows 'sum' memory.activations --plan plan.json
shows 'fully sharded' zero3 --plan plan.json
# The lines of every term sum to the figure of the plan.
for term in weights gradients optimizer activations logits communication live reserved device; do
  answers 0 '' "$planner" explain "memory.$term" --plan plan.json --json
  lines=$(sed -n 's/.*"bytes": \([0-9]*\).*/\1/p' out.txt | awk '{sum += $1} END {printf "%.0f", sum}')
  value=$(sed -n 's/^ *"value": \([0-9]*\).*/\1/p' out.txt)
  [[ $lines == "$value" ]] || complain "memory.$term: lines sum to $lines, the plan says $value"
done
shows 'The best plan with tensor=4 is .* slower' why-not tp=4 --plan plan.json
# The plan's own --allow-stale holds for what it is asked next.
"$planner" --model gpt2-1.5b --gpus 8 --gpu rtx3090 --allow-stale --out stale.json >/dev/null
shows 'micro_batch=2: .* async' why-not micro_batch=2 --plan stale.json
answers 2 'KEY=VALUE' "$planner" explain why-not --plan plan.json
answers 2 'did you mean tensor' "$planner" explain why-not tensr=4 --plan plan.json

if [[ $failures -gt 0 ]]; then exit 1; fi
printf 'explain: words, figures and why-not\n'
