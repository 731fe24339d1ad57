#!/usr/bin/env bash
# Ranks that are processes joined by TCP alone: the same bits and bytes as threads, however they are
# started, and one end with one reason when a rank is killed, stopped, missing or a stranger.
# usage: exec_tcp.sh BIN_FOLDER [KILLS]
set -euo pipefail
planner=$1/planner
rank_variable=RANK
kills=${2:-2}
source "$(dirname "${BASH_SOURCE[0]}")/processes.sh"
tcp() { "$planner" exec "$@" --communicator tcp --quiet; }

# ---- the same bits and bytes as threads ----------------------------------------------------------
as_threads tcp 2 data=2 sharding=zero3
as_threads tcp 4 data=2 pipeline=2 schedule=1f1b grad_sync=tree
as_threads tcp 4 data=2 tensor=2 sequence_parallel=true sharding=zero1
as_threads tcp 4 data=4 sharding=zero3 shard_group=2
as_threads tcp 3 data=2 grad_sync=parameter_server servers=1 servers_colocated=false
as_threads tcp 2 data=2 sharding=none grad_sync=naive_all_reduce
as_threads tcp 8 data=2 tensor=2 pipeline=2 schedule=gpipe sharding=zero2
plan plan.json 1 data=1
"$planner" exec plan.json --quiet --out threads.json >/dev/null
tcp plan.json --out processes.json >/dev/null
same_loss processes.json
plan plan.json 2 data=2 grad_sync=parameter_server servers=2 server_mode=async
tcp plan.json --steps 3 --out async.json >page.txt
grep -q "asynchronous pushes" page.txt || fail "no staleness is told"
as_predicted plan.json async.json "servers beside workers"

# Scaled down, every process runs the same small job, and it is that of threads.
"$planner" --model gpt2-1.5b --gpus 2 --gpu h100-sxm-80g --pin data=2 --top 0 --quiet \
  --out large.json >/dev/null
"$planner" exec large.json --scale-down --steps 1 --quiet --out small.json >/dev/null
tcp large.json --scale-down --steps 1 --out processes.json >/dev/null
same_loss processes.json small.json
grep -q '"scaled_from"' processes.json || fail "a run that was scaled down does not say so"

plan plan.json 2 data=2 sharding=zero1
"$planner" exec plan.json --quiet --out threads.json >/dev/null
"$planner" exec plan.json --communicator tcp --json --trace trace.json --progress \
  >launched.json 2>err.txt
same_loss launched.json
[[ $(grep -c '^planner: step ' err.txt) -eq 3 ]] || fail "no progress: $(cat err.txt)"
[[ $(grep -o '"name":"process_name"' trace.json | wc -l) -eq 2 ]] || fail "not two ranks in the trace"

# ---- started by others ---------------------------------------------------------------------------
run=("$planner" exec plan.json --communicator tcp --quiet --json)
next_port
for r in 1 0; do rank $r 2 "${run[@]}"; done
ended 0 0 ''
ended 1 0 ''
same_loss out.0
[[ ! -s out.1 ]] || fail "rank 1 wrote a record: $(head -c 200 out.1)"
# A machine that has no such file is told by rank 0 what to run.
next_port
rank 0 2 "${run[@]}"
rank 1 2 "$planner" exec elsewhere.json --communicator tcp
ended 0 0 ''
ended 1 0 ''
same_loss out.0
# srun's variables; a script under sbatch has some of them, and starts its ranks itself.
next_port
two_of_srun "${run[@]}"
ended 0 0 ''
ended 1 0 ''
same_loss out.0
SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_JOB_ID=7 "${run[@]}" >out.0
same_loss out.0
if command -v mpirun >/dev/null; then
  next_port
  two_of_mpirun "${run[@]}"
  same_loss out.0
fi

# ---- what cannot be --------------------------------------------------------------------------------
expect 2 "WORLD_SIZE: expected to be set" env RANK=0 "${run[@]}"
expect 2 "RANK: expected a rank below 2, found 2" env RANK=2 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "${run[@]}"
expect 2 "MASTER_ADDR: expected the machine of rank 0" env RANK=1 WORLD_SIZE=2 "${run[@]}"
expect 2 "PLANNER_SECRET: expected a secret" env RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.255.0.1 "${run[@]}"
expect 2 "local (ranks are threads), tcp or mpi" "$planner" exec plan.json --communicator pigeons
expect 2 "no-such-plan" tcp no-such-plan.json
expect 2 "no-such-file" tcp plan.json --data no-such-file
expect 2 "communicator mpi beside it" tcp plan.json --hostfile plan.json
next_port
for r in 0 1 2; do rank $r 3 "${run[@]}"; done
ended 0 2 "expected 2 processes, one for each rank of the plan, found 3; start as many"
ended 1 2 ''
ended 2 2 ''

# ---- ranks that do not meet ------------------------------------------------------------------------
next_port
export PLANNER_RENDEZVOUS_SECONDS=2
rank 0 3 "${run[@]}"
rank 1 3 "${run[@]}"
ended 0 3 "rank 2 of 3 did not come to 127.0.0.1 port $port within 2 s"
ended 1 3 ''
next_port
rank 1 2 "${run[@]}"
rank 0 2 true
ended 1 3 "rank 1: expected rank 0 at 127.0.0.1 port $port, found none within 2 s"
unset PLANNER_RENDEZVOUS_SECONDS
next_port
rank 0 2 env PLANNER_SECRET=one "${run[@]}"
rank 1 2 env PLANNER_SECRET=two "${run[@]}"
ended 1 3 "expected the PLANNER_SECRET of rank 0, found another"
ended 0 3 "rank 1: expected the PLANNER_SECRET of rank 0, found another"
next_port
plan other.json 2 data=2 sharding=zero2
mkdir -p elsewhere
cp other.json elsewhere/plan.json
rank 0 2 "${run[@]}"
rank 1 2 bash -c 'cd elsewhere && exec "$0" "$@"' "${run[@]}"
ended 1 3 ''
ended 0 3 "rank 1: the plan's file: expected .*, as rank 0 has, found .*; copy one plan"
# Two runs on one port: while the first waits, and while it runs.
next_port
rank 0 2 "${run[@]}" --steps 100000 --checkpoint-dir first
eventually "rank 0 to listen" taken
rank 3 2 env RANK=0 "${run[@]}"
ended 3 3 "MASTER_PORT: expected a free port, found $port in use.*export MASTER_PORT="
rank 1 2 "${run[@]}"
begun "${pids[0]}" kept_since first ''
rank 2 3 env LOCAL_RANK=0 "${run[@]}"
ended 2 3 "MASTER_PORT: expected a rank 0 that waits at .* found another run that has begun"

# ---- a rank that is told to stop, or killed, where nobody follows them ----------------------------
kill -TERM "${pids[1]}"
ended 1 143 ''
ended 0 3 "rank 1: was told to stop by signal 15 (Terminated)"
[[ -z $(find first -name '.step-*') ]] || fail "a half-written step is left: $(ls -a first)"
no_orphans "told to stop"
# Rank 0 says why, and where it is lost itself the lowest rank that is left.
plan three.json 3 data=2 grad_sync=parameter_server servers=1 servers_colocated=false
three=("$planner" exec three.json --communicator tcp --quiet --steps 100000 --checkpoint-dir)
for victim in 1 0; do
  next_port
  for r in 0 1 2; do rank $r 3 "${three[@]}" "killed-$victim"; done
  begun "${pids[0]}" kept_since "killed-$victim" ''
  kill -9 "${pids[victim]}"
  code_of $victim
  ended $((1 - victim)) 3 "rank $victim: ended without a word; it was killed, or its machine failed"
  ended 2 3 ''
done
next_port
for r in 0 1 2; do rank $r 3 "${three[@]}" stopped; done
begun "${pids[0]}" kept_since stopped ''
kill -STOP "${pids[2]}"
ended 0 3 "rank 2: was not heard from for 5 s: it is stopped"
ended 1 3 ''
kill -CONT "${pids[2]}"
ended 2 3 ''
no_orphans "killed and stopped, where nobody follows"

# ---- a rank that is killed or stopped, where planner follows them ---------------------------------
RANDOM=${SEED:-7}
for ((kill_number = 0; kill_number < kills; ++kill_number)); do
  before=$(kept parts)
  begin_run tcp --steps 100000 --checkpoint-dir parts  # more than it comes to
  begun $pid rank_runs 1
  begun $pid kept_since parts "$before"
  sleep "0.$((RANDOM % 60 + 10))"  # at any moment of a step
  victim=$((kill_number % 2))
  kill -9 "$(rank_pid $victim)" || fail "rank $victim was not there to kill: $(cat err.txt)"
  code=0
  wait $pid || code=$?
  [[ $code -eq 3 ]] || fail "exit $code after rank $victim was killed"
  [[ $(cat err.txt) == "planner: rank $victim: expected to run to its end, found ended by signal 9"* &&
    $(wc -l <err.txt) -eq 1 ]] || fail "said of a killed rank: $(cat err.txt)"
  no_orphans "rank $victim killed"
done
for victim in 0 1; do
  before=$(kept parts)
  begin_run tcp --steps 100000 --checkpoint-dir parts
  begun $pid rank_runs 1
  begun $pid kept_since parts "$before"
  kill -STOP "$(rank_pid $victim)"
  code=0
  wait $pid || code=$?
  [[ $code -eq 3 ]] || fail "exit $code after rank $victim was stopped"
  [[ $(cat err.txt) == "planner: rank $victim: was not heard from for 5 s: it is stopped"* &&
    $(wc -l <err.txt) -eq 1 ]] || fail "said of a stopped rank: $(cat err.txt)"
  no_orphans "rank $victim stopped"
done
# What was kept goes on to the bits of a run that nobody disturbed.
reached=$(kept parts | sed 's/.*step-0*//')
steps=$((10#$reached + 20))
last=$(printf 'step-%08d' $steps)
tcp plan.json --steps $steps --checkpoint-dir parts >/dev/null
"$planner" exec plan.json --quiet --steps $steps --checkpoint-dir whole --checkpoint-every $steps \
  >/dev/null
for r in 0 1; do
  cmp "whole/$last/rank-000$r" "parts/$last/rank-000$r" || fail "rank $r: other bits"
done
[[ -z $(find parts -name '.step-*') ]] || fail "a half-written step is left: $(ls -a parts)"

# A disk that is full: one cause, told once.
all_full() (
  ulimit -f 8
  tcp plan.json --checkpoint-dir full
)
expect 3 "full/.step-00000001.partial/rank-000.*too large.*free some space" all_full
[[ -z $(find full -name '*step-*') ]] || fail "half a step on a full disk"

for signal in INT TERM; do
  begin_run tcp --steps 100000 --checkpoint-dir "on-$signal" --out on.json
  begun $pid kept_since "on-$signal" ''
  kill -$signal $pid
  code=0
  wait $pid || code=$?
  if [[ $signal == INT ]]; then wanted=130; else wanted=143; fi
  [[ $code -eq $wanted ]] || fail "exit $code after $signal: $(cat err.txt)"
  [[ $(cat err.txt) == "planner: interrupted" ]] || fail "said after $signal: $(cat err.txt)"
  [[ ! -e on.json && -z $(find "on-$signal" -name '.step-*') ]] || fail "half a file after $signal"
  no_orphans "interrupted by $signal"
done
begin_run tcp --steps 100000
begun $pid rank_runs 1
kill -9 $pid
wait $pid 2>/dev/null || true
no_orphans "planner killed"
printf 'processes over TCP: same bits and bytes; killed %s times, stopped 4 (last at step %s)\n' \
  "$kills" "$reached"
