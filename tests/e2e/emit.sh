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
section parallelism job.toml | grep -qx 'data_parallel_shard_degree = 8' ||
  fail "not sharded over 8 ranks: $(section parallelism job.toml)"
# object KEY FILE: what stands in the braces behind "KEY", of a file that is indented evenly.
object() { awk -v key="$1" '$1 == "\"" key "\":" {inside = 1} /}/ {inside = 0} inside' "$2"; }
object zero_optimization ds.json | grep -q '"stage": 3' || fail "not ZeRO-3: $(cat ds.json)"
# The machine form holds the file as a JSON string: its own quotes and ends of lines are escaped.
grep -qx '  "schema": "launch/1",' said.json || fail 'no schema in the machine form'
sed 's/\\/\\\\/g; s/"/\\"/g' ds.json | awk '{printf "%s\\n", $0}' >escaped.txt
grep -qF "\"text\": \"$(cat escaped.txt)\"" said.json || fail 'another text in the machine form'

# ---- a plan that a stranger wrote ----------------------------------------------------------------
# Each text of a plan replaced by one that a shell, a TOML reader or a terminal would act on: it is
# refused, or what is written is still a script (run here, torchrun being a stub) or a file that
# holds nothing of it.
mkdir stub
printf '#!/bin/sh\nexit 0\n' >stub/torchrun
chmod +x stub/torchrun
PATH="$work/stub:$PATH" python3 - "$planner" <<'PYTHON' || fail 'a text of a plan became code'
import copy, json, os, subprocess, sys
planner, failures, tried, written = sys.argv[1], [], set(), 0
# The first is refused for any of its characters; the second holds nothing but what can be seen.
attacks = ["x\ntouch PWNED #\"\n[evil]\nx = 1\u001b]0;PWNED\u0007\u009b2J\u202e",
           "x'; touch PWNED; '$(touch PWNED)`touch PWNED`\" #"]

def texts(value, path=()):
    if isinstance(value, str):
        yield path
    children = value.items() if isinstance(value, dict) else \
        enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from texts(child, path + (key,))

for plan_file, framework in (("stages.json", "megatron"), ("sharded.json", "torchtitan"),
                             ("sharded.json", "deepspeed")):
    plan = json.load(open(plan_file))
    for path in texts(plan):
        if "alternatives" in path or "rejected" in path:
            continue
        shape = (framework,) + tuple("" if isinstance(key, int) else key for key in path)
        if shape in tried:
            continue
        tried.add(shape)
        for attack in attacks:
            lying = copy.deepcopy(plan)
            at = lying
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = attack
            json.dump(lying, open("lying.json", "w"))
            done = subprocess.run([planner, "emit", "lying.json", "--for", framework],
                                  capture_output=True)
            out, err = done.stdout.decode(), done.stderr.decode()
            where = f"{framework} {'/'.join(map(str, path))} {attack!r}"
            if done.returncode not in (0, 2):
                failures.append(f"{where}: exit {done.returncode}")
            for text in (out, err):
                if any(ord(c) < 32 and c != "\n" or 0x7f <= ord(c) < 0xa0 or c in "\u202e"
                       for c in text):
                    failures.append(f"{where}: raw control characters in {text!r}")
            if done.returncode != 0:
                continue
            written += 1
            if framework == "megatron":
                subprocess.run(["bash", "-c", out], capture_output=True)
            if framework == "torchtitan" and any(l.startswith(("[evil", "x =")) for l in out.split("\n")):
                failures.append(f"{where}: a section of its own")
            if os.path.exists("PWNED"):
                failures.append(f"{where}: ran")
                os.remove("PWNED")
print(f"{len(tried)} texts, {written} launches written")
if not written or failures:
    print(*failures[:20], sep="\n")
    sys.exit(1)
PYTHON

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
