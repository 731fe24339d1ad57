"""What the scripts of this folder share: commands that must succeed, and what a file of figures says
of where they come from."""

import datetime
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def run(words, **more):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def origin(what):
    """The first figures of a file: what they are, the command, the day, the commit, the machine."""
    cpu = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo")
           if line.startswith("model name")]
    return {"what": what,
            "command": pathlib.Path(sys.argv[0]).name + " BIN " + " ".join(sys.argv[2:]),
            "date": datetime.date.today().isoformat(),
            "commit": run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"]).strip(),
            "cpu": cpu[0] if cpu else None}


def deliver(figures, out):
    text = json.dumps(figures, indent=1) + "\n"
    pathlib.Path(out).write_text(text) if out else print(text, end="")
