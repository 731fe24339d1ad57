#!/usr/bin/env bash
# Money: --price, --objective cost over several machines; sweeps over any option; no figure in
# e-notation. usage: prices.sh BIN_FOLDER
set -uo pipefail
planner=$1/planner
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

small=(--model gpt2-124m --gpus 2 --global-batch 16 --seq 64)
# shows TEXT ARGUMENTS...: exit code 0, and a text on standard output, its line breaks as blanks.
shows() {
  local text=$1
  shift
  answers 0 '' "$planner" "$@"
  tr -s '\n ' ' ' <out.txt | grep -- "$text" >/dev/null ||
    complain "planner $*: stdout lacks /$text/: $(head -c 600 out.txt)"
}
# as_people_read ARGUMENTS...: no number of the page is in e-notation.
as_people_read() {
  answers 0 '' "$planner" "$@"
  if grep -wE '[0-9]+(\.[0-9]+)?e[-+][0-9]+' out.txt; then complain "planner $*: e-notation"; fi
}

# A price is printed with who asks for it, and --price replaces it.
shows 'USD, .* tokens (.* at 2.69 USD a GPU hour (lowest tier of RunPod' \
  "${small[@]}" --gpu H100 --tokens 1B
shows 'at 2.5 USD a GPU hour (as given with --price)' "${small[@]}" --gpu H100 --tokens 1B \
  --price H100=2.50
shows 'rent not known: --price' "${small[@]}" --gpu rtx4080 --tokens 1B
answers 2 'write --price H100=2.50' "$planner" "${small[@]}" --gpu H100 --price H100=cheap
answers 2 'did you mean' "$planner" "${small[@]}" --gpu H100 --price rtx409=2

# The cheapest machine is planned: the slow one once the fast one is dear enough.
chosen() { sed -n 's/^ *"gpu": "\([a-z0-9-]*\)".*/\1/p' out.txt | head -n 1; }
answers 0 '' "$planner" "${small[@]}" --gpu H100,rtx3090 --objective cost --json \
  --price H100=100,rtx3090=0.01
[[ $(chosen) == rtx3090 ]] || complain "cheapest: $(chosen) instead of rtx3090"
answers 0 '' "$planner" "${small[@]}" --gpu H100,rtx3090 --objective cost --json \
  --price H100=0.01 --price rtx3090=100
[[ $(chosen) == h100-sxm-80g ]] || complain "cheapest: $(chosen) instead of h100-sxm-80g"
shows 'is the cheapest of 2 for a token: .* USD a day, .* USD per [mb]illion tokens, at' \
  "${small[@]}" --gpu H100,rtx3090 --objective cost --full
answers 2 'write --price rtx4080=USD' "$planner" "${small[@]}" --gpu H100,rtx4080 --objective cost

# Each machine's price, also beside each other and where a cloud asks another.
answers 0 '' "$planner" "${small[@]}" --gpu H100,rtx3090 --price rtx3090=0.5 --out two.json
shows 'rtx3090: 0.5 USD a GPU hour (as given with --price)' compare two.json --machines
shows 'h100-sxm-80g: 2.69 USD a GPU hour' compare two.json --machines
shows 'not what AWS' "${small[@]}" --gpu H100 --node aws-p5
answers 0 '' "$planner" "${small[@]}" --gpu H100 --node aws-p5 --price H100=6.88
grep -q 'not what' out.txt && complain 'a stated price is doubted'

# Any option may be a list.
shows 'precision  *step' sweep "${small[@]}" --gpu H100 --precision bf16,fp16
shows 'fsdp2' sweep "${small[@]}" --gpu H100 --framework native,fsdp2
shows 'Least rent for a token' sweep "${small[@]}" --gpu H100,rtx3090
shows 'q,v' sweep "${small[@]}" --gpu H100 --mode finetune --lora-rank 8,16 --lora-targets 'q,v;q,k,v,o'
shows 'tensor  *step' sweep "${small[@]}" --gpu H100 --each tp=1,2
shows '2 x h100-sxm-80g' sweep --model gpt2-124m --global-batch 16 --seq 64 --gpus 2xH100,4xA100
answers 0 '' "$planner" sweep "${small[@]}" --gpu H100 --internode-gbps 100,400 --format csv
[[ $(wc -l <out.txt) -eq 3 ]] || complain 'a line for each bandwidth'
answers 2 'one of bf16, fp16, fp8' "$planner" sweep "${small[@]}" --gpu H100 --precision bf16,fp7
answers 2 'KEY=VALUE' "$planner" sweep "${small[@]}" --gpu H100 --each tensor

as_people_read "${small[@]}" --gpu H100 --tokens 1B
as_people_read sweep "${small[@]}" --gpu H100 --tokens 15T
as_people_read sweep "${small[@]}" --gpu H100 --tokens 1K
as_people_read min-gpus --model gpt2-124m --gpu H100 --tokens 500B
as_people_read max-batch --model gpt2-124m --gpu H100 --gpus 1 --tokens 15T
"$planner" "${small[@]}" --gpu H100 --tokens 15T --out plan.json >/dev/null
"$planner" "${small[@]}" --gpu rtx3090 --tokens 15T --out other.json >/dev/null
as_people_read compare plan.json other.json
as_people_read compare plan.json --strategies
as_people_read compare plan.json other.json --format md

if [[ $failures -gt 0 ]]; then exit 1; fi
printf 'prices and sweeps: as people read them\n'
