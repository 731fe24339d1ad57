#!/usr/bin/env python3
"""Compiles CUDA as it is told, and fails where a kernel takes more registers or stack than a table allows,
where it lacks accesses of 16 bytes that the table asks for, or where code of the host calls a function of the
device: nvcc allows that in templates, and ends the process.

usage: ptxas_bounds.py TABLE COMMAND...     a compiler launcher: COMMAND is nvcc with what it is given

A line of TABLE: FILE:KERNEL REGISTERS STACK [WIDE], both patterns as a shell's; of those that hold, the last
one counts. Spills are allowed nowhere. Registers count for sm_90, stack and spills for every architecture.
WIDE is loads, stores or both: each instance of the kernel has such accesses of 16 bytes of global memory in
its PTX.
"""
import fnmatch
import glob
import os
import re
import subprocess
import sys
import tempfile

WIDE = {"loads": ("ld",), "stores": ("st",), "both": ("ld", "st"), "": ()}


def bounds_of(table):
    rows = [line.split("#")[0].split() for line in open(table)]
    return [(row[0], int(row[1]), int(row[2]), WIDE[row[3] if len(row) > 3 else ""]) for row in rows if row]


def row_of(kernel, bounds):
    return next((b for b in reversed(bounds) if fnmatch.fnmatch(kernel, b[0])), None)


def plain_names(mangled):
    """Without arguments, namespaces and types that they are templates of."""
    done = subprocess.run(["c++filt", "-p"], input="\n".join(mangled), stdout=subprocess.PIPE, text=True, check=True)
    names = {}
    for name, text in zip(mangled, done.stdout.splitlines()):
        while re.search(r"<[^<>]*>", text):
            text = re.sub(r"<[^<>]*>", "", text)
        names[name] = text.split("::")[-1].split()[-1]
    return names


def kernels_of(said):
    """(mangled name, architecture, registers, stack, spills) of what ptxas said of each."""
    name = architecture = None
    stack = spills = 0
    for line in said.splitlines():
        if found := re.search(r"Compiling entry function '(.+)' for '(sm_\w+)'", line):
            name, architecture = found.groups()
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack, spills = int(found[1]), int(found[2]) + int(found[3])
        elif (found := re.search(r"Used (\d+) registers", line)) and name:
            yield name, architecture, int(found[1]), stack, spills
            name = None


def problems_of(said, source, bounds):
    kernels = list(kernels_of(said))
    names = plain_names([k[0] for k in kernels])
    for mangled, architecture, registers, stack, spills in kernels:
        kernel = f"{source}:{names[mangled]}"
        row = row_of(kernel, bounds)
        if row is None:
            yield f"{kernel} has no line in the table"
            continue
        if architecture.startswith("sm_90") and registers > row[1]:
            yield f"{kernel} takes {registers} registers, at most {row[1]} are allowed ({mangled})"
        if stack > row[2]:
            yield f"{kernel} has a stack of {stack} bytes on {architecture}, at most {row[2]} are allowed ({mangled})"
        if spills > 0:
            yield f"{kernel} spills {spills} bytes on {architecture} ({mangled})"


def is_wide(access, body):
    found = re.findall(access + r"\.global\S*?\.v(\d)\.[bfsu](\d+)\b", body)
    return any(int(count) * int(bits) >= 128 for count, bits in found)


def narrow_problems(ptx, source, bounds):
    """Kernels whose accesses are not as wide as the table says."""
    bodies = dict(re.findall(r"\.entry (\w+)\((.*?)\n}", ptx, re.DOTALL))
    names = plain_names(list(bodies))
    for mangled, body in bodies.items():
        kernel = f"{source}:{names[mangled]}"
        row = row_of(kernel, bounds)
        for access in row[3] if row else ():
            if not is_wide(access, body):
                yield f"{kernel} has no {access}.global of 16 bytes ({mangled})"


def calls_device(result):
    """What nvcc puts in the place of such a function calls exit(), which no kernel source does."""
    done = subprocess.run(["nm", "-u", result], stdout=subprocess.PIPE, text=True, check=True)
    return "exit" in done.stdout.split()


def main(table, *command):
    sources = [os.path.basename(word) for word in command if word.endswith(".cu")]
    if len(sources) != 1 or "-c" not in command:
        return subprocess.run(command).returncode
    with tempfile.TemporaryDirectory() as kept:
        done = subprocess.run([*command, "-Xptxas", "-v", "--keep", "--keep-dir", kept], stderr=subprocess.PIPE, text=True)
        ptx = "".join(open(file).read() for file in sorted(glob.glob(f"{kept}/*.ptx")))
    told = [line for line in done.stderr.splitlines() if "ptxas info" not in line and "bytes stack frame" not in line]
    if told:
        print("\n".join(told), file=sys.stderr)
    if done.returncode != 0:
        return done.returncode
    result = command[command.index("-o") + 1]
    bounds = bounds_of(table)
    problems = [f"{table}: {problem}" for problem in problems_of(done.stderr, sources[0], bounds)]
    if ".entry" not in ptx and any(kernels_of(done.stderr)):
        problems.append(f"{sources[0]}: the compiler kept no PTX")
    problems += [f"{table}: {problem}" for problem in narrow_problems(ptx, sources[0], bounds)]
    if calls_device(result):
        problems.append(f"{sources[0]}: code of the host calls a function of the device; PLANNER_EVERYWHERE makes one of both")
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        os.remove(result)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
