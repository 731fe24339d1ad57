#!/usr/bin/env bash
# A plan that a stranger wrote.
# Each text of a plan replaced by one that a shell, a TOML reader or a terminal would act on: it is
# refused, or what is written is still a script (run here, torchrun being a stub) or a file that
# holds nothing of it.
# usage: emit_strangers.sh BIN_FOLDER; skipped (77) without python3.
set -uo pipefail
planner=$1/planner
if ! command -v python3 >/dev/null; then
  printf 'skipped: no python3\n'
  exit 77
fi
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$planner" --model llama3-8b --gpus 8 --pin sharding=zero3 --pin tensor=1 --pin pipeline=1 \
  --out sharded.json --quiet >/dev/null
"$planner" --model gpt2-774m --gpus 8 --pin tensor=2 --pin pipeline=2 --pin schedule=1f1b \
  --pin sharding=zero1 --pin checkpoint=none --out stages.json --quiet >/dev/null
"$planner" --model llama3-8b --gpus 8 --framework fsdp2 --pin sharding=zero3 --pin tensor=1 --pin pipeline=1 \
  --out python.json --quiet >/dev/null
mkdir stub
printf '#!/bin/sh\nexit 0\n' >stub/torchrun
cp stub/torchrun stub/scontrol
# As srun does: what it is given, on one node.
printf '#!/bin/bash\nwhile [[ $1 == --* ]]; do shift; done\nSLURM_NODEID=0 exec "$@"\n' >stub/srun
chmod +x stub/*
export SLURM_JOB_NODELIST=one SLURM_JOB_ID=1
PATH="$work/stub:$PATH" python3 - "$planner" <<'PYTHON' || fail 'a text of a plan became code'
import ast, json, os, subprocess, sys
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

BRIDGE = {"ConfigContainer", "GPTModelProvider", "TrainingConfig", "ValidationConfig", "OptimizerConfig",
          "SchedulerConfig", "DistributedDataParallelConfig", "MixedPrecisionConfig", "partial",
          "MockGPTDatasetConfig", "TokenizerConfig", "LoggerConfig", "CheckpointConfig", "DistributedInitConfig",
          "pretrain", "planned"}
try:
    import yaml
except ImportError:
    yaml = None
for plan_file, framework, launcher in (
        ("stages.json", "megatron", ""), ("stages.json", "megatron_bridge", ""), ("sharded.json", "torchtitan", ""),
        ("python.json", "torchtitan_python", ""), ("python.json", "torchtitan_0.3", ""),
        ("sharded.json", "deepspeed", ""), ("stages.json", "slurm", ""), ("stages.json", "kubernetes", ""),
        ("stages.json", "megatron", "torchrun"), ("sharded.json", "torchtitan", "slurm"),
        ("sharded.json", "deepspeed", "jobset"), ("stages.json", "megatron", "skypilot"),
        ("sharded.json", "axolotl", ""), ("sharded.json", "llama_factory", "slurm")):
    plan = json.load(open(plan_file))
    for path in texts(plan):
        if "alternatives" in path or "rejected" in path:
            continue
        shape = (framework, launcher) + tuple("" if isinstance(key, int) else key for key in path)
        if shape in tried:
            continue
        tried.add(shape)
        for attack in attacks:
            at = plan
            for key in path[:-1]:
                at = at[key]
            honest, at[path[-1]] = at[path[-1]], attack
            with open("lying.json", "w") as lying:
                lying.write(json.dumps(plan))
            at[path[-1]] = honest
            words = ["--launcher", launcher] if launcher else []
            done = subprocess.run([planner, "emit", "lying.json", "--for", framework, *words],
                                  capture_output=True)
            out, err = done.stdout.decode(), done.stderr.decode()
            where = f"{framework} {launcher} {'/'.join(map(str, path))} {attack!r}"
            if done.returncode not in (0, 2):
                failures.append(f"{where}: exit {done.returncode}")
            for text in (out, err):
                if any(ord(c) < 32 and c != "\n" or 0x7f <= ord(c) < 0xa0 or c in "\u202e"
                       for c in text):
                    failures.append(f"{where}: raw control characters in {text!r}")
            if done.returncode != 0:
                continue
            written += 1
            if launcher in ("torchrun", "slurm") or not launcher and framework in ("megatron", "slurm"):
                subprocess.run(["bash", "-c", out], capture_output=True)
            if launcher in ("jobset", "skypilot") and yaml:
                task = yaml.safe_load(out)
                kept = {"jobset": ["apiVersion", "kind", "metadata", "spec"],
                        "skypilot": ["name", "num_nodes", "workdir", "resources", "run"]}
                if list(task) != kept[launcher]:
                    failures.append(f"{where}: keys of its own")
                run = task["run"] if launcher == "skypilot" else task["spec"]["replicatedJobs"][0][
                    "template"]["spec"]["template"]["spec"]["containers"][0]["args"][0]
                subprocess.run(["bash", "-c", run.replace("cd REPLACE_WITH_WORKDIR", "")],
                               capture_output=True)
            if framework == "axolotl" and yaml and "evil" in str(yaml.safe_load(out)):
                failures.append(f"{where}: more than a comment")
            if framework == "torchtitan" and not launcher and any(l.startswith(("[evil", "x =")) for l in out.split("\n")):
                failures.append(f"{where}: a section of its own")
            if framework in ("torchtitan_python", "torchtitan_0.3"):
                names = {node.func.id for node in ast.walk(ast.parse(out))
                         if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
                if not names <= {"CompileConfig", "model_registry", "ParallelismConfig", "TrainingConfig",
                                 "ConcatThenSplitPackingConfig", "decoder_vocab_size", "default_adamw"}:
                    failures.append(f"{where}: calls {names}")
            if framework == "megatron_bridge":
                names = {node.func.id for node in ast.walk(ast.parse(out))
                         if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
                if not names <= BRIDGE:
                    failures.append(f"{where}: calls {names}")
            if framework == "kubernetes" and any(
                    not l.startswith("#") and ("PWNED" in l or "evil" in l) for l in out.split("\n")):
                failures.append(f"{where}: more than a comment")
            if os.path.exists("PWNED"):
                failures.append(f"{where}: ran")
                os.remove("PWNED")
print(f"{len(tried)} texts, {written} launches written")
if not written or failures:
    print(*failures[:20], sep="\n")
    sys.exit(1)
PYTHON
