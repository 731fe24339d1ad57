#!/usr/bin/env bash
# --communicator nccl as launchers start it: torchrun's, srun's and mpirun's variables, and two
# network namespaces as two nodes. And what can go wrong there: a slow rank, two jobs on one port, a
# full disk, a cut cable. GPUs are played on the host, and NCCL is a fake.
# usage: nccl_launchers.sh BIN_FOLDER BINARY FAKE_NCCL
set -euo pipefail
planner=./planner
rank_variable=RANK
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/processes.sh"
cp "$1/planner" "$1/planner-exec" "$2" .
cp "$3" libnccl.so.2
cp "$1/libplanner-nccl.so" .
export TMPDIR=$work  # where the fake's ranks meet
for variable in RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT PLANNER_SECRET \
  PLANNER_PORT SLURM_PROCID OMPI_COMM_WORLD_RANK TORCHELASTIC_USE_AGENT_STORE; do
  unset $variable
done
plan plan.json 2 data=2 sharding=zero1
run=("$planner" exec plan.json --backend cuda --communicator nccl --nccl "$work/libnccl.so.2" --quiet --json)
"${run[@]}" >threads.json  # planner starts the ranks

port=$((30000 + $$ % 10000))
taken() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
next_port() {
  port=$((port + 1))
  while taken; do port=$((port + 1)); done
}
# rank N COMMAND...: one rank in the background, as torchrun's environment has it.
pids=()
rank() {
  RANK=$1 WORLD_SIZE=2 LOCAL_RANK=$1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    "${@:2}" >"out.$1" 2>"err.$1" &
  pids[$1]=$!
}
# ended N CODE PATTERN: rank N's exit code and the one line it said, or none.
ended() {
  local code=0
  { wait "${pids[$1]}" || code=$?; } 2>/dev/null
  [[ $code -eq $2 ]] || fail "rank $1: exit $code instead of $2: $(cat err.*)"
  if [[ -z $3 ]]; then
    [[ ! -s err.$1 ]] || fail "rank $1 said: $(cat "err.$1")"
  else
    grep -q -- "$3" "err.$1" || fail "rank $1: no \"$3\" in: $(cat err.*)"
    [[ $(wc -l <"err.$1") -eq 1 ]] || fail "rank $1: more than one line: $(cat "err.$1")"
  fi
}

# ---- launchers --------------------------------------------------------------------------------------
next_port
for r in 1 0; do rank $r "${run[@]}"; done
ended 0 0 ''
ended 1 0 ''
same_loss out.0
next_port
for r in 0 1; do
  SLURM_PROCID=$r SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=$r SLURM_JOB_ID=7 PLANNER_PORT=$port \
    SLURM_STEP_NODELIST=localhost "${run[@]}" >"out.$r" 2>"err.$r" &
  pids[r]=$!
done
ended 0 0 ''
ended 1 0 ''
same_loss out.0
if command -v mpirun >/dev/null; then
  next_port
  code=0
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HWLOC_COMPONENTS=-gl \
    mpirun --oversubscribe -n 2 env MASTER_PORT=$port "${run[@]}" >out.0 2>err.txt || code=$?
  [[ $code -eq 0 ]] || fail "under mpirun: exit $code: $(cat err.txt)"
  same_loss out.0
fi

# ---- a slow rank: told, and not ended before the deadline ----------------------------------------------
next_port
export PLANNER_FAKE_NCCL='rank=1 hold=3'
for r in 1 0; do rank $r "${run[@]}" --deadline 30; done
slow='rank 0: a step has taken half of its deadline of 30.0 s; not over: nccl.* (group 0,1, channel '
begun "${pids[0]}" grep -q "$slow" err.0
: >released
ended 0 0 "$slow"
ended 1 0 ''
same_loss out.0
rm released
for r in 1 0; do rank $r "${run[@]}" --deadline 1; done
for r in 0 1; do
  code=0
  { wait "${pids[r]}" || code=$?; } 2>/dev/null
  [[ $code -eq 3 ]] || fail "a step beyond its deadline: exit $code: $(cat err.*)"
done
cat err.0 err.1 | grep -v 'half of its deadline' >said.txt
[[ $(wc -l <said.txt) -eq 1 ]] && grep -q 'rank [01]: a step took longer than 1.00 s; not over: nccl' said.txt ||
  fail "said beyond the deadline: $(cat said.txt)"
unset PLANNER_FAKE_NCCL

# ---- two jobs on one port -------------------------------------------------------------------------------
next_port
rank 0 "${run[@]}" --steps 100000 --checkpoint-dir first
eventually "rank 0 to listen" taken
rank 3 env RANK=0 "${run[@]}"
ended 3 3 "MASTER_PORT: expected a free port, found $port in use.*export MASTER_PORT="
rank 1 "${run[@]}"
begun "${pids[0]}" kept_since first ''
rank 2 env RANK=1 LOCAL_RANK=0 "${run[@]}"
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
node=nccl$$
if ! command -v ip >/dev/null || ! ip netns add "${node}a" 2>refused.txt; then
  printf 'launchers over NCCL on twins; two nodes skipped: no network namespaces\n'
  exit 0
fi
trap 'end_all; ip netns del "${node}a"; ip netns del "${node}b"' EXIT
ip netns add "${node}b"
ip link add "${node}x" netns "${node}a" type veth peer name "${node}y" netns "${node}b"
ip -n "${node}a" addr add 10.80.0.1/24 dev "${node}x"
ip -n "${node}b" addr add 10.80.0.2/24 dev "${node}y"
for end in "${node}a ${node}x" "${node}b ${node}y"; do
  ip -n "${end% *}" link set lo up
  ip -n "${end% *}" link set "${end#* }" up
done
# on_nodes OPTION...: four ranks, two on each node.
on_nodes() {
  local r side
  for r in 3 1 2 0; do
    if [[ $r -lt 2 ]]; then side=a; else side=b; fi
    RANK=$r WORLD_SIZE=4 LOCAL_RANK=$((r % 2)) LOCAL_WORLD_SIZE=2 MASTER_ADDR=10.80.0.1 \
      MASTER_PORT=4711 PLANNER_SECRET=shared ip netns exec "$node$side" "$planner" exec four.json \
      --backend cuda --communicator nccl --nccl "$work/libnccl.so.2" --quiet "$@" \
      >"out.$r" 2>"err.$r" &
    pids[r]=$!
  done
}
plan four.json 4 data=2 pipeline=2 schedule=1f1b
"$planner" exec four.json --backend cuda --quiet --json >threads.json
on_nodes --json
for r in 0 1 2 3; do ended $r 0 ''; done
same_loss out.0
on_nodes --steps 1000000 --checkpoint-dir cut
begun "${pids[0]}" kept_since cut ''
ip -n "${node}a" link set "${node}x" down
ended 0 3 "rank [23]: was not heard from for 5 s: it is stopped, or its machine or the network is gone"
ended 1 3 ''
ended 2 3 "rank 0: was not heard from for 5 s"
ended 3 3 ''
no_orphans "the cable is cut"
printf 'launchers over NCCL on twins: torchrun, srun, mpirun, two nodes; one end for every failure\n'
