#!/usr/bin/env bash
# Every verb ends its page with the next command, and what it prints can be typed: this test runs it.
# Nothing of it is in data (--json, --format). usage: next_commands.sh BIN_FOLDER SOURCE_FOLDER
set -uo pipefail
bin=$(cd "$1" && pwd)
source=$(cd "$2" && pwd)
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cp -r "$source/docs/examples/." .
export PATH=$bin:$PATH LC_ALL=C
unset COLUMNS

# The planner commands below "Next" in page.txt, each on one line, without what they do.
commands() {
  sed -n '/^Next$/,$p' page.txt | sed -e ':a' -e '/\\$/N; s/ *\\\n */ /; ta' |
    sed -n 's/^  \(planner .*\)/\1/p' | sed 's/  .*//'
}
# page ARGUMENTS...: what the verb prints ends with a block of commands.
page() {
  planner "$@" >page.txt 2>err.txt </dev/null || complain "planner $*: exit $?: $(head -c 400 err.txt)"
  grep -q '^Next$' page.txt || complain "planner $*: no next command"
}
# leads N ARGUMENTS...: such a page, of which N commands of planner, no fewer, run as they are printed.
leads() {
  local wanted=$1 line count=0
  shift
  page "$@"
  commands >commands.txt
  while IFS= read -r line; do
    count=$((count + 1))
    if [[ $line == 'planner calibrate --backend'* ]]; then continue; fi  # README's test runs it
    bash -c "$line" >out.txt 2>err.txt </dev/null ||
      complain "planner $* leads to: $line: exit $?: $(head -c 400 err.txt)"
  done <commands.txt
  [[ $count -ge $wanted ]] || complain "planner $*: $count commands: $(cat commands.txt)"
}

small=(--model tiny.json --gpu rtx4090 --seq 64)
leads 2 "${small[@]}" --gpus 2 --global-batch 4 --out plan.json
leads 2 exec plan.json --scale-down --steps 1 --out run.json
leads 1 compare plan.json run.json
leads 2 compare plan.json --strategies
leads 2 simulate plan.json
page simulate plan.json --trace trace.json
leads 2 sweep "${small[@]}" --gpus 1,2 --global-batch 4 --out sweep.json
leads 1 sweep "${small[@]}" --gpus 1,2 --global-batch 4 --pin 'mesh_order=tensor,context,data,pipeline'
leads 1 min-gpus "${small[@]}"
# Where nothing fits: how many GPUs it takes, and a job that needs less of them.
planner --model llama3-8b --gpus 1xrtx3060 --seq 512 --global-batch 4 >page.txt 2>err.txt
[[ $? -eq 1 ]] || complain 'llama3-8b is trained on one RTX 3060'
commands >commands.txt
[[ $(wc -l <commands.txt) -eq 2 ]] || complain "nothing fits: $(cat commands.txt)"
while IFS= read -r line; do
  bash -c "$line" >out.txt 2>err.txt </dev/null || complain "$line: $(head -c 400 err.txt)"
done <commands.txt
# On few GPUs the model's batch takes days: that is no reason to stop counting.
leads 1 min-gpus --model llama3-70b --gpu rtx3090
leads 1 max-batch "${small[@]}" --gpus 1
leads 2 validate runs.csv --out scores.json
leads 2 calibrate --from runs.csv --out site.json
leads 2 fit runs.csv --no-leave-out
leads 2 explain zero3
leads 2 explain memory.live --plan plan.json
leads 1 explain why-not data=1 --plan plan.json
leads 1 explain facts
leads 1 explain words
leads 1 explain laws --gpus 3
leads 1 gpus h100
page gpus
page models
page doctor
page report plan.json --out page.html
page exec plan.json --scale-down --steps 1

# A file whose name a shell would take apart is quoted.
cp plan.json "a plan; it's.json"
leads 2 simulate "a plan; it's.json"

# A row of another framework becomes a file that its framework starts from.
planner --model gpt2-1.5b --gpus 8 --gpu a100-sxm-80g | tr -s '\n ' ' ' >page.txt
if [[ $(cat page.txt) =~ For\ a\ launch\ file:\ (--framework\ [a-z0-9_]+\ --out\ [a-z0-9_.]+),\ then\ (planner\ emit\ [a-z0-9_.]+\ --for\ [a-z]+) ]]; then
  leads 2 --model gpt2-1.5b --gpus 8 --gpu a100-sxm-80g ${BASH_REMATCH[1]}
  ${BASH_REMATCH[2]} >out.txt 2>err.txt || complain "${BASH_REMATCH[2]}: $(cat err.txt)"
  leads 1 ${BASH_REMATCH[2]#planner } --out launch
else
  complain "no word of launch files: $(cat page.txt)"
fi
planner --model llama3-8b --gpus 1 --gpu rtx4090 --lora-rank 8 >page.txt
if grep -q 'launch file' page.txt; then complain 'adapters are emitted for nobody'; fi

# Data is data.
data() {
  planner "$@" >out.txt 2>err.txt
  if grep -q '^Next$' out.txt; then complain "planner $*: a next command amid data"; fi
}
data sweep "${small[@]}" --gpus 1,2 --global-batch 4 --format csv
data sweep "${small[@]}" --gpus 1,2 --global-batch 4 --json
data compare plan.json run.json --format md
data explain zero3 --json
data report plan.json
data exec plan.json --scale-down --steps 1 --json

if [[ $failures -gt 0 ]]; then exit 1; fi
printf 'next commands: printed by every verb, and they run\n'
