"""The step of GPT-2 124M on the host: `planner exec` beside PyTorch, and beside its own prediction.

usage: host_step.py BIN_FOLDER [--python PYTHON_WITH_TORCH] [--rounds 5] [--steps 4] [--seq 256]
                    [--batch 4] [--gpus 1] [--profile me.json | --calibrate] [--out FILE]

The two take turns, on equal threads, so that what else the machine does meets both; medians of the
rounds' medians are compared, and the spread is told. `--profile` is what `planner calibrate
--backend host` wrote: the plan is made for it, and its step is the prediction. `--calibrate` writes
one anew before each round, so that both meet what else the machine does."""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

from common import HERE, deliver, origin, run


def told(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values),
            "rounds": len(values)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--python")
    parser.add_argument("--profile")
    parser.add_argument("--calibrate", action="store_true")
    parser.add_argument("--out")
    for name, default in (("rounds", 5), ("steps", 4), ("seq", 256), ("batch", 4), ("gpus", 1)):
        parser.add_argument("--" + name, type=int, default=default)
    o = parser.parse_args()
    planner = pathlib.Path(o.folder) / "planner"
    one_thread = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1",
                      MKL_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as folder:
        plan, record = f"{folder}/plan.json", f"{folder}/run.json"
        ours, theirs, predicted = [], [], []
        for i in range(o.rounds):
            profile = o.profile
            if o.calibrate:
                profile = f"{folder}/me{i}.json"
                run([planner, "calibrate", "--backend", "host", "--quiet", "--out", profile])
            run([planner, "--model", "gpt2-124m", "--gpus", o.gpus, "--seq", o.seq,
                 "--global-batch", o.batch * o.gpus, "--recipe", "fp32", "--gpu",
                 profile or "h100-sxm-80g", "--pin", f"data={o.gpus}", "--pin", "sharding=none",
                 "--pin", "checkpoint=none", "--pin", f"micro_batch={o.batch}", "--quiet",
                 "--out", plan])
            predicted.append(json.loads(pathlib.Path(plan).read_text())["chosen"]["time"]["step"])
            run([planner, "exec", plan, "--steps", o.steps, "--quiet", "--out", record],
                env=one_thread)
            ours.append(json.loads(pathlib.Path(record).read_text())["time"]["step_median"])
            if o.python:
                text = run([o.python, HERE / "pytorch_step.py", "--seq", o.seq, "--batch", o.batch,
                            "--steps", o.steps], env=one_thread)
                theirs.append(statistics.median(map(float, text.split())))
            text = f"planner {ours[-1]:.3f} s"
            if profile:
                text += f", predicted {predicted[-1]:.3f} s"
            print(text + (f", PyTorch {theirs[-1]:.3f} s" if theirs else ""), file=sys.stderr)
    result = origin("step of gpt2-124m on the host, fp32, AdamW, a thread a rank")
    result |= {"seq_len": o.seq, "micro_batch": o.batch, "ranks": o.gpus,
               "planner_exec": told(ours)}
    if theirs:
        version = run([o.python, "-c", "import torch; print(torch.__version__)"]).strip()
        result["pytorch"] = dict(told(theirs), version=version)
        result["ratio"] = statistics.median(a / b for a, b in zip(ours, theirs))
    if o.profile or o.calibrate:
        result["predicted"] = told(predicted)
        result["relative_error"] = statistics.median(predicted) / statistics.median(ours) - 1
    deliver(result, o.out)


if __name__ == "__main__":
    main()
