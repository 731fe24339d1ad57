#!/usr/bin/env python3
"""Turns plan/1, run/1 and compare/1 files into rows of measured figures, and rows into one file.

usage: collect.py plan NAME GPUS BEFORE AFTER OPTIONS FOLDER   one row on standard output
       collect.py pins PLAN                                    options that pin what it chose
       collect.py clocked ROWS.jsonl BEFORE AFTER              the rows with the clocks around them
       collect.py graphs NAME BEFORE AFTER FOLDER              one row of pairs: steps kept as graphs, and not
       collect.py choices NAME OTHER BEFORE AFTER FOLDER       one row of pairs: own kernels, and a library's
       collect.py records NAME BEFORE AFTER FOLDER             one row: times by events beside those by CUPTI
       collect.py print_records ROWS.jsonl NAME                that row, to be read
       collect.py outcome NAME CODE LOG [SECONDS]              a row of what ended so, with its last lines
       collect.py kernels RECORD                               its last step by kernels, to be read
       collect.py join ROWS.jsonl COMMAND OUT.json             all rows, written whole
"""
import json
import os
import sys


def row(name, gpus, before, after, options, folder):
    """Predicted beside measured of one plan; relative error as in compare/1."""
    plan, run = (json.load(open(f"{folder}/{name}.{kind}.json")) for kind in ("plan", "run"))
    chosen = plan["chosen"]
    time, memory = run["time"], run["memory"]
    alone = int(gpus) == 1  # several ranks share the card: their times are not a machine's

    def error(predicted, measured):
        return None if not measured or predicted is None else (predicted - measured) / measured

    calibrated, path = None, f"{folder}/{name}.calibrated.json"
    if os.path.exists(path):
        again = json.load(open(path))["chosen"]
        calibrated = again["time"]["step"] if again["strategy"] == chosen["strategy"] else None
    slower = time["step_median"] / chosen["time"]["step"]
    return {
        "name": name, "options": options, "gpus": int(gpus), "device": run["device"],
        "clocks_before": before, "clocks_after": after, "environment": run["environment"],
        "live": {"predicted": chosen["memory"]["live"], "measured": memory["live"],
                 "equal": chosen["memory"]["live"] == memory["live"]},
        "device_bytes": {"predicted": chosen["memory"]["device"], "measured": memory["device"],
                         "relative_error": error(chosen["memory"]["device"], memory["device"])},
        "step": {"predicted": chosen["time"]["step"], "median": time["step_median"],
                 "p10": time["step_p10"], "p90": time["step_p90"],
                 "relative_error": error(chosen["time"]["step"], time["step_median"]) if alone else None,
                 "predicted_calibrated": calibrated,
                 "relative_error_calibrated": error(calibrated, time["step_median"]) if alone else None},
        "parts": {key: time[key] for key in ("compute", "exposed_communication", "bubble", "optimizer")},
        "tokens_per_second": chosen["throughput"]["tokens_per_second"] / slower if alone else None,
        "mfu": chosen["throughput"]["mfu"] / slower if alone and chosen["throughput"]["mfu"] else None,
    }


def pins(plan):
    strategy = json.load(open(plan))["chosen"]["strategy"]
    for key in ("data", "tensor", "pipeline", "schedule", "sharding", "micro_batch", "checkpoint", "checkpoint_every"):
        if strategy[key]:
            yield from ("--pin", f"{key}={strategy[key]}")


def clocked(rows, before, after):
    for line in open(rows):
        yield {**json.loads(line), "clocks_before": before, "clocks_after": after}


def in_turn(folder, section, values):
    """What in_turn of run_cuda.sh left: by value its records, and their medians in the order in which they ran."""
    runs = {value: [json.load(open(f"{folder}/{section}.{value}.{pair}.json")) for pair in (1, 2, 3)] for value in values}
    return runs, {value: [run["time"]["step_median"] for run in runs[value]] for value in values}


def graphs(name, before, after, folder):
    """Medians of each run, in the order in which they ran; losses of a pair are the same bits."""
    runs, step = in_turn(folder, "graphs", ("on", "off"))
    predicted = json.load(open(f"{folder}/graphs.plan.json"))["chosen"]
    return {
        "name": name, "clocks_before": before, "clocks_after": after,
        "graphs": runs["on"][0]["environment"]["graphs"], "launch_bound": predicted["time"]["launch_bound"],
        "predicted": predicted["time"]["step"], "step_on": step["on"], "step_off": step["off"],
        "times_faster": sorted(off / on for on, off in zip(step["on"], step["off"]))[1],
        "same_loss": all(on["loss"] == off["loss"] for on, off in zip(runs["on"], runs["off"])),
    }


def choices(name, other, before, after, folder):
    """Medians of each run, in the order in which they ran; what the library's runs say they called."""
    runs, step = in_turn(folder, "choices", ("own", other))
    environment = runs[other][0]["environment"]
    return {
        "name": name, "clocks_before": before, "clocks_after": after, "other": other,
        "attention": environment["attention"], "gelu": environment["gelu"],
        "step_own": step["own"], "step_other": step[other],
        "times_faster": sorted(own / its for own, its in zip(step["own"], step[other]))[1],
        "loss_apart": max(abs(a - b) / abs(a) for x, y in zip(runs["own"], runs[other]) for a, b in zip(x["loss"], y["loss"])),
        "same_memory": all(x["memory"]["live"] == y["memory"]["live"] and x["memory"]["workspace"] == y["memory"]["workspace"]
                           for x, y in zip(runs["own"], runs[other])),
    }


def records(name, before, after, folder):
    """The last pair's actions by both, what CUPTI says of itself, and the recorded step of each run: the last one."""
    runs, step = in_turn(folder, "records", ("events", "cupti"))
    last = runs["cupti"][-1]
    return {
        "name": name, "clocks_before": before, "clocks_after": after, "says": last["environment"]["device_times"],
        "step_events": step["events"], "step_cupti": step["cupti"],
        "compute_events": [run["time"]["compute"] for run in runs["events"]],
        "compute_cupti": [run["time"]["compute"] for run in runs["cupti"]],
        "same_loss": all(x["loss"] == y["loss"] for x, y in zip(runs["events"], runs["cupti"])),
        "device_bytes": [runs[by][-1]["memory"]["device"] for by in ("events", "cupti")],
        "device_times": last.get("device_times"),
    }


def print_records(rows, name):
    found = next(r for r in map(json.loads, open(rows)) if r["name"] == name)
    print(f"{name}: {found['says']}")
    times = found["device_times"]
    if times is None:
        return
    figure = lambda label, by_event, by_kernel: print(f"  {label:<34} {by_event * 1e3:10.3f} {by_kernel * 1e3:10.3f} ms")
    print(f"  {'':<34} {'by events':>10} {'by kernels':>10}")
    for action in times["actions"]:
        if action["kernels"]:
            figure(action["name"], action["event_seconds"], action["covered_seconds"])
    figure("all of them at once", times["event_seconds"], times["busy_seconds"])
    print(f"  between kernels {times['gap_seconds'] * 1e3:.3f} ms")


def print_kernels(record):
    """The last step of a record by kernels and by kinds of action, longest first."""
    run = json.load(open(record))
    times = run.get("device_times")
    print(f"{run['model']['name'] if isinstance(run['model'], dict) else run['model']}: step median {run['time']['step_median'] * 1e3:.3f} ms; {run['environment'].get('device_times')}")
    for key in ("attention", "gelu", "graphs"):
        print(f"  {key}: {run['environment'].get(key)}")
    if times is None:
        return
    print(f"  actions {times['event_seconds'] * 1e3:.3f} ms by events, kernels {times['busy_seconds'] * 1e3:.3f} ms, {times['gap_seconds'] * 1e3:.3f} ms between kernels")
    for kernel in sorted(times["kernels"], key=lambda k: -k["total_seconds"]):
        print(f"  {kernel['total_seconds'] * 1e3:10.3f} ms {kernel['calls']:5} x {kernel['name'][:110]}")
    for action in sorted(times["actions"], key=lambda a: -a["event_seconds"]):
        print(f"  {action['event_seconds'] * 1e3:10.3f} ms {action['actions']:5} x {action['name']} ({action['kernels']} kernels, {action['covered_seconds'] * 1e3:.3f} ms)")


def outcome(name, code, log, seconds=None):
    """SECONDS: what it took, where that is told."""
    lines = open(log, errors="replace").read().strip().splitlines()
    took = {} if seconds is None else {"seconds": int(seconds)}
    return {"name": name, "exit": int(code), **took, "says": lines[-6:]}


def join(rows, command, out):
    with open(rows) as lines:
        result = {"schema": "measured/1", "command": command, "rows": [json.loads(line) for line in lines]}
    with open(out + ".partial", "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(out + ".partial", out)


if __name__ == "__main__":
    if sys.argv[1] == "plan":
        print(json.dumps(row(*sys.argv[2:8])))
    elif sys.argv[1] == "pins":
        print("\n".join(pins(sys.argv[2])))
    elif sys.argv[1] == "clocked":
        print("\n".join(json.dumps(r) for r in clocked(*sys.argv[2:5])))
    elif sys.argv[1] == "graphs":
        print(json.dumps(graphs(*sys.argv[2:6])))
    elif sys.argv[1] == "choices":
        print(json.dumps(choices(*sys.argv[2:7])))
    elif sys.argv[1] == "records":
        print(json.dumps(records(*sys.argv[2:6])))
    elif sys.argv[1] == "print_records":
        print_records(*sys.argv[2:4])
    elif sys.argv[1] == "outcome":
        print(json.dumps(outcome(*sys.argv[2:6])))
    elif sys.argv[1] == "kernels":
        print_kernels(sys.argv[2])
    else:
        join(*sys.argv[2:5])
