#!/usr/bin/env bash
# Plans in frameworks' own words: what is written can be read by what will read it, what cannot be
# said is refused. usage: emit.sh BIN_FOLDER
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
refused() {
  local pattern=$1 code=0
  shift
  "$planner" emit "$@" >out.txt 2>err.txt || code=$?
  if [[ $code -ne 2 || -s out.txt ]]; then fail "exit $code: emit $*"; fi
  if ! grep -q -e "$pattern" err.txt; then fail "no '$pattern': emit $* ($(head -c 300 err.txt))"; fi
}

"$planner" --model llama3-8b --gpus 8 --pin sharding=zero3 --pin tensor=1 --pin pipeline=1 \
  --out sharded.json --quiet >/dev/null
"$planner" --model gpt2-774m --gpus 8 --pin tensor=2 --pin pipeline=2 --pin schedule=1f1b \
  --pin sharding=zero1 --pin checkpoint=none --out stages.json --quiet >/dev/null

"$planner" emit stages.json --for megatron --out train.sh 2>notes.txt
bash -n train.sh || fail 'bash does not read the script'
grep -q -e '--pipeline-model-parallel-size 2' train.sh || fail 'no pipeline in the script'
grep -q '^note: ' notes.txt || fail 'no note'
"$planner" emit sharded.json --for torchtitan --quiet >job.toml 2>notes.txt
if [[ -s notes.txt ]]; then fail 'a note although --quiet was given'; fi
"$planner" emit sharded.json --for deepspeed --out ds.json --json >said.json
# section TITLE FILE: the lines below [TITLE] of a TOML file, up to the next title.
section() { awk -v title="[$1]" '/^\[/ {inside = $0 == title; next} inside' "$2"; }
section parallelism job.toml | grep -x 'data_parallel_shard_degree = 8' >/dev/null ||
  fail "not sharded over 8 ranks: $(section parallelism job.toml)"
# object KEY FILE: what stands in the braces behind "KEY", of a file that is indented evenly.
object() { awk -v key="$1" '$1 == "\"" key "\":" {inside = 1} /}/ {inside = 0} inside' "$2"; }
object zero_optimization ds.json | grep '"stage": 3' >/dev/null || fail "not ZeRO-3: $(cat ds.json)"
# The machine form holds the file as a JSON string: its own quotes and ends of lines are escaped.
grep -qx '  "schema": "launch/1",' said.json || fail 'no schema in the machine form'
sed 's/\\/\\\\/g; s/"/\\"/g' ds.json | awk '{printf "%s\\n", $0}' >escaped.txt
grep -qF "\"text\": \"$(cat escaped.txt)\"" said.json || fail 'another text in the machine form'

# ---- a plan that a stranger wrote (emit_strangers.sh replaces every text of a plan) ----------------
mkdir stub
printf '#!/bin/sh\nexit 0\n' >stub/torchrun
chmod +x stub/torchrun
cat >attack.txt <<'ATTACK'
x'; touch PWNED; '$(touch PWNED)`touch PWNED`\\" #
ATTACK
awk -v name="$(cat attack.txt)" '/"name": "gpt2-774m"/ {
    at = index($0, "\"gpt2-774m\""); $0 = substr($0, 1, at) name substr($0, at + 10)} {print}' \
  stages.json >lying.json
grep -q 'touch PWNED' lying.json || fail 'no attack in the plan'
"$planner" emit lying.json --for megatron --out lying.sh --quiet || fail 'a visible name is refused'
PATH="$work/stub:$PATH" bash lying.sh >/dev/null 2>&1
if [[ -e PWNED ]]; then fail 'the name of a model was run'; fi

# The same by way of a model file, whose name would be a comment.
printf '%s' '{"schema":"model/1","name":"x\ntouch PWNED #","family":"gpt2","layers":2,"hidden":64,"heads":2,' \
  '"ffn_hidden":256,"vocab":512,"positions":64}' >named.json
code=0
"$planner" --model named.json --gpus 2 --out named-plan.json --quiet >/dev/null 2>err.txt || code=$?
if [[ $code -ne 2 ]]; then fail "a name of two lines was taken: exit $code"; fi
grep -q 'named.json:1:.* /name: expected a text without control characters' err.txt ||
  fail "the name's place is not said: $(cat err.txt)"

refused 'sharding=zero3' sharded.json --for megatron
refused 'did you mean megatron' stages.json --for megatroon
refused 'found nothing' stages.json
refused 'alternatives' stages.json --for megatron --candidate 1000
refused 'cannot be\|can be read' missing.json --for megatron
refused 'expected' stages.json --for megatron --out /nowhere/train.sh
exit "$failed"
