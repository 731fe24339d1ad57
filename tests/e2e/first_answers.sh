#!/usr/bin/env bash
# What people read first: the verdict, five figures and why, within a screen, and never a plan above
# the cap on the risk while a safer one fits. usage: first_answers.sh BIN_FOLDER
set -uo pipefail
planner=$1/planner
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset COLUMNS

# reads WORDS...: the page of a question, held against what every page promises.
reads() {
  "$planner" "$@" --quiet >out.txt 2>err.txt || complain "planner $*: $(head -c 300 err.txt)"
  [[ $(wc -l <out.txt) -le 60 ]] || complain "planner $*: $(wc -l <out.txt) lines"
  if grep -q '.\{81\}' out.txt; then complain "planner $*: wider than 80 columns"; fi
  [[ $(head -n 1 out.txt) == Recommended:* ]] || complain "planner $*: no verdict first"
  local name
  for name in step speed memory risk cost; do
    grep -q "^  $name " out.txt || complain "planner $*: no figure of $name"
  done
  grep -q 'within the 5.0 % cap' out.txt || complain "planner $*: above the cap"
  grep -q '^Assumed' out.txt || complain "planner $*: says nothing of what it assumes"
  grep -q '^Next$' out.txt || complain "planner $*: no next command"
}
reads --model gpt2-124m --gpus 1 --gpu rtx3090
reads --model gpt2-1.5b --gpus 8
reads --model llama3-8b --gpus 8 --gpu rtx4090 --mode finetune
reads --model llama3-8b --gpus 1 --gpu rtx4090 --lora-rank 16 --quantization nf4
reads --model llama3-70b --gpus 64xH100
reads --model mixtral-8x7b --gpus 64xH100
reads --model llama3.1-405b --gpus 16384xH100

# Every part beyond the first screen is there for who asks.
"$planner" --model gpt2-1.5b --gpus 8 --full >full.txt
for part in 'Communication of a step' Assumed Rejected 'The same job on other machines' \
  'The same job in other frameworks' 'Rules of thumb'; do
  grep -q "^$part" full.txt || complain "--full lacks $part"
done

# One's own configuration: what it takes, and the best change to it.
own=(--model llama3-8b --gpus 8xH100 --pin tp=4 --pin zero=1 --pin mbs=1 --pin checkpoint=full)
"$planner" "${own[@]}" --quiet >own.txt
[[ $(wc -l <own.txt) -le 60 ]] || complain "own configuration: $(wc -l <own.txt) lines"
grep -q '^Your configuration: data=2 tensor=4.* every_k(1) micro_batch=1' own.txt || complain "whose: $(head -n 2 own.txt)"
grep -q 'best single change is' own.txt || complain "no change to it: $(head -n 12 own.txt)"
grep -q 'nothing pinned, the best is' own.txt || complain "no free answer: $(head -n 12 own.txt)"

# A higher cap is a bolder plan, and a share is written as people write it.
"$planner" --model llama3-70b --gpus 64xH100 --max-risk 100% --simpler-within 0 >bold.txt
grep -q 'within the 100 % cap' bold.txt || complain "no word of another cap: $(head -n 6 bold.txt)"
answers 2 'write 5% or 0.05' "$planner" --model gpt2-124m --gpus 1 --max-risk much
for wrong in much stragglers=1% stragglers=1%x0.5 links=1%x2 quantile=0.9 stragglers=2x2 \
  stragglers=1%x1.2,quantile=0 stragglers=1%x1.2,stragglers=2%x1.2 stragglers=1%x1.2,seed=1; do
  answers 2 'write --robust stragglers=' "$planner" --model gpt2-124m --gpus 2 --robust "$wrong"
done
answers 0 '' "$planner" --model gpt2-124m --gpus 16xH100 --robust stragglers=1%x1.2,links=1%x0.5
for words in 'seeded scenarios' 'One rank 20.0 % slower: step' "One rank's link at 50.0 %"; do
  if ! tr -s ' \n' ' ' <out.txt | grep -q "$words"; then complain "no '$words'"; fi
done
answers 2 'write 5% or 0.05' "$planner" --model gpt2-124m --gpus 1 --max-risk 500%
if [[ $failures -gt 0 ]]; then exit 1; fi
printf 'first answers: within a screen and within the cap\n'
