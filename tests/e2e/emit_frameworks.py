#!/usr/bin/env python3
"""Frameworks read what `planner emit` writes for them, by their own code (framework_readers.py), and mean the
same job: degrees, batches, recomputation, clipping, parameters. DeepSpeed trains on two CPU ranks.
usage: emit_frameworks.py BIN_FOLDER, in an empty folder.

PLANNER_FRAMEWORKS_PYTHON: an interpreter that has the packages (default: python3). PLANNER_MEGATRON,
PLANNER_MEGATRON_BRIDGE, PLANNER_NANOTRON: checkouts, where these are not installed. frameworks.txt
has the versions that it was last run with. What is not there is skipped by name; nothing there at all:
exit 77."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

planner = os.path.join(sys.argv[1], "planner")
python = os.environ.get("PLANNER_FRAMEWORKS_PYTHON", "python3")
readers = pathlib.Path(__file__).resolve().parent / "framework_readers.py"
failures, skipped, accepted = [], [], {}

# Twelve models, as the planner would train them.
MODELS = ("gpt2-124m", "gpt2-1.5b", "gpt3-175b", "llama2-7b", "llama3-8b", "llama3-70b", "mistral-7b", "qwen2.5-7b",
          "qwen3-8b", "qwen3-30b-a3b", "mixtral-8x7b", "smollm3-3b")


def planned(words, name):
    """The plan of a question, or None where nothing fits."""
    done = subprocess.run([planner, *words, "--gpu", "h100-sxm-80g", "--out", name, "--quiet"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        failures.append(f"no plan: {' '.join(words)}: {done.stderr.strip()}")
        return None
    return json.loads(pathlib.Path(name).read_text())


def emitted(plan_file, framework, file):
    done = subprocess.run([planner, "emit", plan_file, "--for", framework, "--out", file, "--quiet"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        failures.append(f"{framework}: {done.stderr.strip()}")
    return done.returncode == 0


def torchrun_words(script):
    """What a script starts, told by a stand-in for torchrun."""
    stand_in = pathlib.Path("stand-in")
    stand_in.mkdir(exist_ok=True)
    torchrun = stand_in / "torchrun"
    torchrun.write_text("#!/usr/bin/env python3\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    torchrun.chmod(0o755)
    env = {**os.environ, "PATH": f"{stand_in.resolve()}:{os.environ['PATH']}"}
    told = subprocess.run(["bash", script], capture_output=True, text=True, env=env, check=True).stdout
    file = script + ".json"
    pathlib.Path(file).write_text(told.strip().splitlines()[-1])
    return file


def expected(plan):
    """What a reader may say of the plan, by its words."""
    s, job = plan["chosen"]["strategy"], plan["job"]
    sharded = s["sharding"] != "none"
    return {
        **{key: s[key] for key in ("data", "tensor", "pipeline", "context", "virtual_stages", "expert",
                                   "micro_batch", "grad_accum")},
        "gpus": plan["cluster"]["gpus"], "global_batch": job["global_batch"], "seq_len": job["seq_len"],
        "layers": plan["model"]["layers"], "parameters": plan["model"]["parameters"],
        "lora_rank": job.get("lora_rank", 0), "clip": job.get("clip", 0),
        "precision": job["precision"], "version": 2, "steps": 3, "falls": True,
        "replicas": s["data"] // s["shard_group"] if sharded else s["data"],
        "shards": s["shard_group"] if sharded else 1,
        "reshards": s["sharding"] == "zero3", "stage": int(s["sharding"][4:]) if sharded else 0,
        "divides_optimizer": sharded, "offloads": "params" in s["offload"],
        "recomputes": s["checkpoint"] == "every_k" and s["checkpoint_every"] == 1,
        "chunks": max(1, len(s["stages"])) if s["pipeline"] > 1 else 1,
        "sums_wider": True, "four_bits": job.get("quantization", "none") != "none",
        "experts": (plan["model"].get("spec") or {}).get("variants", {}).get("experts"),
    }


CHECKOUTS = {"megatron": ("PLANNER_MEGATRON",), "nanotron": ("PLANNER_NANOTRON",),
             "megatron_bridge": ("PLANNER_MEGATRON_BRIDGE", "PLANNER_MEGATRON")}


# Keys that the framework has in another unit than the plan.
def agrees(framework, key, said, meant):
    if key == "clip":                    # of nothing: 0, or what no norm reaches
        return said == meant or (meant == 0 and said >= 1e9)
    if key == "experts":
        return meant is None or said == meant
    return said == meant


def check(framework, questions, launch=()):
    """Plans, writes and reads all questions of a framework with one start of it."""
    env = dict(os.environ)
    checkouts = [os.environ[name] for name in CHECKOUTS.get(framework, ()) if os.environ.get(name)]
    if checkouts:
        sources = [pathlib.Path(checkout, "src") for checkout in checkouts]
        env["PYTHONPATH"] = os.pathsep.join(
            str(source if source.exists() else source.parent) for source in sources)
    probe = subprocess.run([python, readers, framework], capture_output=True, text=True, env=env) if not launch else \
        subprocess.run([python, "-c", f"import {framework}"], capture_output=True, text=True, env=env)
    if probe.returncode != 0:
        why = (probe.stderr.strip().splitlines() or ["no reason"])[-1]
        skipped.append(f"{framework} ({why})")
        return
    plans, files = [], []
    for number, words in enumerate(questions):
        plan_file = f"{framework}-{number}.json"
        file = f"{framework.replace('.', '_')}_{number}" + \
            {"deepspeed": ".ds", "torchtitan_0.3": ".py", "megatron": ".sh", "megatron_bridge": ".py"}.get(framework, ".yaml")
        plan = planned(words, plan_file)
        if plan and plan["chosen"] and emitted(plan_file, framework, file):
            plans.append((words, plan))
            pathlib.Path(file).with_suffix(".ranks").write_text(str(plan["cluster"]["gpus"]))
            files.append(torchrun_words(file) if framework == "megatron" else file)
    done = subprocess.run([python, *launch, readers, framework, *files], capture_output=True, text=True, env=env)
    if done.returncode != 0:
        failures.append(f"{framework}: {' '.join(files)}: {done.stderr.strip()[-2000:]}")
        return
    for (words, plan), said in zip(plans, json.loads(done.stdout.strip().splitlines()[-1]), strict=True):
        meant = expected(plan)
        for key, value in said.items():
            if not agrees(framework, key, value, meant[key]):
                failures.append(f"{framework}: {' '.join(words)}: {key} is {value}, planned {meant[key]}")
    accepted[framework] = len(plans)


def question(text, **framework):
    return [*text.split(), *(["--framework", framework["framework"]] if framework else [])]


if shutil.which(python) is None:
    print(f"skipped: no {python}")
    sys.exit(77)
# Of fsdp2, torchtitan trains its own models, and accelerate any other.
OWN_OF_TORCHTITAN = ("llama3-8b", "llama3-70b")
check("accelerate", [question(f"--model {model} --gpus 64", framework="fsdp2") for model in MODELS
                     if model not in OWN_OF_TORCHTITAN and model != "llama2-7b"] + [
    question("--reduce-dtype bf16 " + text, framework="fsdp2") for text in (
    "--model llama3-8b --gpus 16 --pin sharding=zero3 --pin tensor=1 --pin pipeline=1 --pin shard_group=8 "
    "--pin checkpoint=every_k(1)",
    "--model qwen3-8b --gpus 8 --pin sharding=zero2 --pin tensor=1 --pin pipeline=1 --pin checkpoint=none",
    "--model llama3-8b --gpus 8 --pin sharding=zero3 --pin tensor=1 --pin pipeline=1 --pin offload=params "
    "--pin checkpoint=every_k(1)")])
check("torchtitan_0.3", [
    question(f"--model {model} --gpus 64 --pin checkpoint=none|every_k(1)|selective_op", framework="fsdp2")
    for model in OWN_OF_TORCHTITAN] + [
    question(text, framework="fsdp2") for text in (
    "--model llama3-8b --gpus 16 --pin tensor=2 --pin sharding=zero3 --pin pipeline=1 --pin context=1 "
    "--pin checkpoint=every_k(1)",
    "--model llama3-8b --gpus 8 --pin pipeline=2 --pin schedule=1f1b --pin sharding=zero2 --pin checkpoint=none "
    "--pin context=1 --clip 1",
    "--model llama3.2-1b --gpus 8 --pin sharding=none --pin tensor=1 --pin pipeline=1 --pin context=1 "
    "--pin checkpoint=none")])
for tuner in ("axolotl", "llama_factory"):
    check(tuner, [question(text, framework="trainer") for text in (
        "--model llama3-8b --gpus 8 --lora-rank 16", "--model llama3-8b --gpus 1 --lora-rank 8 --quantization nf4",
        "--model llama3-8b --gpus 8 --clip 1 --pin sharding=zero3", "--model gpt2-124m --gpus 1",
        "--model qwen3-8b --gpus 256")])
check("nanotron", [question(text, framework="nanotron") for text in (
    "--model llama3-8b --gpus 16", "--model llama3-8b --gpus 8 --pin tensor=2 --pin pipeline=2 --clip 1")])
check("deepspeed", [question(f"--model {model} --gpus 64", framework="deepspeed") for model in MODELS] + [
    question("--model gpt2-124m --gpus 2 --pin data=2 --global-batch 8 --pin micro_batch=2 " + text,
             framework="deepspeed") for text in (
        "--pin sharding=none", "--pin sharding=zero1", "--pin sharding=zero2 --clip 1", "--pin sharding=zero3")],
      launch=("-m", "torch.distributed.run", "--nproc-per-node", "2"))
# Latent attention, sigmoid gates, groups of experts and shared experts, sinks and clamped gates:
# Megatron-LM has options for them.
LATER_MIXTURES = ("deepseek-v2-lite", "glm-4.5-air", "qwen2-57b-a14b", "gpt-oss-20b")
OVER_MEGATRON_CORE = [
    question(f"--model {model} --gpus 64", framework="megatron_core") for model in (*MODELS, *LATER_MIXTURES)] + [
    question("--model deepseek-v3 --gpus 512", framework="megatron_core"),
    question("--model llama3-8b --gpus 16 --pin tensor=2 --pin pipeline=2 --pin schedule=interleaved "
             "--pin virtual_stages=2 --clip 1", framework="megatron_core"),
    question("--model llama3-8b --gpus 16 --pin context=2 --pin context_method=ring --seq 32k",
             framework="megatron_core")]
check("megatron", OVER_MEGATRON_CORE)
check("megatron_bridge", OVER_MEGATRON_CORE + [
    question("--model qwen3-8b --gpus 8 --precision fp8 --pin checkpoint=every_k(1)", framework="megatron_core")])
# Release 0.2 recomputes one layer in k, too; its file says what to add for a size that it does not have.
for model in ("llama2-7b", *OWN_OF_TORCHTITAN):
    if planned(question(f"--model {model} --gpus 64", framework="fsdp2"), "titan.json"):
        emitted("titan.json", "torchtitan", "titan.toml")
for failure in failures:
    print(failure)
if skipped:
    print("skipped: " + "; ".join(skipped))
if not accepted and not failures:
    sys.exit(77)
print("accepted: " + ", ".join(f"{n} by {framework}" for framework, n in accepted.items()))
sys.exit(1 if failures else 0)
