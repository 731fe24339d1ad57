"""Where ring, naive exchange, one server and a server per rank cross over, predicted and run.

usage: paced_crossings.py BIN_FOLDER [--ranks 4] [--steps 5] [--repeats 5] [--slower 1]
                          [--namespaces] [--out FILE]

Chains of three square matrices on ranks whose links are emulated: 100 MB/s and 5 ms. With few bytes
the way of the fewest rounds wins, with many that of the fewest bytes on the busiest link. Each
round runs every way at every size once; a figure is the median of the rounds' median steps, beside
the least and the greatest. --slower 10 takes a tenth of the bandwidth and ten times the latency:
all cross where they did, and the cores, which the ranks share, decide a tenth as much.

--namespaces runs every plan once more on the kernel's own network of that bandwidth and latency
(namespaces.py), by processes under OpenMPI over TCP: what the emulation is held against."""

import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import tempfile

from common import deliver, origin, run
from namespaces import Namespaces

WAYS = {"ring": ["grad_sync=ring"], "naive": ["grad_sync=naive_all_reduce"],
        "server": ["grad_sync=parameter_server", "servers=1", "servers_colocated=true"],
        "servers": ["grad_sync=parameter_server", "servers={ranks}", "servers_colocated=true"]}
WIDTHS = [48, 128, 256, 384, 512, 768, 1024]
NODE = {"id": "paced", "about": "emulated", "gpus_per_node": ["1", "a rank each"],
        "link": ["pcie_p2p", "none is used"], "link_bandwidth": ["1 GB/s", "none is used"],
        "link_latency": ["1 us", "none is used"], "nics": ["1", "emulated"],
        "internode_bandwidth": ["{} MB/s", "emulated"], "internode_latency": ["{} ms", "emulated"]}


def planned(planner, folder, o, width, pins):
    model, plan = folder / "model.json", folder / "plan.json"
    model.write_text(json.dumps({
        "schema": "model/1", "name": f"chain-{width}", "family": "chain", "source": "this script",
        "widths": [width] * 4, "activation": "relu", "loss": "squared_error",
        "default_seq_len": 1, "default_global_batch": o.ranks}))
    node = folder / "node.json"
    text = {"internode_bandwidth": 100 / o.slower, "internode_latency": 5 * o.slower}
    node.write_text(json.dumps({k: [v[0].format(text.get(k)), v[1]] if k in text else v
                                for k, v in NODE.items()}))
    words = [planner, "--model", model, "--gpus", o.ranks, "--gpu", "host", "--node", node,
             "--recipe", "fp32", "--optimizer", "sgd", "--quiet", "--out", plan]
    for pin in [f"data={o.ranks}", "sharding=none", "overlap=false", "micro_batch=1",
                *(p.format(ranks=o.ranks) for p in pins)]:
        words += ["--pin", pin]
    run(words)
    return plan


def step(planner, folder, o, width, pins, network):
    plan, record = planned(planner, folder, o, width, pins), folder / "run.json"

    def timed(before, after):
        run([*before, planner, "exec", plan, "--steps", o.steps, "--quiet", "--out", record, *after])
        terms = json.loads(run([planner, "compare", plan, record, "--json"]))["terms"]
        return next(t for t in terms if t["term"] == "time.step")

    paced = timed([], ["--links", "plan"])
    found = {"predicted": paced["predicted"], "measured": paced["measured"]}
    if network:
        found["network"] = timed(network.launch([]), ["--communicator", "mpi"])["measured"]
    return found


def summed_up(rounds):
    found = {"predicted": rounds[0]["predicted"]}
    for kind in list(rounds[0])[1:]:
        times = [r[kind] for r in rounds]
        median = statistics.median(times)
        found |= {kind: median, f"{kind}_least": min(times), f"{kind}_greatest": max(times),
                  f"predicted_over_{kind}": found["predicted"] / median}
    return found


# Sizes, in bytes, between which the faster of the two changes, and the size where straight lines
# through the times on both sides meet.
def crossings(rows, one, other, kind):
    found, gaps = [], [(r["gradient_bytes"], r[one][kind] - r[other][kind]) for r in rows]
    for (low, before), (high, after) in zip(gaps, gaps[1:]):
        if before * after < 0:
            at = low + (high - low) * before / (before - after)
            found.append({"between": [low, high], "at": round(at)})
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--out")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--slower", type=float, default=1)
    parser.add_argument("--namespaces", action="store_true")
    o = parser.parse_args()
    planner = (pathlib.Path(o.folder) / "planner").resolve()
    kinds = ["predicted", "measured"] + ["network"] * o.namespaces
    figures = {(width, way): [] for width in WIDTHS for way in WAYS}
    with contextlib.ExitStack() as until:
        folder = pathlib.Path(until.enter_context(tempfile.TemporaryDirectory()))
        network = None
        if o.namespaces:
            try:
                network = until.enter_context(
                    Namespaces(o.ranks, 100e6 / o.slower, 5e-3 * o.slower))
            except (OSError, PermissionError) as refused:
                print(f"skipped: --namespaces: expected to be allowed a network namespace for each "
                      f"rank (as root), found {refused}", file=sys.stderr)
                sys.exit(77)
        for _ in range(o.repeats):
            for width, way in figures:
                figures[width, way].append(step(planner, folder, o, width, WAYS[way], network))
    rows, agreed = [], {kind: 0 for kind in kinds[1:]}
    for width in WIDTHS:
        ways = {way: summed_up(figures[width, way]) for way in WAYS}
        first = {kind: min(ways, key=lambda w: ways[w][kind]) for kind in kinds}
        for kind in agreed:
            agreed[kind] += first["predicted"] == first[kind]
        rows.append({"gradient_bytes": 4 * 3 * width * (width + 1), "fastest": first, **ways})
        print(f"{rows[-1]['gradient_bytes']:>9} B  " + "  ".join(
            f"{w} {'/'.join(format(t[k] * 1e3, '.0f') for k in kinds)} ms" for w, t in ways.items())
            + f"  fastest {'/'.join(first.values())}", file=sys.stderr)
    pairs = [(a, b) for i, a in enumerate(WAYS) for b in list(WAYS)[:i]]
    crossed = {f"{a}, {b}": {kind: crossings(rows, a, b, kind) for kind in kinds}
               for a, b in pairs}
    what = (f"steps of chains on {o.ranks} ranks over {100 / o.slower:g} MB/s and {5 * o.slower:g} "
            "ms, in seconds: predicted; measured over links that are emulated")
    if o.namespaces:
        what += "; network, measured over the kernel's own, rate-limited ports of namespaces"
    deliver(origin(what) | {"steps": o.steps, "repeats": o.repeats, "fastest_as_predicted": {
        kind: f"{n} of {len(rows)}" for kind, n in agreed.items()},
        "crossings": crossed, "rows": rows}, o.out)


if __name__ == "__main__":
    main()
