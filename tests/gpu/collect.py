#!/usr/bin/env python3
"""Turns plan/1, run/1 and compare/1 files into rows of measured figures, and rows into one file.

usage: collect.py plan NAME GPUS BEFORE AFTER OPTIONS FOLDER   one row on standard output
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
        return None if not measured else (predicted - measured) / measured

    return {
        "name": name, "options": options, "gpus": int(gpus), "device": run["device"],
        "clocks_before": before, "clocks_after": after, "environment": run["environment"],
        "live": {"predicted": chosen["memory"]["live"], "measured": memory["live"],
                 "equal": chosen["memory"]["live"] == memory["live"]},
        "device_bytes": {"predicted": chosen["memory"]["device"], "measured": memory["device"],
                         "relative_error": error(chosen["memory"]["device"], memory["device"])},
        "step": {"predicted": chosen["time"]["step"], "median": time["step_median"],
                 "p10": time["step_p10"], "p90": time["step_p90"],
                 "relative_error": error(chosen["time"]["step"], time["step_median"]) if alone else None},
    }


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
    else:
        join(*sys.argv[2:5])
