"""Where ring, naive exchange, one server and a server per rank cross over, predicted and run.

usage: paced_crossings.py BIN_FOLDER [--ranks 4] [--steps 5] [--out FILE]

Chains of three square matrices on ranks whose links are emulated: 100 MB/s and 5 ms, so slow that
neither this machine's cores nor its scheduler decide. With few bytes the way of the fewest rounds
wins, with many that of the fewest bytes on the busiest link."""

import argparse
import json
import pathlib
import sys
import tempfile

from common import deliver, origin, run

WAYS = {"ring": ["grad_sync=ring"], "naive": ["grad_sync=naive_all_reduce"],
        "server": ["grad_sync=parameter_server", "servers=1", "servers_colocated=true"],
        "servers": ["grad_sync=parameter_server", "servers={ranks}", "servers_colocated=true"]}
WIDTHS = [48, 128, 256, 384, 512, 768, 1024]
NODE = {"id": "paced", "about": "emulated", "gpus_per_node": ["1", "a rank each"],
        "link": ["pcie_p2p", "none is used"], "link_bandwidth": ["1 GB/s", "none is used"],
        "link_latency": ["1 us", "none is used"], "nics": ["1", "emulated"],
        "internode_bandwidth": ["100 MB/s", "emulated"], "internode_latency": ["5 ms", "emulated"]}


def step(planner, folder, o, width, pins):
    model, plan, record = folder / "model.json", folder / "plan.json", folder / "run.json"
    model.write_text(json.dumps({
        "schema": "model/1", "name": f"chain-{width}", "family": "chain", "source": "this script",
        "widths": [width] * 4, "activation": "relu", "loss": "squared_error",
        "default_seq_len": 1, "default_global_batch": o.ranks}))
    node = folder / "node.json"
    node.write_text(json.dumps(NODE))
    words = [planner, "--model", model, "--gpus", o.ranks, "--gpu", "host", "--node", node,
             "--recipe", "fp32", "--optimizer", "sgd", "--quiet", "--out", plan]
    for pin in [f"data={o.ranks}", "sharding=none", "overlap=false", "micro_batch=1",
                *(p.format(ranks=o.ranks) for p in pins)]:
        words += ["--pin", pin]
    run(words)
    run([planner, "exec", plan, "--steps", o.steps, "--links", "plan", "--quiet", "--out", record])
    terms = json.loads(run([planner, "compare", plan, record, "--json"]))["terms"]
    found = next(t for t in terms if t["term"] == "time.step")
    return {k: found[k] for k in ("predicted", "measured", "relative_error")}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--out")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=5)
    o = parser.parse_args()
    planner = pathlib.Path(o.folder) / "planner"
    rows, agreed = [], 0
    with tempfile.TemporaryDirectory() as name:
        for width in WIDTHS:
            ways = {way: step(planner, pathlib.Path(name), o, width, pins)
                    for way, pins in WAYS.items()}
            first = {kind: min(ways, key=lambda w: ways[w][kind])
                     for kind in ("predicted", "measured")}
            agreed += first["predicted"] == first["measured"]
            rows.append({"gradient_bytes": 4 * 3 * width * (width + 1), "fastest": first, **ways})
            print(f"{rows[-1]['gradient_bytes']:>9} B  " + "  ".join(
                f"{w} {t['predicted'] * 1e3:.0f}/{t['measured'] * 1e3:.0f} ms"
                for w, t in ways.items()) + f"  fastest {first['predicted']}/{first['measured']}",
                file=sys.stderr)
    figures = origin(f"steps of chains on {o.ranks} ranks over 100 MB/s and 5 ms, emulated: seconds")
    figures |= {"steps": o.steps, "fastest_as_predicted": f"{agreed} of {len(rows)}", "rows": rows}
    deliver(figures, o.out)


if __name__ == "__main__":
    main()
