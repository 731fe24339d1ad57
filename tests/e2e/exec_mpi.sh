#!/usr/bin/env bash
# Ranks that are processes: the same bits, the same bytes, and an end to everybody when one fails.
# usage: exec_mpi.sh BIN_FOLDER [KILLS]; skipped (77) where MPI is not there.
set -euo pipefail
planner=$1/planner
rank_variable=OMPI_COMM_WORLD_RANK
kills=${2:-2}
for needed in "$1/planner-exec-mpi" "$(command -v mpirun || echo mpirun)"; do
  if [[ ! -x $needed ]]; then
    printf 'skipped: no %s (install libopenmpi-dev and openmpi-bin)\n' "$needed"
    exit 77
  fi
done
source "$(dirname "${BASH_SOURCE[0]}")/processes.sh"
# For mpirun started here; planner says it to its own.
if [[ $EUID -eq 0 ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
if ! mpirun --oversubscribe -n 2 true >mpirun.txt 2>&1; then
  printf 'skipped: mpirun cannot start two processes of anything here: %s\n' \
    "$(head -c 2000 mpirun.txt)"
  exit 77
fi

mpi() { "$planner" exec "$@" --communicator mpi --quiet; }

# ---- the same bits and bytes as threads; OpenMPI's own counters agree ---------------------------
# witness FILE: every byte that OpenMPI counted between two ranks is a payload byte of the record or
# a frame around it, and every message is one.
witness() {
  local frame
  frame=$(sed -n 's/.*"mpi_frame_bytes": "\([0-9]*\)".*/\1/p' "$1")
  awk -v frame="$frame" '/"from"/ {gsub(/[^0-9]/, ""); from = $0}
    /"to"/ {gsub(/[^0-9]/, ""); to = $0}
    /"messages"/ {gsub(/[^0-9]/, ""); n = $0}
    /"wire_bytes"/ {gsub(/[^0-9]/, ""); print from, to, $0 + n * frame, n}' \
    <(sed -n '/^  "sent"/,/^  \]/p' "$1") | sort >ours.txt
  cat counted.*.prof | awk '$1 == "E" && $6 > 0 {print $2, $3, $4, $6}' | sort >theirs.txt
  if [[ ! -s ours.txt ]] || ! cmp ours.txt theirs.txt; then
    paste ours.txt theirs.txt
    fail "OpenMPI counted otherwise: $2"
  fi
  rm counted.*.prof
}
same_as_threads() {
  OMPI_MCA_pml_monitoring_enable=2 OMPI_MCA_pml_monitoring_enable_output=3 \
    OMPI_MCA_pml_monitoring_filename="$work/counted" as_threads mpi "$@"
  witness processes.json "$*"
}
same_as_threads 2 data=2 sharding=zero3
same_as_threads 4 data=2 pipeline=2 schedule=1f1b grad_sync=tree
same_as_threads 4 data=2 tensor=2 sequence_parallel=true sharding=zero1
same_as_threads 3 data=2 grad_sync=parameter_server servers=1 servers_colocated=false
same_as_threads 2 data=2 sharding=none grad_sync=naive_all_reduce

# Servers beside workers answer as pushes come: no two runs alike, but for what they move.
plan plan.json 2 data=2 grad_sync=parameter_server servers=2 server_mode=async
mpi plan.json --steps 3 --out async.json >page.txt
grep -q "asynchronous pushes" page.txt || fail "no staleness is told"
as_predicted plan.json async.json "servers beside workers"

# The library's own collectives: of two ranks the sum is the same bits; its bytes nobody knows.
plan plan.json 2 data=2 sharding=zero1
"$planner" exec plan.json --quiet --out threads.json >/dev/null
mpi plan.json --collectives mpi --out library.json >/dev/null
same_loss library.json
[[ $(grep -c '"algorithm": "library"' library.json) -eq 2 ]] || fail "no collective of the library's"
[[ $(grep -c '"wire_bytes_per_rank": null' library.json) -eq 2 ]] || fail "bytes that nobody counted"
plan plan.json 4 data=2 tensor=2 sharding=zero1
mpi plan.json --collectives mpi --out library.json >/dev/null
plan plan.json 2 data=2 sharding=zero1

# Scaled down, every process runs the same small job, and it is that of threads.
"$planner" --model gpt2-1.5b --gpus 2 --gpu h100-sxm-80g --pin data=2 --top 0 --quiet \
  --out large.json >/dev/null
"$planner" exec large.json --scale-down --steps 1 --quiet --out small.json >/dev/null
mpi large.json --scale-down --steps 1 --out processes.json >/dev/null
same_loss processes.json small.json
grep -q '"scaled_from"' processes.json || fail "a run that was scaled down does not say so"

# ---- joined, traced, watched --------------------------------------------------------------------
mpirun --oversubscribe --bind-to none -n 2 "$planner" exec plan.json --communicator mpi --json \
  --trace trace.json --progress >joined.json 2>err.txt
same_loss joined.json
[[ $(grep -c '^planner: step ' err.txt) -eq 3 ]] || fail "no progress: $(cat err.txt)"
grep -q '"name":"reduce_scatter gradients"' trace.json || fail "no collective in the trace"
[[ $(grep -o '"name":"process_name"' trace.json | wc -l) -eq 2 ]] || fail "not two ranks in the trace"

# ---- too few, too many, none to start them, nothing to read ------------------------------------
expect 2 "expected 2 processes, one for each rank of the plan, found 1" \
  mpirun -n 1 "$planner" exec plan.json --communicator mpi --quiet
expect 2 "expected 2 processes, one for each rank of the plan, found 3" \
  mpirun --oversubscribe -n 3 "$planner" exec plan.json --communicator mpi --quiet
no_launcher() { PATH=/nowhere mpi plan.json; }
expect 3 "mpirun: expected a launcher of MPI in PATH, found none; install openmpi-bin" no_launcher
# Where localhost does not resolve, looking for X displays there would take five seconds.
mkdir stand_in
printf '#!/bin/sh\nprintf %%s "$HWLOC_COMPONENTS" >components.txt\nexit 1\n' >stand_in/mpirun
chmod +x stand_in/mpirun
for set in "" linux,-pci; do
  code=0
  env ${set:+HWLOC_COMPONENTS=$set} PATH="$work/stand_in:$PATH" "$planner" exec plan.json \
    --communicator mpi --quiet >/dev/null 2>&1 || code=$?
  [[ $code -eq 3 && $(cat components.txt) == "${set:--gl}" ]] ||
    fail "hwloc looks at $(cat components.txt), exit $code"
done
printf 'localhost slots=1\n' >hosts
expect 3 "hostfile hosts: expected slots for 2 processes, found fewer" mpi plan.json --hostfile hosts
printf 'localhost slots=2\n' >hosts
mpi plan.json --hostfile hosts --out hosts.json >/dev/null
expect 2 "no-such-plan" mpi no-such-plan.json
expect 2 "no-such-file" mpi plan.json --data no-such-file
expect 2 "steps" mpi plan.json --steps 0
expect 2 "out.json: expected its folder" mpi plan.json --out no/such/out.json
expect 2 "communicator mpi beside it" "$planner" exec plan.json --collectives mpi
expect 2 "own or mpi" mpi plan.json --collectives theirs
if [[ $EUID -eq 0 ]]; then
  "$planner" exec plan.json --communicator mpi 2>err.txt >/dev/null
  grep -q 'as root: mpirun is told to allow it' err.txt || fail "no word of root: $(cat err.txt)"
fi

# ---- a rank that fails ends all, with its reason and nothing half done --------------------------
cat >small_files.sh <<'SCRIPT'
ulimit -f 8
exec "$@"
SCRIPT
expect 3 "rank 1: failing/.step-00000001.partial/rank-0001.*too large.*free some space" \
  mpirun --oversubscribe --mca btl self,tcp -n 1 "$planner" exec plan.json --communicator mpi \
  --quiet --checkpoint-dir failing : -n 1 bash small_files.sh "$planner" exec --communicator mpi
[[ -z $(find failing -name '*step-*') ]] || fail "half a step: $(ls -a failing)"
# A disk that is full for all of them: one cause, told once.
all_full() (
  ulimit -f 8
  OMPI_MCA_btl=self,tcp PMIX_MCA_gds=hash mpi plan.json --checkpoint-dir full
)
expect 3 "full/.step-00000001.partial/rank-000.*too large.*free some space" all_full
[[ -z $(find full -name '*step-*') ]] || fail "half a step on a full disk"

# ---- killed, interrupted ------------------------------------------------------------------------
begin() { begin_run mpi "$@"; }
launcher_pid() {
  local p
  for p in $(of_this_test); do
    if [[ $(cat "/proc/$p/comm") == mpirun ]]; then printf '%s' "$p"; fi
  done
}
RANDOM=${SEED:-7}
for ((kill_number = 0; kill_number < kills; ++kill_number)); do
  before=$(kept parts)
  begin --steps 100000 --checkpoint-dir parts  # more than it comes to
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
reached=$(kept parts | sed 's/.*step-0*//')
steps=$((10#$reached + 20))
last=$(printf 'step-%08d' $steps)
mpi plan.json --steps $steps --checkpoint-dir parts >/dev/null
"$planner" exec plan.json --quiet --steps $steps --checkpoint-dir whole --checkpoint-every $steps \
  >/dev/null
for rank in 0 1; do
  cmp "whole/$last/rank-000$rank" "parts/$last/rank-000$rank" || fail "rank $rank: other bits"
done
[[ -z $(find parts -name '.step-*') ]] || fail "a half-written step is left: $(ls -a parts)"

for signal in INT TERM; do
  begin --steps 100000 --checkpoint-dir "on-$signal" --out on.json
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

# The launcher's own end, and that of planner, are everybody's.
begin --steps 100000
begun $pid rank_runs 1
kill -9 "$(launcher_pid)"
code=0
wait $pid || code=$?
[[ $code -eq 3 ]] && grep -q 'mpirun: expected to run to its end, found ended by signal 9' err.txt ||
  fail "mpirun killed: exit $code, $(cat err.txt)"
no_orphans "mpirun killed"
begin --steps 100000
begun $pid rank_runs 1
kill -9 $pid
wait $pid 2>/dev/null || true
no_orphans "planner killed"
printf 'processes: same bits and bytes, OpenMPI agrees; killed %s times (last at step %s)\n' \
  "$kills" "$reached"
