#!/usr/bin/env bash
# Reports, comparisons of many files, sweeps: what is written, what is refused, and that nothing is
# left half-written. usage: report.sh BIN_FOLDER
set -euo pipefail
planner=$1/planner
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

failed=0
fail() {
  printf 'FAILED: %s\n' "$*"
  failed=1
}
# expect CODE PATTERN WORDS...: exit code, and what standard error or output says.
expect() {
  local want=$1 pattern=$2 code=0
  shift 2
  "$planner" "$@" >out.txt 2>err.txt || code=$?
  if [[ $code -ne $want ]]; then fail "exit $code, not $want: $* ($(head -c 300 err.txt))"; fi
  if [[ -n $pattern ]] && ! grep -q -e "$pattern" out.txt err.txt; then fail "no '$pattern': $*"; fi
}

job=(--model gpt2-124m --seq 64 --global-batch 16)
here=(--gpu h100-sxm-80g)
"$planner" "${job[@]}" "${here[@]}" --gpus 4 --tokens 1B --out plan.json >/dev/null
"$planner" "${job[@]}" "${here[@]}" --gpus 4 --pin pipeline=2 --out other.json >/dev/null
"$planner" simulate plan.json --scale 1,2 --out simulate.json >/dev/null

# ---- report
expect 0 '' report plan.json other.json simulate.json --out page.html
grep -q '^<!DOCTYPE html>' page.html || fail 'no page'
expect 0 '## Plan plan.json' report plan.json
"$planner" report plan.json --out page.md >/dev/null
"$planner" report plan.json >page2.md
cmp page.md page2.md || fail 'Markdown differs between a file and standard output'
"$planner" report plan.json other.json simulate.json --out again.html
cmp page.html again.html || fail 'the same files make another page'
expect 2 'ends with .html or .md' report plan.json --out page.pdf
expect 0 '' report plan.json --format html --out page.pdf
expect 0 '' report plan.json simulate.json --format part --out part.html
grep -q '^<div class="planner-part">' part.html || fail 'no part'
expect 2 'html, part or md' report plan.json --format pdf
expect 2 'machine form' report plan.json --json
expect 2 'missing.json' report missing.json
expect 2 'folder' report plan.json --out missing/page.html
expect 2 'page.md:1:1' report page.md

# ---- hostile files: refused with a place, and the old page stays
printf 'old' >kept.html
refuse() {
  local pattern=$1
  expect 2 "$pattern" report hostile.json --out kept.html
  if [[ $(cat kept.html) != old ]]; then fail "a refused file ($pattern) touched the page"; fi
}
sed 's|plan/1|plan/2|' plan.json >hostile.json
refuse 'another version'
sed '0,/"step": [0-9.e-]*/s//"step": NaN/' plan.json >hostile.json
refuse 'hostile.json:[0-9]*:[0-9]*'
sed '0,/"step": [0-9.e-]*/s//"step": 1e999/' plan.json >hostile.json
refuse 'hostile.json:[0-9]*:[0-9]*'
sed '0,/"step": [0-9.e-]*/s//"step": -1/' plan.json >hostile.json
refuse '/step'
grep -v '"gpus":' plan.json >hostile.json
refuse 'gpus'
head -c 5000 plan.json >hostile.json
refuse 'hostile.json'
printf '%0100000d' 0 | tr 0 '[' >hostile.json
refuse 'nesting'
{ printf '{"schema":"plan/1","x":"'; head -c 105000000 /dev/zero | tr '\0' a; printf '"}'; } >hostile.json
refuse 'hostile.json'
rm hostile.json

# ---- interrupted: no page, no temporary
"$planner" report plan.json other.json plan.json other.json --out killed.html & child=$!
sleep 0.02
kill -TERM "$child" 2>/dev/null || true
code=0
wait "$child" || code=$?
case $code in
  0) [[ -s killed.html ]] || fail 'done without a page' ;;
  143) [[ ! -e killed.html ]] || fail 'interrupted, and a page is there' ;;
  *) fail "interrupted: exit $code" ;;
esac
if compgen -G '*.tmp*' >/dev/null || compgen -G '.*killed*' >/dev/null; then fail 'a temporary is left'; fi

# ---- compare
expect 0 'other.json' compare plan.json other.json
expect 0 'label,model,gpu' compare plan.json other.json --format csv
expect 0 '| figure |' compare plan.json --strategies --format md
expect 2 'asked about other machines' compare plan.json --machines
"$planner" "${job[@]}" --gpus 4 --gpu rtx3090,a100-sxm-80g,h100-sxm-80g --out machines.json >/dev/null
for gpu in rtx3090 a100-sxm-80g h100-sxm-80g; do
  expect 0 "$gpu" compare machines.json --machines
done
expect 0 '"subjects"' compare plan.json other.json --json
expect 2 'two files' compare plan.json
expect 2 'a plan or a run' compare plan.json simulate.json
expect 2 'text, csv or md' compare plan.json other.json --format xml
"$planner" compare plan.json other.json --json --out compare.json >/dev/null
expect 0 '' report compare.json --out compare.html

# ---- sweep, min-gpus, max-batch
sweep=(--model gpt2-124m --gpu h100-sxm-80g --global-batch 16)
expect 0 'Most tokens a second' sweep "${sweep[@]}" --gpus 1..4 --seq 64,128 --tokens 1B
expect 0 'Pareto front of GPUs, step and memory' sweep "${sweep[@]}" --gpus 1,2 --seq 64
"$planner" sweep "${sweep[@]}" --gpus 1,2 --seq 64 --json --out sweep.json >shown.json
grep -q '"front"' sweep.json || fail 'the front is not in the file'
cmp sweep.json shown.json || fail 'the sweep differs between a file and standard output'
"$planner" sweep "${sweep[@]}" --gpus 1,2 --seq 64 --format csv --out sweep.csv >shown.csv
cmp sweep.csv shown.csv || fail 'CSV differs between a file and standard output'
[[ $(wc -l <sweep.csv) -eq 3 ]] || fail 'a line per point and a heading'
expect 0 '' report sweep.json --out sweep.html
# k is 1024; a range doubles, or goes in steps; what is named twice is asked once.
# A label holds a comma: columns count one more.
points() { "$planner" sweep "${sweep[@]}" --format csv "$@" | cut -d , -f 5-6 | tail -n +2 | tr '\n' ' '; }
[[ $(points --gpus 1 --seq 1k,64,64) == '1,1024 1,64 ' ]] || fail "1k: $(points --gpus 1 --seq 1k,64,64)"
[[ $(points --gpus 1..4 --seq 64) == '1,64 2,64 4,64 ' ]] || fail 'a range doubles'
[[ $(points --gpus 1 --seq 64..192+64) == '1,64 1,128 1,192 ' ]] || fail 'a range in steps'
# A point is the plan of that question.
step=$(sed -n 's/.*"step_seconds": \([0-9.e-]*\).*/\1/p' sweep.json | tail -n 1)
"$planner" "${sweep[@]}" --gpus 2 --seq 64 --json >point.json
grep -q "\"step\": $step" point.json ||
  fail "the plan on 2 GPUs takes another step than $step"
expect 2 '8..64' sweep "${sweep[@]}" --gpus 4..1
expect 2 '8..64' sweep "${sweep[@]}" --gpus 1,,2
expect 2 'at most' sweep "${sweep[@]}" --gpus 1..1000+1 --seq 1..1000+1
expect 2 'gpu' sweep "${sweep[@]}" --gpus 1 --gpu no-such-gpu
# A point that the model cannot be asked for is a line of its own; with no other, bad input.
expect 0 'at most 1024 positions' sweep "${sweep[@]}" --gpus 1 --seq 64,2k --format csv
expect 0 'refused: ' sweep "${sweep[@]}" --gpus 1 --seq 2k,64
expect 0 '"feasible": false' sweep "${sweep[@]}" --gpus 1 --seq 2k,64 --json --out mixed.json
expect 0 '' report mixed.json --out mixed.html
expect 2 'at most 1024 positions' sweep "${sweep[@]}" --gpus 1,2 --seq 2k,4k
expect 0 'Fewest: 1 x' min-gpus --model gpt2-124m --gpu h100-sxm-80g
expect 1 'No number of GPUs' min-gpus --model gpt3-175b --gpu rtx3090 --max-gpus 4
expect 2 'tokens' min-gpus --model gpt2-124m --gpu h100-sxm-80g --within 1d
expect 2 'what is asked for' min-gpus --model gpt2-124m --gpus 4
expect 0 'Most: ' max-batch --model gpt2-1.5b --gpu rtx3090 --gpus 2
expect 2 'what is asked for' max-batch --model gpt2-124m --global-batch 4
expect 1 'Not one sample' max-batch --model gpt3-175b --gpu rtx3090 --gpus 2
# The most that fit on the GPUs alone do, and one more does not.
most=$("$planner" max-batch --model gpt2-1.5b --gpu rtx3090 --gpus 2 | sed -n 's/^Most: \([0-9]*\) .*/\1/p')
one=(--model gpt2-1.5b --gpu rtx3090 --gpus 2 --pin grad_accum=1 --pin offload=none)
expect 0 '' "${one[@]}" --global-batch $((2 * most)) --out most.json
if grep -q '"because": "least_risky"' most.json; then fail 'the most is above the cap'; fi
expect 0 '' "${one[@]}" --global-batch $((2 * most + 2)) --out more.json
grep -q '"because": "least_risky"' more.json || fail 'one sample more is within the cap'

[[ $failed -eq 0 ]] && printf 'reports, comparisons, sweeps: as promised\n'
exit $failed
