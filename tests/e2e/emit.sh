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
python3 - <<'PYTHON' || fail 'python does not read what was written'
import json
try:
    import tomllib
    job = tomllib.load(open("job.toml", "rb"))
    assert job["parallelism"]["data_parallel_shard_degree"] == 8
except ModuleNotFoundError:  # before 3.11
    pass
said, file = json.load(open("said.json")), open("ds.json").read()
assert said["schema"] == "launch/1" and said["text"] == file
assert json.loads(file)["zero_optimization"]["stage"] == 3
PYTHON

refused 'sharding=zero3' sharded.json --for megatron
refused 'did you mean megatron' stages.json --for megatroon
refused 'found nothing' stages.json
refused 'alternatives' stages.json --for megatron --candidate 1000
refused 'cannot be\|can be read' missing.json --for megatron
refused 'expected' stages.json --for megatron --out /nowhere/train.sh
exit "$failed"
