#!/usr/bin/env bash
# What a machine lacks is said with what to do, in the same words as exec refuses. usage:
# doctor.sh BIN_FOLDER
set -uo pipefail
bin=$1
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

answers 0 '' "$bin/planner" doctor --for host
for line in processor memory disk GPUs driver MPI 'runs     exec --backend host, --communicator local'; do
  if ! grep -q "^ *$line" out.txt; then complain "no word of $line"; fi
done
answers 0 '' "$bin/planner" doctor --for host --json --out doctor.json
if ! cmp -s out.txt doctor.json; then complain '--json and --out differ'; fi
if ! grep -q '"schema": "doctor/1"' out.txt; then complain 'no schema'; fi
if command -v python3 >/dev/null && ! python3 -c '
import json
d = json.load(open("doctor.json"))
assert d["cores"] >= 1 and d["memory_bytes"] > 0 and d["disk"]["free_bytes"] > 0, d
assert [w["name"] for w in d["ways"]] == ["host", "tcp", "mpi", "cuda", "nccl"], d
assert all(w["runs"] == (not w["missing"]) for w in d["ways"]), d
'; then
  complain 'its JSON'
fi

# Nothing in PATH, nothing beside planner: each way says what it lacks.
mkdir alone
cp "$bin/planner" alone/
no_path() { PATH=/nowhere "$@"; }
answers 1 'planner-exec: expected the binary that runs plans, found none; ./dev build' \
  alone/planner doctor
answers 1 'mpirun: expected a launcher of MPI in PATH, found none; install openmpi-bin' \
  no_path alone/planner doctor --for mpi
grep 'mpi' err.txt >doctor.txt
"$bin/planner" --model gpt2-124m --gpus 2 --gpu h100-sxm-80g --global-batch 2 --seq 16 \
  --pin data=2 --out plan.json >plan.txt 2>&1
answers 3 'mpirun: expected a launcher of MPI in PATH' \
  no_path alone/planner exec plan.json --communicator mpi
if ! cmp -s doctor.txt err.txt; then complain "exec says otherwise: $(cat doctor.txt err.txt)"; fi
# A binary whose library is gone.
printf '#!/bin/sh\necho "planner-exec: error while loading shared libraries: libx.so: none" >&2\nexit 127\n' \
  >alone/planner-exec
chmod +x alone/planner-exec
answers 1 'a binary that starts, found error while loading shared libraries: libx.so' \
  alone/planner doctor

answers 1 'expected a folder to write checkpoints to' \
  "$bin/planner" doctor --for host --checkpoint-dir /no/such
answers 2 'host, tcp, mpi, cuda or nccl' "$bin/planner" doctor --for dishes
answers 0 '' "$bin/planner" doctor --for tcp
# What holds whatever this machine has.
"$bin/planner" doctor --for nccl >out.txt 2>err.txt
if ! tr -s '\n ' ' ' <out.txt | grep -q 'no machine of several GPUs ran'; then complain "not said of nccl: $(cat out.txt)"; fi
if ! grep -q '^ *NCCL ' out.txt; then complain 'no word of NCCL'; fi
# How GPUs are joined, by NVML; a fake of it says so.
fake_nvml=$bin/../tests/fake_nvml
if [[ -e $fake_nvml/libnvidia-ml.so.1 ]]; then
  LD_LIBRARY_PATH=$fake_nvml PLANNER_FAKE_NVML=gpus=2 "$bin/planner" doctor --for tcp --json >out.txt 2>err.txt
  grep -q '"topology": "2 GPUs; 18 NVLinks of version 4, 478 GB/s, to switches; PCIe 5 x16;' out.txt ||
    complain "links: $(grep topology out.txt)"
fi
answers 2 'dctor.*did you mean doctor' "$bin/planner" dctor
if ! compgen -G '/sys/module/nvidia' >/dev/null; then
  answers 1 'planner-exec-cuda|an NVIDIA GPU' "$bin/planner" doctor --for cuda
fi

# Without /proc, as in a bare chroot, the kernel says how much memory there is.
if unshare --mount umount -l /proc 2>/dev/null; then
  answers 0 '' unshare --mount bash -c 'umount -l /proc && "$1" gpus' bash "$bin/planner"
fi

if [[ $failures -gt 0 ]]; then exit 1; fi
printf 'doctor: says what is here and what is not\n'
