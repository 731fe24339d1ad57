#!/usr/bin/env python3
"""System calls that fail: each verb is run again and again while strace makes one call of it fail,
whichever call, with whichever error that it can have (strace --inject).

However it ends, it ends by itself within the time below, by a code that the README lists, with one
message on standard error that is no internal error, and leaves no temporary file; what it had to
write is whole or not there. Where it ends with 0, everything that it writes is what it wrote
undisturbed.

usage: syscall_faults.py BIN_FOLDER sample|all [SEED]
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

HANGS = 120                               # seconds, under strace on a busy machine
ERRORS = {
    "openat": ["EMFILE", "EACCES", "EINTR"],
    "read": ["EIO", "EINTR"],
    "write": ["ENOSPC", "EIO", "EINTR"],
    "fsync": ["EIO", "ENOSPC"],
    "rename": ["EACCES", "ENOSPC"],
    "mkdir": ["EACCES", "ENOSPC"],
    "unlink": ["EACCES"],
    "ftruncate": ["ENOSPC"],
    "mmap": ["ENOMEM"],
    "clone3": ["EAGAIN"],
    "socket": ["EMFILE"],
    "connect": ["ECONNREFUSED"],
    "bind": ["EADDRINUSE"],
    "accept4": ["EMFILE"],
    "getdents64": ["EIO"],
    "newfstatat": ["EACCES"],
    "flock": ["ENOLCK"],
    "sched_getaffinity": ["EPERM"],
}
MOST_OF_A_CALL = 40                       # n-th calls that `all` tries, spread over those there are
SAMPLED = 5                               # cases of a verb that `sample` tries

PLAN = ["--model", "mlp-mnist", "--gpus", "2", "--gpu", "h100-sxm-80g", "--recipe", "fp32",
        "--global-batch", "8", "--pin", "data=2"]
# Name, words, what it writes: a file or a folder. The figures of a clock differ from run to run.
VERBS = [
    ("plan", [*PLAN, "--out", "out.json"], "out.json"),
    ("simulate", ["simulate", "plan.json", "--out", "out.json"], "out.json"),
    ("trace", ["simulate", "plan.json", "--trace", "out.pftrace", "--json"], "out.pftrace"),
    ("chakra", ["simulate", "plan.json", "--chakra", "out"], "out"),
    ("play", ["simulate", "traces", "--json"], None),
    ("exec", ["exec", "plan.json", "--steps", "2", "--checkpoint-dir", "out"], "out"),
    ("resume", ["exec", "plan.json", "--steps", "3", "--checkpoint-dir", "kept"], "kept"),
    ("verify", ["verify", "kept"], None),
    ("compare", ["compare", "plan.json", "run.json", "--json"], None),
    ("report", ["report", "plan.json", "run.json", "--out", "out.html"], "out.html"),
    ("emit", ["emit", "llama.json", "--for", "torchtitan", "--out", "out.toml"], "out.toml"),
    ("sweep", ["sweep", *PLAN[:2], "--gpu", "h100-sxm-80g", "--gpus", "1,2", "--recipe", "fp32",
               "--global-batch", "8", "--out", "out.csv"], "out.csv"),
    ("import", ["import", "fsdp.yaml", "--model", "gpt2-124m", "--json"], None),
    ("explain", ["explain", "time.step", "--plan", "plan.json"], None),
    ("gpus", ["gpus", "--json"], None),
]
CLOCK = re.compile(rb'"(seconds|measured|started|step_median|tokens_per_second)[^\n]*')
# Of code 1, the answer is no; 2, a question that makes no sense; 3, it could not be done.
CODES = {0, 1, 2, 3}


class Verb:
    def __init__(self, planner: str, name: str, words: list[str], writes: str | None) -> None:
        self.planner, self.name, self.words, self.writes = planner, name, words, writes

    def clear(self) -> None:
        for entry in os.listdir("."):
            if entry.startswith(("out", ".planner")):
                shutil.rmtree(entry) if os.path.isdir(entry) else os.remove(entry)
        if "kept" in self.words:
            shutil.rmtree("kept", ignore_errors=True)
            shutil.copytree("made", "kept")

    def run(self, *strace: str) -> tuple[int | None, bytes, bytes]:
        """The code (None: it hung, below 0: a signal), standard output and standard error."""
        self.clear()
        command = ["strace", "-f", "-qq", "-o", "strace.log", *strace, self.planner, *self.words]
        with open("stdout", "wb") as out, open("stderr", "wb") as err:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                     start_new_session=True)
            try:
                code: int | None = child.wait(HANGS)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, 9)
                child.wait()
                code = None
        return code, open("stdout", "rb").read(), open("stderr", "rb").read()

    def counted(self) -> dict[str, int]:
        """Calls of the first thread, by name."""
        code, _, err = self.run("-e", "trace=" + ",".join(ERRORS))
        if code != 0:
            sys.exit(f"{self.name}: undisturbed it ends with {code}: {err.decode()}")
        counts: dict[str, int] = {}
        first = None
        for line in open("strace.log", encoding="utf-8", errors="replace"):
            match = re.match(r"(\d+) +(\w+)\(", line)
            if not match:
                continue
            first = first or match[1]
            if match[1] == first:
                counts[match[2]] = counts.get(match[2], 0) + 1
        return counts

    def written(self) -> dict[str, bytes]:
        """What is there of what the verb writes: by path, without the figures of a clock."""
        if self.writes is None or not os.path.exists(self.writes):
            return {}
        paths = [self.writes]
        if os.path.isdir(self.writes):
            paths = [os.path.join(f, name) for f, _, names in os.walk(self.writes) for name in names]
        return {path: CLOCK.sub(b"", open(path, "rb").read()) for path in paths}


def complaint(verb: Verb, whole: dict[str, bytes], code: int | None, err: bytes) -> str:
    """What is wrong with how it ended; "" for nothing."""
    if code is None:
        return "it hangs"
    if code not in CODES:
        return f"it ends with {code}"
    if b"internal error" in err or b"terminate called" in err:
        return "an internal error"
    left = [entry for entry in os.listdir(".") if entry.startswith(".planner")]
    if left:
        return f"it leaves {left[0]}"
    there = verb.written()
    if code != 0:
        if not err.strip():
            return f"it ends with {code} and no reason"
        if os.path.isfile(verb.writes or "") and there != whole:
            return f"it leaves a part of {verb.writes}"
        return "" if "--checkpoint-dir" not in verb.words else resumed(verb, whole)
    return "" if there == whole else "it ends with 0 and wrote something else"


def resumed(verb: Verb, whole: dict[str, bytes]) -> str:
    """What was cut off goes on from what it kept, to the bits of an undisturbed run."""
    again = subprocess.run([verb.planner, *verb.words], capture_output=True, check=False)
    if again.returncode != 0:
        return f"it cannot go on: {again.stderr.decode(errors='replace').strip()}"
    there = verb.written()
    last = {path for path in whole if "rank-" in path}
    differ = sorted(path for path in last if there.get(path) != whole[path])
    return f"it goes on to other bits: {differ[0]}" if differ else ""


def cases_of(counts: dict[str, int], start: dict[str, int], seed: int, every: bool) -> list[str]:
    """Of calls after those of every start of the program: what strace is to inject."""
    cases = []
    for call, errors in ERRORS.items():
        first, last = start.get(call, 0) + 1, counts.get(call, 0)
        step = max(1, -(-(last - first + 1) // MOST_OF_A_CALL))
        for n in range(first, last + 1, step):
            cases += [f"{call}:error={error}:when={n}" for error in errors]
    if every:
        return cases
    return random.Random(seed).sample(cases, min(SAMPLED, len(cases)))


def make_files(planner: str) -> None:
    def run(*words: str) -> None:
        done = subprocess.run([planner, *words], capture_output=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}: {done.stderr.decode()}")
    run(*PLAN, "--out", "plan.json")
    run("--model", "llama3-8b", "--gpus", "8", "--gpu", "h100-sxm-80g", "--framework", "torchtitan",
        "--out", "llama.json")
    run("exec", "plan.json", "--steps", "2", "--checkpoint-dir", "made", "--out", "run.json")
    run("simulate", "plan.json", "--chakra", "traces")
    with open("fsdp.yaml", "w", encoding="utf-8") as file:
        file.write("distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n"
                   "mixed_precision: bf16\nnum_processes: 8\n")


def main() -> int:
    planner, every = os.path.join(os.path.abspath(sys.argv[1]), "planner"), sys.argv[2] == "all"
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    if shutil.which("strace") is None:
        print("skipped: no strace")
        return 77
    probe = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        print("skipped: strace may not trace here:", probe.stderr.decode().strip())
        return 77
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_files(planner)
        start = Verb(planner, "version", ["--version"], None).counted()
        tried, bad = 0, []
        for index, (name, words, writes) in enumerate(VERBS):
            verb = Verb(planner, name, words, writes)
            counts, whole = verb.counted(), verb.written()
            for case in cases_of(counts, start, seed + index, every):
                code, _, err = verb.run("-e", "trace=none", "-e", f"inject={case}")
                tried += 1
                wrong = complaint(verb, whole, code, err)
                if wrong:
                    bad.append(f"{name}, {case}: {wrong}\n  {err.decode(errors='replace')[:400]}")
                    print(bad[-1], flush=True)
            verb.clear()
        print(f"{tried} calls failed, {len(bad)} of them ended wrongly (seed {seed})")
        return 1 if bad or tried == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
