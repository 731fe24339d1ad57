#!/usr/bin/env python3
"""Snapshots of PyTorch's allocator beside a plan, and pickles that are none.

An allocator of the same rules (blocks rounded to 512 bytes, segments that are cut into blocks) is
played at random, with a ring of events that forgets the first. Its peaks are counted forward as it
runs; `planner compare` must find the same from the snapshot, which lacks the first events.

usage: memory_snapshots.py BIN_FOLDER [SANITIZER], whose own memory is not bounded
"""

import json
import multiprocessing
import os
import pickle
import random
import resource
import subprocess
import sys
import tempfile

HANGS = 300
planner = os.path.join(os.path.abspath(sys.argv[1]), "planner")


class Ran:
    pass


class Allocator:
    """Segments and events of one GPU, with the keys of torch.cuda.memory._snapshot."""

    def __init__(self, device):
        self.device, self.events, self.segments, self.live = device, [], [], []
        self.now = {"allocated": 0, "reserved": 0}
        self.moments = []

    def event(self, action, size, **more):
        frames = [{"filename": "train.py", "line": len(self.events) % 7, "name": "step"}]
        self.events.append({"action": action, "addr": 0x7f0000000000 + size, "size": size, "stream": 0,
                            "time_us": 1700000000000000 + len(self.events), "frames": frames,
                            "pool_id": (0, 0), "user_metadata": ""} | more)
        self.moments.append(dict(self.now))

    def grow(self, size, action="segment_alloc"):
        self.now["reserved"] += size
        self.segments.append({"device": self.device, "address": 1 << 46, "total_size": size,
                              "allocated_size": 0, "active_size": 0, "stream": 0,
                              "segment_type": "large", "segment_pool_id": (0, 0), "blocks": []})
        self.event(action, size)

    def allocate(self, size):
        self.now["allocated"] += -(-size // 512) * 512
        self.live.append(size)
        self.event("alloc", size)

    def free(self, size):
        self.live.remove(size)
        self.now["allocated"] -= -(-size // 512) * 512
        self.event("free_requested", size)
        self.event("free_completed", size)

    def play(self, draw, steps):
        for _ in range(steps):
            choice = draw.random()
            if choice < 0.1:
                self.grow(draw.choice([2 << 20, 20 << 20, 64 << 20]),
                          draw.choice(["segment_alloc", "segment_map"]))
            elif choice < 0.13 and self.segments:
                size = self.segments.pop(draw.randrange(len(self.segments)))["total_size"]
                self.now["reserved"] -= size
                self.event(draw.choice(["segment_free", "segment_unmap"]), size)
            elif choice < 0.6 or not self.live:
                self.allocate(draw.randrange(1, 8 << 20))
            else:
                self.free(draw.choice(self.live))

    def peaks(self, kept):
        """Of the moments that the last events begin and end at."""
        moments = ([{"allocated": 0, "reserved": 0}] + self.moments)[-kept - 1:]
        return {key: max(m[key] for m in moments) for key in self.now}


def snapshot_of(allocators, kept):
    """What is allocated lies in the first segment: its sum alone counts."""
    segments = []
    for allocator in allocators:
        rows = [dict(s) for s in allocator.segments]
        if rows:
            rows[0]["allocated_size"] = allocator.now["allocated"]
        segments += rows
    return {"segments": segments, "allocator_settings": {"expandable_segments": False, "ratio": 0.5},
            "device_traces": [a.events[-kept:] if kept else [] for a in allocators],
            "external_annotations": [], "large": [10 ** 30, -10 ** 30, -5, None, True, "\u00e9"]}


def planned(*words):
    return subprocess.run([planner, *words], capture_output=True, text=True, timeout=HANGS,
                          stdin=subprocess.DEVNULL)


def read(data, protocol):
    with open("s.pickle", "wb") as file:
        pickle.dump(data, file, protocol)
    done = planned("compare", "plan.json", "--log", "s.pickle", "--json")
    if done.returncode != 0:
        sys.exit(f"a snapshot is refused: {done.stderr}")
    return json.loads(done.stdout)


def terms_of(answer):
    return {t["term"]: t["measured"] for t in answer["terms"]}


def refused(data, text):
    with open("bad.pickle", "wb") as file:
        file.write(data)
    done = planned("compare", "plan.json", "--log", "bad.pickle")
    if done.returncode != 2 or text not in done.stderr:
        sys.exit(f"exit {done.returncode}, not 2 with '{text}': {done.stderr}")


def snapshots_are_read():
    for seed in range(12):
        draw = random.Random(seed)
        gpus = [Allocator(i) for i in range(draw.randrange(1, 4))]
        for gpu in gpus:
            gpu.grow(256 << 20)
            gpu.play(draw, 400)
        if draw.random() < 0.3:
            gpus[0].event("oom", 3 << 30, device_free=1 << 20)
        kept = draw.choice([1, 50, 300, 10 ** 6])
        answer = read(snapshot_of(gpus, kept), 2 + seed % 4)
        most = max(gpus, key=lambda gpu: gpu.peaks(kept)["reserved"])
        expected = {f"memory.{'live' if key == 'allocated' else key}": value
                    for key, value in most.peaks(kept).items()}
        if terms_of(answer) != expected:
            sys.exit(f"seed {seed}: {terms_of(answer)}, not {expected}")
        log = answer["logs"][0]
        if log["steps"] != 0 or "step_median" in log or log["format"] != "torch.cuda.memory":
            sys.exit(f"a snapshot has no steps: {log}")
        ran_out = any("Memory ran out: 3.00 GiB" in note for note in log["notes"])
        if ran_out != any(e["action"] == "oom" for e in most.events[-kept:]):
            sys.exit(f"seed {seed}: memory ran out? {log['notes']}")


def a_moment_is_no_peak():
    gpu = Allocator(0)
    gpu.grow(256 << 20)
    gpu.allocate(100 << 20)
    answer = read(snapshot_of([gpu], 0), 4)
    if terms_of(answer) != {"memory.reserved": 256 << 20}:
        sys.exit(f"without a history only what is reserved is known: {answer['terms']}")
    page = planned("compare", "plan.json", "--log", "s.pickle").stdout
    for text in ("100 MiB were allocated", "_record_memory_history", "tells no times of steps"):
        if text not in " ".join(page.split()):
            sys.exit(f"not said: {text}\n{page}")
    done = planned("calibrate", "--plan", "plan.json", "--log", "s.pickle")
    if done.returncode != 2 or "memory alone" not in done.stderr:
        sys.exit(f"a site is learnt from no times: {done.stderr}")


def pickles_that_are_none():
    class Runs:
        def __reduce__(self):
            return os.system, ("touch PWNED",)

    gpu = Allocator(0)
    gpu.grow(2 << 20)
    gpu.allocate(5)
    good = snapshot_of([gpu], 10)
    whole = pickle.dumps(good, 4)
    refused(pickle.dumps(good | {"x": Runs()}, 4), "nothing was run")
    refused(pickle.dumps(good | {"x": Ran}, 4), "nothing was run")
    refused(pickle.dumps([1, 2], 4), "_dump_snapshot")
    refused(pickle.dumps({"segments": []}, 4), "reserved")
    negative = dict(good["segments"][0], total_size=-1)
    refused(pickle.dumps(good | {"segments": [negative]}, 4), "total_size")
    refused(pickle.dumps(good | {"segments": [3]}, 4), "total_size")
    for end in range(2, len(whole), 5):
        refused(whole[:end], "bad.pickle")
    # Values of nothing but one byte each, which take more room in memory than in the file.
    refused(b"\x80\x04" + b"]" * (4 << 20) + b".", "in memory")
    refused(b"\x80\x04]r\xff\xff\xff\xff.", "expected 0")
    if os.path.exists("PWNED"):
        sys.exit("a pickle was run")
    draw = random.Random(7)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            damaged[draw.randrange(2, len(damaged))] = draw.randrange(256)
        with open("bad.pickle", "wb") as file:
            file.write(damaged)
        done = planned("compare", "plan.json", "--log", "bad.pickle")
        if done.returncode not in (0, 2):
            sys.exit(f"exit {done.returncode}: {damaged.hex()}: {done.stderr}")


def write_large():
    gpu = Allocator(0)
    gpu.grow(256 << 20)
    gpu.play(random.Random(1), 200000)
    with open("large.pickle", "wb") as file:
        pickle.dump(snapshot_of([gpu], 10 ** 9), file, 4)


def memory_is_bounded():
    # A process counts the memory of the one that started it: this one must stay small.
    writer = multiprocessing.get_context("fork").Process(target=write_large)
    writer.start()
    writer.join()
    size = os.path.getsize("large.pickle")
    command = [planner, "compare", "plan.json", "--log", "large.pickle"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"a large snapshot is refused: {child.returncode}")
    own = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{size / 2 ** 20:.0f} MiB of events took {used.ru_maxrss / 2 ** 10:.0f} MiB, this test "
          f"{own / 2 ** 20:.0f}")
    if len(sys.argv) == 2 and 1024 * used.ru_maxrss > 8 * size + own:
        sys.exit("more than 8 times the file")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    subprocess.run([planner, "--model", "gpt2-1.5b", "--gpus", "8xh100", "--out", "plan.json", "--quiet"],
                   check=True, stdout=subprocess.DEVNULL, timeout=HANGS)
    a_moment_is_no_peak()
    snapshots_are_read()
    pickles_that_are_none()
    memory_is_bounded()
