"""A network of the kernel's own: one namespace for each rank, whose port is a rate-limited device.

The independent check of paced links: the kernel's token buckets (tbf) hold each rank's port to a
bandwidth in either direction, TCP shares it, and a relay of ours, which only waits, makes the wire
long. Nothing of planner's emulation takes part: its ranks are processes under OpenMPI.

    rank i: e0 (tbf: what it sends) - relay, one latency - wi (tbf: what it receives) - bridge

`namespaces.py --relay RANKS LATENCY_S` is that relay."""

import contextlib
import fcntl
import heapq
import os
import select
import struct
import subprocess
import sys
import tempfile
import time

MTU = 9000             # bytes of a packet: small beside a message, few enough for the relay
FRAME = MTU + 14       # what the bucket counts of it: Ethernet's header too
PAYLOAD = MTU - 52     # what it carries: less the headers of IPv4 and of TCP with timestamps
SUBNET = "10.77.0"
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


def relay(ranks, latency):
    """Hands packets across, those of a rank to the bridge after `latency` seconds."""
    def tap(name):
        handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(handle, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
        return handle

    other, wait = {}, {}
    for rank in range(ranks):
        inside, outside = tap(f"e{rank}"), tap(f"w{rank}")
        other |= {inside: outside, outside: inside}
        wait |= {inside: latency, outside: 0}
    poll = select.epoll()
    for handle in other:
        poll.register(handle, select.EPOLLIN)
    print("ready", flush=True)
    waiting, given = [], 0
    while True:
        until = waiting[0][0] - time.monotonic() if waiting else -1
        for handle, _ in poll.poll(max(until, 0) if waiting else -1):
            while True:
                try:
                    packet = os.read(handle, FRAME)
                except BlockingIOError:
                    break
                except OSError:  # its namespace is gone, and with it the network
                    return
                given += 1
                heapq.heappush(waiting, (time.monotonic() + wait[handle], given, other[handle],
                                         packet))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, handle, packet = heapq.heappop(waiting)
            with contextlib.suppress(OSError):  # a device that is not up yet
                os.write(handle, packet)


def sh(*words):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if done.returncode != 0:
        raise PermissionError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


class Namespaces:
    """`with Namespaces(ranks, bytes_per_second, latency_s) as n:` and `n.launch(words)` runs words
    on each rank. PermissionError, with the command that was refused, where this cannot be."""

    def __init__(self, ranks, bandwidth, latency):
        self.ranks, self.bandwidth, self.latency = ranks, bandwidth, latency
        self.name = f"planner{os.getpid()}"

    def __enter__(self):
        self.undo = contextlib.ExitStack()
        try:
            self.build()
        except BaseException:
            self.undo.close()
            raise
        return self

    def __exit__(self, *_):
        self.undo.close()

    def namespace(self, name):
        sh("ip", "netns", "add", name)
        self.undo.callback(sh, "ip", "netns", "del", name)
        sh("ip", "-n", name, "link", "set", "lo", "up")

    def port(self, space, device):
        rate = round(8 * self.bandwidth * FRAME / PAYLOAD)
        sh("ip", "-n", space, "link", "set", device, "mtu", MTU, "up")
        sh("ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", device, "root", "tbf",
           "rate", f"{rate}bit", "burst", 2 * FRAME, "limit", "64m")

    def build(self):
        hub = self.name
        self.namespace(hub)
        sh("ip", "-n", hub, "link", "add", "hub", "type", "bridge")
        sh("ip", "-n", hub, "link", "set", "hub", "mtu", MTU, "up")
        sh("ip", "-n", hub, "addr", "add", f"{SUBNET}.254/24", "dev", "hub")
        wire = subprocess.Popen(["ip", "netns", "exec", hub, sys.executable, __file__, "--relay",
                                 str(self.ranks), str(self.latency)], stdout=subprocess.PIPE,
                                text=True)
        self.undo.callback(wire.wait)
        self.undo.callback(wire.kill)
        if wire.stdout.readline() != "ready\n":
            raise PermissionError("/dev/net/tun: no device of it can be had")
        for rank in range(self.ranks):
            space = f"{hub}r{rank}"
            self.namespace(space)
            sh("ip", "-n", hub, "link", "set", f"e{rank}", "netns", space)
            sh("ip", "-n", space, "addr", "add", f"{SUBNET}.{rank + 1}/24", "dev", f"e{rank}")
            # A connection keeps its window while the ranks compute, as a trainer's hosts are tuned.
            sh("ip", "netns", "exec", space, "sh", "-c",
               "echo 0 > /proc/sys/net/ipv4/tcp_slow_start_after_idle")
            self.port(space, f"e{rank}")
            self.port(hub, f"w{rank}")
            sh("ip", "-n", hub, "link", "set", f"w{rank}", "master", "hub")
        self.folder = self.undo.enter_context(tempfile.TemporaryDirectory())
        # What mpirun calls in ssh's place: each rank is a host of its own name.
        with open(f"{self.folder}/agent", "w", encoding="utf-8") as agent:
            agent.write(f'#!/bin/sh\nrank=$((${{1##*.}} - 1))\nshift\n'
                        f'exec ip netns exec {hub}r$rank unshare --uts '
                        'sh -c "hostname rank$rank; $*"\n')
        os.chmod(f"{self.folder}/agent", 0o755)

    def launch(self, words):
        """The words of a command that starts `words` once on each rank."""
        hosts = ",".join(f"{SUBNET}.{rank + 1}" for rank in range(self.ranks))
        settings = {"plm_rsh_agent": f"{self.folder}/agent",
                    "oob_tcp_if_include": f"{SUBNET}.0/24", "btl_tcp_if_include": f"{SUBNET}.0/24",
                    "pml": "ob1", "btl": "tcp,self",
                    # Messages go at once, as ours do: no word back before their bytes.
                    "btl_tcp_eager_limit": 64 << 20, "btl_tcp_max_send_size": 64 << 20}
        found = ["ip", "netns", "exec", self.name, "env", "OMPI_ALLOW_RUN_AS_ROOT=1",
                 "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun", "--host", hosts, "-n", self.ranks]
        for name, value in settings.items():
            found += ["--mca", name, value]
        return [*found, *words]


if __name__ == "__main__":
    relay(int(sys.argv[2]), float(sys.argv[3]))
