#!/usr/bin/env bash
# Plan, run and compare through the real binaries: every byte and count that was predicted is what
# was measured. usage: plan_run_compare.sh BIN_FOLDER
set -euo pipefail
planner=$1/planner
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

printf '%s' '{"model_type":"gpt2","n_layer":2,"n_embd":32,"n_head":2,"n_positions":16,
  "vocab_size":67}' >config.json

printf '%s' '{"model_type":"mixtral","num_hidden_layers":2,"hidden_size":32,"intermediate_size":48,
  "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":16,"vocab_size":67,
  "hidden_act":"silu","num_local_experts":4,"num_experts_per_tok":2}' >mixture.json

printf '%s' '{"schema":"model/1","name":"towers","family":"graph","loss":"cross_entropy",
  "input":{"name":"x","shape":[3,12,12]},"operators":[
  {"name":"conv.a","kind":"convolution","inputs":["x"],"channels":4,"kernel":3},
  {"name":"relu.a","kind":"relu","inputs":["conv.a"]},
  {"name":"norm.a","kind":"local_response_norm","inputs":["relu.a"]},
  {"name":"pool.a","kind":"max_pool","inputs":["norm.a"],"kernel":3,"stride":2},
  {"name":"conv.b","kind":"convolution","inputs":["x"],"channels":4,"kernel":3},
  {"name":"relu.b","kind":"relu","inputs":["conv.b"]},
  {"name":"pool.b","kind":"average_pool","inputs":["relu.b"],"kernel":3,"stride":2},
  {"name":"maps","kind":"concat","inputs":["pool.a","pool.b"]},
  {"name":"flat","kind":"flatten","inputs":["maps"]},
  {"name":"fc.a","kind":"linear","inputs":["flat"],"features":9},
  {"name":"drop.a","kind":"dropout","inputs":["fc.a"]},
  {"name":"fc.b","kind":"linear","inputs":["flat"],"features":9},
  {"name":"both","kind":"concat","inputs":["drop.a","fc.b"]},
  {"name":"out","kind":"linear","inputs":["both"],"features":5}]}' >towers.json

printf '%s' '{"model_type":"llama","num_hidden_layers":2,"hidden_size":32,"intermediate_size":48,
  "num_attention_heads":2,"max_position_embeddings":16,"vocab_size":67,
  "hidden_act":"silu"}' >even.json

# round PINS...: one plan, run and comparison, of $model on $gpus ranks, with the options $numbers.
numbers=(--recipe fp32)
round() {
  local pins=() pin
  for pin in "$@"; do pins+=(--pin "$pin"); done
  "$planner" --model "$model" --gpus "$gpus" --seq "$seq" --global-batch 4 "${numbers[@]}" \
    --gpu h100-sxm-80g "${pins[@]}" --out plan.json >/dev/null
  "$planner" exec plan.json --steps 2 --quiet --out run.json >/dev/null
  "$planner" compare plan.json run.json --json --out compare.json >shown.json
  cmp compare.json shown.json
  "$planner" compare plan.json run.json >compare.txt
  local verdict
  verdict=$(grep 'bytes and counts are equal' compare.txt)
  if [[ ! $verdict =~ ^([0-9]+)\ of\ ([0-9]+)\ bytes && ${#verdict} -gt 0 ]] ||
    [[ ${BASH_REMATCH[1]} != "${BASH_REMATCH[2]}" || ${BASH_REMATCH[1]} -lt 7 ]]; then
    cat compare.txt
    printf 'FAILED: %s %s\n' "$model" "$*"
    exit 1
  fi
}
gpus=4 seq=16 model=mixture.json
round data=4 expert=2 sharding=zero1
round data=4 expert=4 sharding=zero3
round data=2 expert=2 tensor=2
round data=2 expert=2 pipeline=2 schedule=1f1b
gpus=4 seq=1 model=towers.json
round data=4 sharding=zero3
round data=2 partition=operators
gpus=2
round data=2 sharding=zero1
round pipeline=2 schedule=1f1b
round partition=operators
gpus=2 seq=16 model=config.json
round data=2 sharding=none
round data=2 sharding=zero3
round pipeline=2 schedule=1f1b
round pipeline=2 schedule=pipedream_2bw
round context=2
round context=2 sharding=zero3 checkpoint=selective
round tensor=2

# The same terms as CSV and Markdown: as many lines as the text has, exact numbers.
terms=$(grep -c '"term"' compare.json)
"$planner" compare plan.json run.json --format csv >compare.csv
"$planner" compare plan.json run.json --format md >compare.md
live=$(grep -A1 '"term": "memory.live"' compare.json | sed -n 's/.*"predicted": \([0-9]*\).*/\1/p')
if [[ $(head -n 1 compare.csv) != run,term,unit,predicted,measured,relative_error ||
  $(wc -l <compare.csv) -ne $((terms + 1)) || $(grep -c '^| ' compare.md) -ne $((terms + 1)) ]] ||
  ! grep -q "^run.json,memory.live,bytes,$live,$live,0" compare.csv ||
  [[ $(tail -n 1 compare.md) != "$(grep 'bytes and counts are equal' compare.txt)" ]]; then
  head -n 3 compare.csv compare.md
  printf 'FAILED: terms as CSV and Markdown\n'
  exit 1
fi

# A plan of one strategy and a run of another do not belong together.
"$planner" --model config.json --gpus 2 --seq 16 --global-batch 4 --recipe fp32 \
  --gpu h100-sxm-80g --pin data=2 --pin sharding=none --top 0 --out other.json >/dev/null
code=0
"$planner" compare other.json run.json 2>err.txt >/dev/null || code=$?
if [[ $code -ne 2 ]] || ! grep -q tensor err.txt; then
  printf 'FAILED: a foreign run: exit %s: %s\n' "$code" "$(cat err.txt)"
  exit 1
fi

"$planner" explain laws --gpus 3 --servers 2 --measure >laws.txt
if ! grep -q '^  C4 .* 0$' laws.txt; then
  cat laws.txt
  exit 1
fi
# A plan that is too large here is refused in one line, and runs scaled down with the same strategy.
"$planner" --model gpt3-175b --gpus 64 --gpu h100-sxm-80g --top 0 --out large.json >/dev/null
code=0
"$planner" exec large.json 2>err.txt >/dev/null || code=$?
if [[ $code -ne 2 || $(wc -l <err.txt) -ne 1 ]] ||
  ! grep -Eq '^planner: The plan needs [0-9.]+ TiB for all ranks; this machine has .* free\. Add --scale-down' err.txt; then
  printf 'FAILED: a plan that is too large: exit %s: %s\n' "$code" "$(cat err.txt)"
  exit 1
fi
# scaled MODEL PINS...: plan of 8 GPUs, run of its small job, comparison with the plan.
scaled() {
  local pins=() pin
  for pin in "${@:2}"; do pins+=(--pin "$pin"); done
  "$planner" --model "$1" --gpus 8 --gpu h100-sxm-80g "${pins[@]}" --top 0 --out plan.json >/dev/null
  "$planner" exec plan.json --scale-down --steps 1 --out run.json >run.txt 2>err.txt
  "$planner" compare plan.json run.json >compare.txt
  local verdict
  verdict=$(grep 'bytes and counts are equal' compare.txt)
  if [[ ! $verdict =~ ^([0-9]+)\ of\ ([0-9]+)\ bytes || ${BASH_REMATCH[1]} != "${BASH_REMATCH[2]}" ]] ||
    ! grep -q '^planner: The plan for 8 x H100 SXM5 80GB is scaled down to run here: ' err.txt ||
    ! grep -q 'both of the scaled-down job: ' compare.txt || ! grep -q 'scaled down' run.txt; then
    cat err.txt compare.txt
    printf 'FAILED: scaled down: %s\n' "$*"
    exit 1
  fi
}
scaled gpt2-1.5b data=8 sharding=zero1
scaled llama3-8b data=2 pipeline=4 schedule=1f1b sharding=zero1
scaled llama3-8b data=2 tensor=4 sequence_parallel=true sharding=zero3
# A run of the small job is not one of another plan.
"$planner" --model llama3-8b --gpus 8 --gpu h100-sxm-80g --global-batch 8 --top 0 --out other.json >/dev/null
code=0
"$planner" compare other.json run.json 2>err.txt >/dev/null || code=$?
[[ $code -eq 2 ]] && grep -q 'the job that was planned' err.txt

# Links of the plan's machine, emulated: said in every output, and what is computed is the same.
gpus=2 seq=16 model=config.json
"$planner" --model config.json --gpus 2 --seq 16 --global-batch 4 --recipe fp32 --gpu h100-sxm-80g \
  --pin data=2 --out plan.json >/dev/null
"$planner" exec plan.json --steps 2 --quiet --out run.json >/dev/null
for links in plan 100MB/s,1ms; do
  "$planner" exec plan.json --steps 2 --quiet --links "$links" --out paced.json >paced.txt
  grep -q 'links are emulated' paced.txt
  grep -q '"emulated_links": true' paced.json
  grep -q '"links": "emulated' paced.json
  [[ $(grep '"loss"' paced.json) == "$(grep '"loss"' run.json)" ]]
done
for wrong in fast 0GB/s 1GB/s,long; do
  code=0
  "$planner" exec plan.json --links "$wrong" 2>reason.txt >/dev/null || code=$?
  [[ $code == 2 ]] && grep -q -- '--links' reason.txt
done

# Products in 8 bits run; scales of earlier steps, and what is gathered in 8 bits, are refused.
model=even.json gpus=2 seq=16
for scaling in tensorwise rowwise blockwise mxfp8; do
  numbers=(--precision fp8 --fp8-scaling "$scaling")
  round data=2 sharding=zero2
  round tensor=2 sequence_parallel=true
done
refuses() {
  local text=$1
  shift
  "$planner" --model even.json --gpus 2 --seq 16 --global-batch 4 --gpu h100-sxm-80g \
    --precision fp8 --pin data=2 "$@" --out plan.json >/dev/null
  if "$planner" exec plan.json --steps 1 --quiet 2>said.txt; then exit 1; fi
  grep -q -- "$text" said.txt || { cat said.txt; exit 1; }
}
refuses 'plan with --fp8-scaling tensorwise' --fp8-scaling delayed
refuses 'plan without --fp8-tensors' --fp8-tensors params
printf 'plan, run, compare: all equal\n'
