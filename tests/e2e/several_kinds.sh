#!/usr/bin/env bash
# GPUs of several kinds in one machine: planned, run here, compared, simulated, drawn, explained.
# usage: several_kinds.sh BIN_FOLDER
set -uo pipefail
planner=$1/planner
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

works() { "$@" >out.txt 2>err.txt || fail "exit $?: $* ($(cat err.txt))"; }

works "$planner" --model gpt2-124m --gpus 2xrtx4090+2xrtx3090 --seq 256 --global-batch 64 \
  --pin data=4 --pin micro_batch=2 --out plan.json
grep -Eq 'shares=[0-9]+,[0-9]+,[0-9]+,[0-9]+' out.txt || fail "no shares: $(cat out.txt)"
grep -q 'on 2 x rtx4090 + 2 x rtx3090, 1 node' out.txt || fail "another machine: $(cat out.txt)"
grep -q '"first_rank": 2' plan.json || fail 'the plan does not say which ranks have the second kind'

# The faster cards take more, and both kinds are simulated.
read -r fast slow < <(sed -En '0,/"shares"/!b; /"shares"/{s/[^0-9]+/ /g;p}' plan.json |
  awk '{print $1, $NF}')
[[ -n ${fast:-} && $fast -gt $slow ]] || fail "shares $fast and $slow"
works "$planner" simulate plan.json --json
grep -q '"exposed_communication"' out.txt || fail 'no simulation'
ends 2 'several kinds' "$planner" simulate plan.json --collectives flows
ends 2 'data ranks are alike' "$planner" simulate plan.json --scale 1,2

# Run here in small: every byte and message as predicted, whatever the ranks' pace.
works "$planner" exec plan.json --scale-down --steps 2 --out run.json
works "$planner" compare plan.json run.json
grep -q 'memory.live .*equal' out.txt || fail "memory differs: $(cat out.txt)"
grep -Eq 'gradients\..*wire .*equal' out.txt || fail "traffic differs: $(cat out.txt)"
works "$planner" exec plan.json --scale-down --steps 2 --links plan --out paced.json
[[ $(grep '"loss"' paced.json) == "$(grep '"loss"' run.json)" ]] || fail 'paced ranks train another model'
grep -q '"emulated_links": true' paced.json || fail 'paced ranks are not said to be'

works "$planner" report plan.json run.json --out page.html
grep -q '2 x GeForce RTX 4090 + 2 x GeForce RTX 3090' page.html || fail 'the page names other GPUs'
works "$planner" explain strategy.shares --plan plan.json
works "$planner" sweep --model gpt2-124m --gpus 2xrtx4090+2xrtx3090 --seq 256
grep -q '2 x rtx4090 + 2 x rtx3090' out.txt || fail "a sweep names other GPUs: $(cat out.txt)"
ends 2 'equally many' "$planner" emit plan.json --for megatron
printf 'several kinds of GPUs: planned, run, compared\n'
