"""Ranks in network namespaces of their own: the kernel counts what each sends, and carries what our
counters say and no more than frames around it.

usage: exec_namespaces.py BIN_FOLDER; skipped (77) where the kernel or MPI does not let us."""

import json
import pathlib
import shutil
import sys
import tempfile
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
from common import run  # noqa: E402
from namespaces import MTU, Namespaces, SUBNET  # noqa: E402
from paced_crossings import WAYS, planned  # noqa: E402

RANKS, STEPS, WIDTH = 4, 2, 640
MOST_AROUND = 1.02  # headers are 1.007 of an MTU; acknowledgements, frames and talk of MPI


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def read(network, rank, path):
    return run(["ip", "netns", "exec", f"{network.name}r{rank}", "cat", path])


def sent_by_port(network, rank):
    return int(read(network, rank, f"/sys/class/net/e{rank}/statistics/tx_bytes"))


def sent_again(network, rank):
    """Segments that TCP took for lost and sent a second time, as it does on a busy machine."""
    names, values = [line.split() for line in read(network, rank, "/proc/net/snmp").splitlines()
                     if line.startswith("Tcp:")]
    return int(dict(zip(names, values))["RetransSegs"])


def main():
    planner = (pathlib.Path(sys.argv[1]) / "planner").resolve()
    for needed in ("ip", "tc", "mpirun"):
        if not shutil.which(needed):
            skip(f"no {needed} (install iproute2, openmpi-bin)")
    if not (planner.parent / "planner-exec-mpi").exists():
        skip("no planner-exec-mpi (install libopenmpi-dev)")
    options = types.SimpleNamespace(ranks=RANKS, slower=1)
    with tempfile.TemporaryDirectory() as name:
        try:
            network = Namespaces(RANKS, bandwidth=200e6, latency=0)
            with network:
                for way, pins in WAYS.items():
                    check(planner, pathlib.Path(name), options, network, way, pins)
        except PermissionError as refused:
            skip(f"expected to be allowed network namespaces, found {refused}")
    print(f"{len(WAYS)} ways of adding gradients on {SUBNET}.0/24: the kernel counted what we did")


def check(planner, folder, options, network, way, pins):
    plan, threads, record = planned(planner, folder, options, WIDTH, pins), folder / "a", folder / "b"
    words = [planner, "exec", plan, "--steps", STEPS, "--quiet"]
    before = [sent_by_port(network, rank) for rank in range(RANKS)]
    again_before = [sent_again(network, rank) for rank in range(RANKS)]
    run([*words, "--out", threads], timeout=120)
    run(network.launch([*words, "--communicator", "mpi", "--out", record]), timeout=120)
    found = json.loads(record.read_text())
    if found["loss"] != json.loads(threads.read_text())["loss"]:
        sys.exit(f"{way}: other losses than threads")
    for rank in range(RANKS):
        ours = sum(int(s["wire_bytes"]) for s in found["sent"] if s["from"] == rank)
        kernel = sent_by_port(network, rank) - before[rank]
        again = sent_again(network, rank) - again_before[rank]
        if not ours < kernel <= MOST_AROUND * (ours + again * MTU):
            sys.exit(f"{way}: rank {rank} counted {ours} bytes, its port {kernel}; "
                     f"{again} segments were sent again")


if __name__ == "__main__":
    main()
