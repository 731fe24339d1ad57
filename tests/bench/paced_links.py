"""Steps of GPT-2 124M on two ranks whose links are emulated, beside what the plan predicted.

usage: paced_links.py BIN_FOLDER --profile me.json [--gbps 4] [--seq 256] [--steps 4] [--out FILE]

Every way to add up gradients, with overlap and without. `--profile` is what `planner calibrate
--backend host` wrote on this machine; each rank is a node of its own, so that `planner exec --links
plan` waits for the network that the plan has. Sums of server and workers have no busy time of their
own in the record, so steps and exposed communication are compared."""

import argparse
import json
import os
import pathlib
import sys
import tempfile

from common import deliver, origin, run

WAYS = [("ring", []), ("naive_all_reduce", []), ("parameter_server", ["servers=1"]),
        ("parameter_server", ["servers=2"])]


def one(planner, folder, o, way, pins, overlap, threads):
    plan, record = f"{folder}/plan.json", f"{folder}/run.json"
    words = [planner, "--model", "gpt2-124m", "--gpus", 2, "--seq", o.seq, "--global-batch", 2,
             "--recipe", "fp32", "--gpu", o.profile, "--gpus-per-node", 1, "--internode-gbps",
             o.gbps, "--quiet", "--out", plan]
    for pin in ["data=2", "sharding=none", "checkpoint=none", "micro_batch=1",
                f"overlap={overlap}", f"grad_sync={way}", *pins]:
        words += ["--pin", pin]
    run(words)
    run([planner, "exec", plan, "--steps", o.steps, "--links", "plan", "--quiet", "--out", record],
        env=threads)
    terms = json.loads(run([planner, "compare", plan, record, "--json"]))["terms"]
    found = {t["term"]: t for t in terms}
    row = {"grad_sync": way, "pins": pins, "overlap": overlap == "true"}
    for term in ("time.step", "time.exposed_communication", "time.compute"):
        row[term] = {k: found[term][k] for k in ("predicted", "measured", "relative_error")}
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--profile", required=True)
    parser.add_argument("--out")
    for name, default in (("gbps", 4), ("seq", 256), ("steps", 4)):
        parser.add_argument("--" + name, type=int, default=default)
    o = parser.parse_args()
    planner = pathlib.Path(o.folder) / "planner"
    threads = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for way, pins in WAYS:
            for overlap in ("true", "false"):
                rows.append(one(planner, folder, o, way, pins, overlap, threads))
                step, wait = rows[-1]["time.step"], rows[-1]["time.exposed_communication"]
                print(f"{way} {' '.join(pins)} overlap={overlap}: step {step['predicted']:.2f} s "
                      f"predicted, {step['measured']:.2f} s; exposed {wait['predicted']:.2f} s, "
                      f"{wait['measured']:.2f} s", file=sys.stderr)
    figures = origin(f"steps of gpt2-124m on two ranks of the host over {o.gbps} Gbit/s, emulated")
    figures |= {"seq_len": o.seq, "steps": o.steps, "rows": rows}
    deliver(figures, o.out)


if __name__ == "__main__":
    main()
