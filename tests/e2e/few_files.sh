#!/usr/bin/env bash
# Where a process may open few files, each verb ends by itself: with its answer, or with one message and
# its code. usage: few_files.sh BIN_FOLDER
set -euo pipefail
planner=$(cd "$1" && pwd)/planner
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
command -v prlimit >/dev/null || {
  printf 'skipped: no prlimit (util-linux)\n'
  exit 77
}
"$planner" --model mlp-mnist --gpus 2 --gpu h100-sxm-80g --recipe fp32 --global-batch 8 --pin data=2 \
  --quiet --out plan.json >/dev/null
"$planner" exec plan.json --steps 1 --quiet --checkpoint-dir kept --out run.json >/dev/null

answered=0 refused=0
# Files 0 to 2 are open when it starts, and those that this test was started with.
for n in 3 4 5 6 8 10 12 16 24 32; do
  while read -r -a words; do
    code=0
    timeout --signal=KILL 120 prlimit --nofile="$n" "$planner" "${words[@]}" >out.txt 2>err.txt || code=$?
    what="${words[*]} with $n files"
    case $code in
      0) answered=$((answered + 1)) ;;
      1 | 2 | 3) refused=$((refused + 1)) ;;
      127) grep -q 'error while loading shared libraries' err.txt || complain "$what: exit 127" ;;
      *) complain "$what: exit $code ($(head -c 300 err.txt))" ;;
    esac
    [[ $code -eq 0 || -s err.txt ]] || complain "$what: exit $code without a reason"
    if grep -q 'internal error' err.txt; then complain "$what: $(head -c 300 err.txt)"; fi
    if [[ -n $(find . -name '.planner*' -o -name '.step-*') ]]; then complain "$what: left a temporary"; fi
  done <<'VERBS'
--model gpt2 --gpus 8 --out other.json
exec plan.json --steps 2 --quiet
exec plan.json --steps 2 --quiet --checkpoint-dir again --data plan.json
exec plan.json --steps 1 --quiet --communicator tcp
simulate plan.json --trace step.json
simulate plan.json --chakra traces
report plan.json run.json --out page.html
compare plan.json run.json --out compared.json
verify kept
explain C4 --gpus 4
emit plan.json --for slurm --out run.sbatch
doctor
VERBS
done
[[ $answered -gt 0 && $refused -gt 0 ]] || complain "answered $answered, refused $refused: no test of both"
if [[ $failures -gt 0 ]]; then exit 1; fi
printf '%s answers, %s refusals\n' "$answered" "$refused"
