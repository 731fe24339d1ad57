#!/usr/bin/env bash
# --communicator nccl as launchers start it: torchrun's, srun's and mpirun's variables, and two
# network namespaces as two nodes. And what can go wrong there: a slow rank, two jobs on one port, a
# full disk, a cut cable. GPUs are played on the host, and NCCL is a fake.
# usage: nccl_launchers.sh BIN_FOLDER BINARY FAKE_NCCL
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/played_gpus.sh"
plan plan.json 2 data=2 sharding=zero1
run=("$planner" exec plan.json --backend cuda --communicator nccl --nccl "$work/libnccl.so.2" --quiet --json)
"${run[@]}" >threads.json  # planner starts the ranks

# ---- launchers --------------------------------------------------------------------------------------
next_port
for r in 1 0; do rank $r 2 "${run[@]}"; done
ended 0 0 ''
ended 1 0 ''
same_loss out.0
next_port
two_of_srun "${run[@]}"
ended 0 0 ''
ended 1 0 ''
same_loss out.0
if command -v mpirun >/dev/null; then
  next_port
  two_of_mpirun "${run[@]}"
  same_loss out.0
fi

# ---- a slow rank: told, and not ended before the deadline ----------------------------------------------
next_port
export PLANNER_FAKE_NCCL='rank=1 hold=3'
for r in 1 0; do rank $r 2 "${run[@]}" --deadline 30; done
slow='rank 0: a step has taken half of its deadline of 30.0 s; not over: nccl.* (group 0,1, channel '
begun "${pids[0]}" grep -q "$slow" err.0
: >released
ended 0 0 "$slow"
ended 1 0 ''
same_loss out.0
rm released
for r in 1 0; do rank $r 2 "${run[@]}" --deadline 1; done
for r in 0 1; do
  code_of $r
  [[ $code -eq 3 ]] || fail "a step beyond its deadline: exit $code: $(cat err.*)"
done
cat err.0 err.1 | grep -v 'half of its deadline' >said.txt
[[ $(wc -l <said.txt) -eq 1 ]] && grep -q 'rank [01]: a step took longer than 1.00 s; not over: nccl' said.txt ||
  fail "said beyond the deadline: $(cat said.txt)"
unset PLANNER_FAKE_NCCL

# ---- two jobs on one port -------------------------------------------------------------------------------
next_port
rank 0 2 "${run[@]}" --steps 100000 --checkpoint-dir first
eventually "rank 0 to listen" taken
rank 3 2 env RANK=0 "${run[@]}"
ended 3 3 "MASTER_PORT: expected a free port, found $port in use.*export MASTER_PORT="
rank 1 2 "${run[@]}"
begun "${pids[0]}" kept_since first ''
rank 2 2 env RANK=1 LOCAL_RANK=0 "${run[@]}"
ended 2 3 "MASTER_PORT: expected a rank 0 that waits at .* found another run that has begun"
kill -TERM "${pids[1]}"
ended 1 143 ''
ended 0 3 "rank 1: was told to stop by signal 15 (Terminated)"
no_orphans "two jobs on one port"

# ---- a full disk: one cause, told once --------------------------------------------------------------------
# The fake's messages are smaller than that, a rank's part of a checkpoint is not.
full() (
  ulimit -f 128
  "${run[@]}" --checkpoint-dir full
)
expect 3 "full/.step-00000001.partial/rank-000.*too large.*free some space" full
[[ -z $(find full -name '*step-*') ]] || fail "half a step on a full disk"

# ---- two nodes: network namespaces joined by one cable -----------------------------------------------------
if ! lay_cable "nccl$$" 10.80.0; then
  printf 'launchers over NCCL on twins; two nodes skipped: %s\n' "$(cat refused.txt)"
  exit 0
fi
start() {
  on_nodes 10.80.0 "$planner" exec four.json --backend cuda --communicator nccl \
    --nccl "$work/libnccl.so.2" --quiet "$@"
}
plan four.json 4 data=2 pipeline=2 schedule=1f1b
"$planner" exec four.json --backend cuda --quiet --json >threads.json
start --json
for r in 0 1 2 3; do ended $r 0 ''; done
same_loss out.0
start --steps 1000000 --checkpoint-dir cut
begun "${pids[0]}" kept_since cut ''
cut_cable
ended_by_silence
printf 'launchers over NCCL on twins: torchrun, srun, mpirun, two nodes; one end for every failure\n'
