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

# ---- launches of planner exec: read by what reads them, and run -------------------------------------
"$planner" emit stages.json --for slurm --out run.sbatch 2>notes.txt >next.txt
grep -q '^  sbatch run.sbatch stages.json ' next.txt || fail "started how? $(cat next.txt)"
bash -n run.sbatch || fail 'bash does not read the batch script'
grep -qx '#SBATCH --ntasks=8' run.sbatch || fail "not a task for each rank: $(grep SBATCH run.sbatch)"
grep -q '^note: ranks compute on the hosts' notes.txt || fail 'no word of where ranks compute'
mkdir slurm
# srun as it starts two of its tasks: each learns its place, and all have one secret.
cat >slurm/srun <<'SRUN'
#!/bin/bash
[[ $1 == --kill-on-bad-exit=1 ]] && shift
[[ -n $PLANNER_SECRET ]] || exit 9
codes=0
for r in 1 0; do
  SLURM_PROCID=$r SLURM_LOCALID=$r SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=localhost \
    SLURM_JOB_ID=$$ "$@" >"rank.$r" 2>&1 &
done
for job in $(jobs -p); do wait "$job" || codes=$?; done
exit $codes
SRUN
chmod +x slurm/srun
"$planner" --model gpt2-124m --gpus 2 --pin data=2 --seq 16 --global-batch 2 --out two.json --quiet \
  >/dev/null
PATH="$work/slurm:$1:$PATH" bash run.sbatch two.json --scale-down --steps 2 --json --quiet ||
  fail "the batch script ends with $?: $(cat rank.*)"
grep -q '"communicator": "tcp"' rank.0 || fail "no record of rank 0: $(head -c 300 rank.0)"
code=0
PATH="$work/slurm:$1:$PATH" bash run.sbatch no-such.json 2>err.txt || code=$?
[[ $code -eq 2 ]] && grep -q 'no-such.json: expected a plan' err.txt ||
  fail "a plan that is not there: exit $code, $(cat err.txt)"
"$planner" emit stages.json --for kubernetes --out job.yaml --quiet >next.txt
grep -q '^  kubectl apply -f job.yaml ' next.txt || fail "started how? $(cat next.txt)"
if command -v python3 >/dev/null && python3 -c 'import yaml' 2>/dev/null; then
  python3 - job.yaml <<'PYTHON' || fail 'a YAML reader finds another job'
import sys, yaml
service, job = yaml.safe_load_all(open(sys.argv[1]))
assert service["kind"] == "Service" and service["spec"]["clusterIP"] == "None", service
spec = job["spec"]
assert job["kind"] == "Job" and job["apiVersion"] == "batch/v1", job
assert spec["completionMode"] == "Indexed" and spec["completions"] == spec["parallelism"] == 8, spec
pod = spec["template"]["spec"]
assert pod["subdomain"] == service["metadata"]["name"] and pod["restartPolicy"] == "Never", pod
env = {e["name"]: e for e in pod["containers"][0]["env"]}
assert env["WORLD_SIZE"]["value"] == "8", env
assert env["MASTER_ADDR"]["value"] == f'{job["metadata"]["name"]}-0.{pod["subdomain"]}', env
assert env["PLANNER_SECRET"]["valueFrom"]["secretKeyRef"]["key"] == "secret", env
assert all(isinstance(e.get("value", ""), str) for e in env.values()), env
PYTHON
else
  printf 'skipped: the Job is read by no YAML reader (install python3-yaml)\n'
fi

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

# A plan for a framework says at once what emit would refuse.
"$planner" --model gpt2-1.5b --gpus 8xh100 --framework nanotron --out other.json >page.txt
tr -s ' \n' ' ' <page.txt | grep -q 'no launch file can be written of this plan: planner emit --for nanotron' ||
  fail "not said with the plan: $(cat page.txt)"
refused 'a plain model of family llama' other.json --for nanotron
"$planner" --model llama3-8b --gpus 8xh100 --framework nanotron --full >page.txt
if grep -q 'no launch file' page.txt; then fail 'said of a plan that emit writes'; fi
# What is recommended can be written, where the host must hold what does not fit, too.
for framework in deepspeed trainer; do
  "$planner" --model command-r-35b --gpus 8xh100 --framework $framework --out large.json >page.txt
  if grep -q 'no launch file' page.txt; then fail "$framework: $(cat page.txt)"; fi
  target=$framework
  if [[ $target == trainer ]]; then target=axolotl; fi
  "$planner" emit large.json --for $target --quiet >large.txt 2>err.txt || fail "$target: $(cat err.txt)"
done
refused 'sharding=zero3' sharded.json --for megatron
sed 's/"checkpoint": "none"/"checkpoint": "every_k"/; s/"checkpoint_every": [0-9]*/"checkpoint_every": 0/' \
  stages.json >nothing.json
refused 'every_k(0)' nothing.json --for megatron
refused 'tensor=2' stages.json --for axolotl
refused 'did you mean megatron' stages.json --for megatroon
refused 'found nothing' stages.json
refused 'alternatives' stages.json --for megatron --candidate 1000
refused 'cannot be\|can be read' missing.json --for megatron
refused 'expected' stages.json --for megatron --out /nowhere/train.sh
exit "$failed"
