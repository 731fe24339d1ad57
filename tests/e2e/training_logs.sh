#!/usr/bin/env bash
# Logs of frameworks beside a plan, and logs that are none. usage: training_logs.sh BIN_FOLDER
set -euo pipefail
source "$(dirname "$(readlink -f "$0")")/lib.sh"
planner=$1/planner

"$planner" --model llama3-8b --gpus 8xh100-sxm-80g --framework megatron_core --global-batch 64 \
  --out plan.json --quiet >/dev/null
# iterations MILLISECONDS...: lines of Megatron-LM.
iterations() {
  local n=0 ms
  for ms in "$@"; do
    n=$((n + 1))
    printf ' iteration %8d/%8d | elapsed time per iteration (ms): %s | global batch size: %5d |\n' \
      "$n" "$#" "$ms" 64
  done
}
iterations 90000.0 9000.0 9000.0 9100.0 9000.0 9000.0 >train.log
printf '[Rank 0] memory (MB) | max allocated: 51200.00 | max reserved: 61440.00\n' >>train.log
"$planner" compare plan.json --log train.log >page.txt
grep -q '^A log of Megatron-LM' page.txt || fail "the format is not said: $(cat page.txt)"
grep -q '6 steps, or means of steps: 1 left out' page.txt || fail "not how many: $(cat page.txt)"
grep -Eq 'time.step .* 9\.00 s' page.txt || fail "not the median: $(cat page.txt)"
grep -Eq 'memory.reserved .* 60\.0 GiB' page.txt || fail "not the memory: $(cat page.txt)"
grep -Eq 'Predicted: .* to .* interval' page.txt || fail "no interval: $(cat page.txt)"
"$planner" compare plan.json --log train.log --json >compare.json
grep -q '"step_median": 9.0' compare.json || fail "not in the machine form: $(cat compare.json)"
"$planner" report compare.json --format md >page.md
grep -q '^### Predicted beside measured: train.log (Megatron-LM)$' page.md ||
  fail "the page has no log: $(cat page.md)"
grep -Eq '^. throughput: tokens per second . [0-9.]+ . 58254.2 . ' page.md ||
  fail "tokens a second are no bytes: $(cat page.md)"
"$planner" compare plan.json --log train.log --log train.log --format csv >rows.csv
[[ $(grep -c '^train.log,time.step,seconds,' rows.csv) -eq 2 ]] || fail "not both: $(cat rows.csv)"
"$planner" compare plan.json --log train.log --format md | grep -q '^| time.step |' || fail 'no table'

# A Chakra trace of the rank that the plan names takes what was simulated.
"$planner" simulate plan.json --chakra traces --json >simulated.json
"$planner" compare plan.json --log traces/*.0.et --json >trace.json
python3 - <<'PYTHON' || fail "not the simulated step: $(cat trace.json)"
import json
simulated = json.load(open("simulated.json"))["time"]["step"]
step = next(t for t in json.load(open("trace.json"))["terms"] if t["term"] == "time.step")["measured"]
assert abs(step - simulated) < 1e-9 * simulated, (step, simulated)
PYTHON
"$planner" compare plan.json --log traces/*.0.et | grep -q 'One step: all nodes of the trace' || fail 'no words of the trace'

iterations 9000.0 nan >bad.log
ends 2 'bad.log:2' "$planner" compare plan.json --log bad.log
iterations 9000.0 -1 >bad.log
ends 2 'bad.log:2' "$planner" compare plan.json --log bad.log
printf 'hello\n' >bad.log
ends 2 'lines of Megatron-LM, torchtitan' "$planner" compare plan.json --log bad.log
ends 2 'no-such.log' "$planner" compare plan.json --log no-such.log
ends 2 'one plan beside the logs' "$planner" compare plan.json plan.json --log train.log
ends 2 'a log beside one plan' "$planner" compare plan.json --strategies --log train.log
"$planner" --model llama3-8b --gpus 8xh100-sxm-80g --global-batch 32 --out other.json --quiet >/dev/null
ends 2 '--global-batch 64' "$planner" compare other.json --log train.log

# A site is learnt from a plan and its run, and the next plan comes nearer to it.
"$planner" calibrate --plan plan.json --log train.log --out site.json >page.txt
grep -q '^1 run of this site took' page.txt || fail "not one run: $(cat page.txt)"
grep -q '"train.log"' site.json || fail "the site does not name its run: $(cat site.json)"
# step_of FILE: of the recommended plan, microseconds.
step_of() { python3 -c 'import json, sys
print(int(1e6 * json.load(open(sys.argv[1]))["chosen"]["time"]["step"]))' "$1"; }
"$planner" --model llama3-8b --gpus 8xh100-sxm-80g --framework megatron_core --global-batch 64 \
  --site site.json --out learnt.json --quiet >/dev/null
before=$(step_of plan.json) after=$(step_of learnt.json)
[[ $((after - before)) -gt $(((9000000 - before) / 4)) ]] ||
  fail "a run of 9 s moved the step from $before to $after us"
"$planner" calibrate --plan plan.json --log train.log --log train.log --plan plan.json --json |
  grep -q '"runs"' || fail 'not two runs'
ends 2 '--plan' "$planner" calibrate --log train.log
ends 2 '--log' "$planner" calibrate --plan plan.json
ends 2 'one for each of 2 plans' "$planner" calibrate --plan plan.json --plan plan.json --log train.log
ends 2 'made with --site' "$planner" calibrate --plan learnt.json --log train.log
ends 2 'bad.log' "$planner" calibrate --plan plan.json --log bad.log
ends 2 '--global-batch 64' "$planner" calibrate --plan other.json --log train.log
