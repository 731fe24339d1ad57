"""Files that the pages of page_test.py are made of: by the planner, by hand, and hostile ones."""

import json
import pathlib
import subprocess
import sys

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror=window.hit=1>\"'&"


def planner(binary, *words, code=0):
    done = subprocess.run([binary, *map(str, words)], capture_output=True, text=True)
    if done.returncode != code:
        sys.exit(f"planner {' '.join(map(str, words))}: exit {done.returncode}\n{done.stderr}")
    return done


def make_files(binary):
    """A plan with a pipeline, a run and a simulation of it, their comparison; a large plan."""
    pathlib.Path("config.json").write_text(json.dumps(
        {"model_type": "gpt2", "n_layer": 4, "n_embd": 32, "n_head": 2, "n_positions": 16,
         "vocab_size": 67}))
    planner(binary, "--model", "config.json", "--gpus", 4, "--seq", 16, "--global-batch", 16,
            "--recipe", "fp32", "--gpu", "h100-sxm-80g", "--pin", "pipeline=2", "--tokens", "1M",
            "--out", "plan.json")
    planner(binary, "exec", "plan.json", "--steps", 3, "--quiet", "--out", "run.json")
    planner(binary, "--model", "config.json", "--gpus", 2, "--seq", 16, "--global-batch", 16,
            "--recipe", "fp32", "--gpu", "host", "--out", "host_plan.json")
    planner(binary, "exec", "host_plan.json", "--steps", 3, "--quiet", "--out", "host_run.json")
    planner(binary, "simulate", "plan.json", "--scale", "1,2,4", "--mtbf", "5000h", "--save", "60s",
            "--restart", "5min", "--out", "simulate.json")
    planner(binary, "--model", "gpt2-124m", "--gpus", "64xh100-sxm-80g", "--seq", 64, "--pin",
            "data=64", "--out", "data.json")  # nodes of two leaf switches
    planner(binary, "simulate", "data.json", "--fabric", "leaf-spine-3to1", "--out", "links.json",
            "--report", "links.html")
    planner(binary, "compare", "plan.json", "run.json", "--strategies", "--out", "compare.json")
    pathlib.Path("validate.json").write_text(json.dumps(VALIDATE))
    planner(binary, "--model", "llama3.1-405b", "--gpus", 16384, "--gpu", "h100-sxm-80g",
            "--pin", "pipeline=16", "--out", "big.json")
    planner(binary, "sweep", "--model", "config.json", "--gpu", "h100-sxm-80g", "--gpus", "1,2,4",
            "--seq", "8,16", "--global-batch", 16, "--recipe", "fp32", "--quiet", "--out",
            "sweep.json")


VALIDATE = {
    "schema": "validate/1", "rows": 3, "predicted": 2,
    "skipped": [{"id": "c", "reason": "unknown"}],
    "time": {"rows": 2, "mape": 0.05, "median_ape": 0.05, "p90_ape": 0.09, "bias": -0.01},
    "memory": {"rows": 0, "mape": None, "median_ape": None, "p90_ape": None, "max_ape": None},
    "fit": {"rows": 0, "correct": 0, "false_fit": 0, "false_oom": 0},
    "ranking": {"groups": 0, "mean_regret": None, "p90_regret": None, "kendall_tau": None},
    "by": [{"dataset": "d", "framework": "megatron", "gpu": "a100", "rows": 2, "mape": 0.05,
            "bias": -0.01}],
    "per_row": [
        {"id": "a", "kind": "time", "measured": 1.0, "predicted": 1.1, "relative_error": 0.1,
         "dominant_term": "compute"},
        {"id": "b", "kind": "time", "measured": 20.0, "predicted": 19.0, "relative_error": -0.05,
         "dominant_term": "compute"}]}


def put_everywhere(value, keys):
    """The hostile text at every such key that holds a text, at any depth."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        if key in keys and isinstance(inner, str):
            value[key] = HOSTILE
        elif isinstance(inner, (dict, list)):
            put_everywhere(inner, keys)


def readable(binary, name):
    done = subprocess.run([binary, "report", name, "--quiet", "--out", "try.html"],
                          capture_output=True, text=True)
    if done.returncode == 2 and name in done.stderr:
        print(f"        {name} is refused: {done.stderr[:120]!r}")
    return done.returncode == 0


def make_hostile():
    """Files of every kind with hostile texts; their names."""
    plan = json.loads(pathlib.Path("plan.json").read_text())
    plan["assumptions"] = [HOSTILE, "a" * 100_000]
    plan["model"]["name"] = plan["model"]["spec"]["name"] = HOSTILE
    for rule in plan["rules_of_thumb"]:
        rule["name"] = rule["source"] = HOSTILE
    pathlib.Path("hostile.json").write_text(json.dumps(plan))
    run = json.loads(pathlib.Path("compare.json").read_text())
    for term in run["terms"]:
        term["term"] = "time." + HOSTILE
    pathlib.Path("hostile_compare.json").write_text(json.dumps(run))
    texts = {"simulate": ("stream", "kind"), "links": ("tier", "busiest", "link", "layer"),
             "validate": ("id", "dataset", "framework", "gpu"),
             "sweep": ("label", "gpu", "model", "summary"),
             "run": ("device", "backend", "communicator", "kernel", "seed")}
    for name, keys in texts.items():
        value = json.loads(pathlib.Path(f"{name}.json").read_text())
        put_everywhere(value, keys)
        pathlib.Path(f"hostile_{name}.json").write_text(json.dumps(value))
    odd = "hostile <img src=x onerror=hit()>.json"
    pathlib.Path(odd).write_text(pathlib.Path("plan.json").read_text())
    return ["hostile.json", "hostile_compare.json", odd, *(f"hostile_{name}.json" for name in texts)]
