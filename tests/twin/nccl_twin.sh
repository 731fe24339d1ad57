#!/usr/bin/env bash
# --backend cuda --communicator nccl from end to end: a process for each rank, each with a GPU that is
# played on the host, joined by a fake of NCCL. What is recorded is the host's; whatever fails, all
# ranks end with one reason and exit code 3. usage: nccl_twin.sh BIN_FOLDER BINARY FAKE_NCCL [full]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/played_gpus.sh"
tier=${4:-fast}
nccl() {
  "$planner" exec "$@" --backend cuda --communicator nccl --nccl "$work/libnccl.so.2" --quiet
}

# ---- what is recorded is what the host records ------------------------------------------------------
# as_host RANKS PIN...: losses, memory and communication are those of threads on the host. The memory
# that the library takes is the predicted one; no plan predicts blocks of messages.
as_host() {
  local unlike='workspace\|context\|device'
  plan plan.json "$@"
  "$planner" exec plan.json --steps 2 --quiet --out host.json >/dev/null
  PLANNER_FAKE_NCCL='channels=24 nvls=16' nccl plan.json --steps 2 --out nccl.json >/dev/null
  # A twin has no context, and its libraries take less than a GPU's.
  "$planner" compare plan.json nccl.json | grep ' differs$' |
    grep -v "^  memory\\.\\($unlike\\) " >differs.txt || true
  [[ ! -s differs.txt ]] || fail "not as predicted: $* ($(cat differs.txt))"
  if ! command -v python3 >/dev/null; then return; fi
  python3 - "$*" <<'PYTHON'
import json, sys
host, nccl = (json.load(open(f"{name}.json")) for name in ("host", "nccl"))
assert nccl["backend"] == "cuda" and nccl["communicator"] == "nccl"
# Sums of bf16 gradients in other orders: as in tests/property/cuda_test.cpp.
for x, y in zip(nccl["loss"], host["loss"], strict=True):
    assert abs(x - y) <= 0.03 * abs(y), (sys.argv[1], x, y)
for term in ("weights", "gradients", "optimizer", "activations", "logits", "communication", "live", "reserved"):
    assert nccl["memory"][term] == host["memory"][term], (sys.argv[1], term)
for term in ("workspace", "context", "communicators", "message_blocks", "device"):
    assert nccl["memory"][term] is not None, (sys.argv[1], term)
own = any(name in sys.argv[1] for name in ("naive_all_reduce", "parameter_server"))
assert (nccl["memory"]["message_blocks"] > 0) >= own, (sys.argv[1], nccl["memory"])
traffic = lambda run: sorted((c["what"], c["collective"], c["count"], c["payload_bytes"],
                              c["wire_bytes_per_rank"]) for c in run["communication"])
assert traffic(nccl) == traffic(host), (sys.argv[1], traffic(nccl), traffic(host))
assert nccl["environment"]["nccl"] == "2.28.9", nccl["environment"]
assert " of ncclMemAlloc, registered with " in nccl["environment"]["nccl_buffers"], nccl["environment"]
assert nccl["environment"]["cpu_affinity"].startswith("as it was: "), nccl["environment"]
PYTHON
}
as_host 2 data=2 sharding=zero3
as_host 2 pipeline=2 schedule=1f1b
as_host 4 data=2 pipeline=2 schedule=1f1b sharding=zero1
if [[ $tier == full ]]; then
  as_host 2 data=2 sharding=zero1
  as_host 2 data=2 sharding=zero2
  as_host 4 data=4 sharding=zero3 shard_group=2
  as_host 4 data=2 tensor=2 sequence_parallel=true sharding=zero1
  as_host 4 data=2 pipeline=2 schedule=gpipe
  as_host 3 data=2 grad_sync=parameter_server servers=1 servers_colocated=false
  as_host 2 data=2 sharding=none grad_sync=naive_all_reduce
  as_host 4 data=4 grad_sync=tree
  as_host 8 data=2 tensor=2 pipeline=2 schedule=gpipe sharding=zero2
fi

# ---- the same bits: of two in any order, of more by own kernels ---------------------------------------
kept_by() { nccl "$1" --steps 2 --checkpoint-dir "$2" --checkpoint-every 2 "${@:3}" >/dev/null; }
same_bits() {
  local r
  for ((r = 0; r < $3; ++r)); do
    cmp "$1/step-00000002/rank-000$r" "$2/step-00000002/rank-000$r" || fail "rank $r: other bits in $2"
  done
}
plan plan.json 2 data=2 sharding=zero1
"$planner" exec plan.json --backend cuda --quiet --steps 2 --checkpoint-dir threads --checkpoint-every 2 >/dev/null
kept_by plan.json by-library
kept_by plan.json by-own --collectives own
same_bits threads by-library 2
# A step that is kept as a CUDA graph with its calls, and launched again.
nccl plan.json --steps 4 --checkpoint-dir plainly --checkpoint-every 4 --graphs off >/dev/null
nccl plan.json --steps 4 --checkpoint-dir kept --checkpoint-every 4 --graphs on --out kept.json >/dev/null
grep -q '"graphs": "on: 2 of 4 steps"' kept.json || fail "$(grep graphs kept.json)"
for r in 0 1; do
  cmp "plainly/step-00000004/rank-000$r" "kept/step-00000004/rank-000$r" || fail "rank $r: other bits from a graph"
done
same_bits threads by-own 2
# Every rank keeps the times of its own GPU's products: rank 0 told the others to.
nccl plan.json --steps 2 --tuned-products products.json >/dev/null
for file in products.json products.json.rank-0001; do
  [[ -s $file ]] || fail "no times of products in $file"
done
plan four.json 4 data=4 sharding=zero2
"$planner" exec four.json --backend cuda --quiet --steps 2 --checkpoint-dir threads-4 --checkpoint-every 2 >/dev/null
kept_by four.json by-own-4 --collectives own
same_bits threads-4 by-own-4 4

# ---- what NCCL chose, and what it was told to choose --------------------------------------------------
# ran PATTERN OPTION...: compare says it of the run, each call as often as planned.
ran() {
  local pattern=$1
  shift
  nccl plan.json --steps 2 --out ran.json "$@" >/dev/null
  "$planner" compare plan.json ran.json --format md >ran.txt || true
  grep -q -- "$pattern" ran.txt || fail "no $pattern: $(grep nccl ran.txt)"
  ! grep 'nccl.\(count\|payload\) .*differs' ran.txt || fail "other calls than planned: $*"
}
# By itself the fake takes rings in LL on 2 channels, whatever was planned.
plan plan.json 4 data=4 grad_sync=tree
ran '| gradients.all_reduce.nccl.ring.count | - | [1-9]'
ran '| gradients.all_reduce.nccl.tree.count | - | [1-9]' --collectives plan
plan plan.json 4 data=2 tensor=2 sharding=zero1 grad_sync=ring
ran 'parameters.all_gather: expected NCCL to run .* calls\? by ring, .* it ran .* by ring, ll, 2 channels'
ran '| gradients.reduce_scatter.nccl.ring.count | \([0-9]*\) | \1 | as assumed |' --collectives plan
# A plan that assumes another protocol gets it.
sed -i 's/"protocol": "[a-z0-9]*"/"protocol": "simple"/' plan.json
ran '| gradients.reduce_scatter.nccl.simple.count | [1-9][0-9]* | 0 | other choice |'
ran '| gradients.reduce_scatter.nccl.simple.count | \([1-9][0-9]*\) | \1 | as assumed |' --collectives plan
# Nor does it take other channels than the plan assumes, though communicators have two by themselves.
! grep 'expected NCCL to run' ran.txt || fail "not what the plan assumes: $(cat ran.txt)"
[[ -z $(find . -maxdepth 1 -name 'planner-nccl-*') ]] || fail "a file of choices is left"
expect 3 'expected no other tuner, found NCCL_TUNER_PLUGIN=theirs.so; unset it' \
  env NCCL_TUNER_PLUGIN=theirs.so "$planner" exec plan.json --backend cuda --communicator nccl \
  --nccl "$work/libnccl.so.2" --quiet --collectives plan
NCCL_PROFILER_PLUGIN=theirs.so nccl plan.json --steps 2 --out ran.json >/dev/null
grep -q '"nccl_calls": "unknown: NCCL_PROFILER_PLUGIN is theirs.so"' ran.json || fail "$(grep nccl_calls ran.json)"
"$planner" compare plan.json ran.json >ran.txt || true
! grep '\.nccl\.' ran.txt || fail 'calls that nobody told of'
plan plan.json 2 data=2 sharding=zero1

# ---- the GPUs as NVML shows them ------------------------------------------------------------------------
nvml=$(dirname "$3")/../fake_nvml/libnvidia-ml.so.1
PLANNER_TWIN_NVML=$nvml PLANNER_FAKE_NVML='generation=4 reasons=4' nccl plan.json --steps 2 --out ran.json >/dev/null 2>err.txt
grep -q "not as the plan's profile says: GPU 00000000:1B:00.0: expected PCIe 5 x16, found PCIe 4 x16.*and 5 more" err.txt ||
  fail "no warning of PCIe: $(cat err.txt)"
[[ $(wc -l <err.txt) -eq 1 ]] || fail "told more than once: $(cat err.txt)"
for word in '"topology": "8 GPUs; 18 NVLinks of version 4' '"topology_differences": "GPU 00000000:1B' \
  '"gpu_of_rank_0": "before: SM 1755 MHz, memory 1755 MHz, 345 W, clocks lowered by: SW power cap; after: ' \
  '"gpu_of_rank_1": .*sent over NVLink: 0 bytes'; do
  grep -q "$word" ran.json || fail "no $word in $(grep 'topology\|gpu_of' ran.json)"
done
PLANNER_TWIN_NVML=$nvml nccl plan.json --steps 2 --out ran.json >/dev/null 2>err.txt
grep -q '"topology_differences": "none"' ran.json || fail "$(grep topology ran.json)"
[[ ! -s err.txt ]] || fail "a warning without a reason: $(cat err.txt)"

# ---- started by a launcher ------------------------------------------------------------------------------
port=$((20000 + $$ % 10000))
while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
# rank N COMMAND...: one rank in the background, as torchrun's environment has it.
pids=()
rank() {
  RANK=$1 LOCAL_RANK=$1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    "${@:2}" >"out.$1" 2>"err.$1" &
  pids[$1]=$!
}
ended() {
  local code=0
  wait "${pids[$1]}" || code=$?
  [[ $code -eq $2 ]] || fail "rank $1: exit $code instead of $2: $(cat err.*)"
}
run=("$planner" exec plan.json --backend cuda --communicator nccl --nccl "$work/libnccl.so.2" --quiet --json)
for r in 1 0; do rank $r "${run[@]}"; done
ended 0 0
ended 1 0
grep -q '"communicator": "nccl"' out.0 || fail "no record of rank 0"
[[ ! -s out.1 ]] || fail "rank 1 wrote a record"
rank 0 "${run[@]}"
rank 1 env PLANNER_FAKE_NCCL=version=22703 "${run[@]}"
ended 0 3
ended 1 3
grep -q 'expected one version of NCCL, found 2.28.9 on rank 0 and 2.27.3 on rank 1' err.0 || fail "$(cat err.*)"

# ---- what cannot be ---------------------------------------------------------------------------------------
expect 2 'backend cuda beside it' "$planner" exec plan.json --communicator nccl
expect 2 'communicator nccl beside it' "$planner" exec plan.json --nccl libnccl.so.2
expect 2 'own or nccl or plan' nccl plan.json --collectives mpi
expect 2 'leave it out' nccl plan.json --device 1
expect 3 "NCCL 2.18.1 or newer, found 2.17.1 in" env PLANNER_FAKE_NCCL=version=21701 \
  "${run[@]}"
expect 3 'none.so.*name its file with --nccl PATH' "$planner" exec plan.json --backend cuda \
  --communicator nccl --nccl ./none.so --quiet
plan async.json 2 data=2 grad_sync=parameter_server servers=2 server_mode=async
expect 2 'server_mode=sync' nccl async.json
plan served.json 2 data=2 grad_sync=parameter_server servers=2
expect 2 'what parameter servers answer leaves' nccl served.json --graphs on --steps 4

# ---- what goes wrong: one end, one reason -------------------------------------------------------------
expect 3 'rank 1: .*an error that a test asked for; not over: nccl' \
  env PLANNER_FAKE_NCCL='rank=1 error=3' "${run[@]}"
expect 3 'rank [01]: .*index 0 of the communicator called .*, but index 1' \
  env PLANNER_FAKE_NCCL='rank=1 count=2' "${run[@]}"
expect 3 'rank 0: nccl.* of .* (group 0,1, channel .*, call .*): invalid argument: a refusal' \
  env PLANNER_FAKE_NCCL='rank=0 refuse=4' "${run[@]}"
# stalled CALL WHAT OPTION...
stalled() {
  PLANNER_FAKE_NCCL="rank=0 stall=$1" "${run[@]}" --deadline 2 "${@:3}" 2>stalled.txt && return
  local code=$?
  grep -v "rank 0: a step has taken half of its deadline of 2.00 s; not over: $2" stalled.txt >&2
  return $code
}
expect 3 'rank [01]: a step took longer than 2.00 s; not over: nccl.* (group 0,1, channel .*call' stalled 3 nccl
# Within a graph the call cannot be seen.
graph='a step that was launched as a CUDA graph (--graphs off names the call)'
expect 3 "rank [01]: a step took longer than 2.00 s; not over: $graph" stalled 30 "$graph" --steps 1000 --graphs on
expect 3 "rank 1: .*an error that a test asked for; not over: $graph" \
  env PLANNER_FAKE_NCCL='rank=1 error=30' "${run[@]}" --steps 1000 --graphs on
expect 3 'rank [01]: .*a failure that a test asked for' env PLANNER_TWIN=launch=9:device "${run[@]}"
begin_nccl() {
  "${run[@]}" --steps 100000 --checkpoint-dir "$1" >/dev/null 2>err.txt &
  pid=$!
  begun $pid kept_since "$1" ''
}
for victim in 0 1; do
  begin_nccl "killed-$victim"
  kill -9 "$(rank_pid $victim)"
  code=0
  wait $pid || code=$?
  [[ $code -eq 3 && $(wc -l <err.txt) -eq 1 ]] || fail "exit $code after a kill: $(cat err.txt)"
  grep -q "rank $victim: expected to run to its end, found ended by signal 9" err.txt || fail "$(cat err.txt)"
  no_orphans "rank $victim killed"
done
begin_nccl stopped
kill -STOP "$(rank_pid 1)"
code=0
wait $pid || code=$?
[[ $code -eq 3 && $(wc -l <err.txt) -eq 1 ]] || fail "exit $code after a stop: $(cat err.txt)"
grep -q 'rank 1: was not heard from for 5 s: it is stopped' err.txt || fail "$(cat err.txt)"
no_orphans 'rank 1 stopped'
# What was kept goes on.
steps=$((10#$(kept stopped | sed 's/.*step-0*//') + 2))
nccl plan.json --steps $steps --checkpoint-dir stopped >/dev/null

# ---- buffers that are symmetric windows ------------------------------------------------------------------
plan plan.json 2 data=2 sharding=zero1
kept_by plan.json by-windows --nccl-windows --out windows.json
same_bits by-library by-windows 2
grep -q '"nccl_buffers": ".* a symmetric window of [1-9]' windows.json || fail "$(grep nccl_buffers windows.json)"
expect 2 'NCCL asks no tuner for sums in windows' nccl plan.json --nccl-windows --collectives plan
expect 2 'communicator nccl beside it' "$planner" exec plan.json --nccl-windows
plan stages.json 4 data=2 pipeline=2 schedule=1f1b sharding=zero1
nccl stages.json --steps 2 --nccl-windows --out windows.json >/dev/null
grep -q '"nccl_buffers": ".* a symmetric window of [1-9].*, registered with [1-9]' windows.json ||
  fail "stages: $(grep nccl_buffers windows.json)"

# ---- ranks that are threads of one process, with a GPU each ---------------------------------------------
plan plan.json 2 data=2 sharding=zero1
kept_by plan.json by-threads --rank-threads --out threads.json
same_bits by-library by-threads 2
for word in '"ranks": "threads of one process"' '"nccl_calls": "unknown: ranks are threads' '"nccl_communicators": '; do
  grep -q "$word" threads.json || fail "no $word: $(grep environment -A40 threads.json)"
done
nccl plan.json --steps 2 --out processes.json >/dev/null
grep -q '"ranks": "processes"' processes.json || fail "$(grep '"ranks"' processes.json)"
# But for what NCCL told of its calls, and the device's memory, which a twin's libraries move.
for run_of in threads processes; do
  measured $run_of.json | grep '"loss"\|_bytes"\|"count"\|"live"\|"reserved"\|"message_blocks"\|"communicators"' |
    sort -u >$run_of.txt
done
[[ $(wc -l <threads.txt) -gt 5 ]] || fail 'nothing is compared'
[[ -z $(comm -23 threads.txt processes.txt) ]] || fail "threads are not as processes: $(diff threads.txt processes.txt)"
kept_by four.json by-threads-4 --rank-threads --collectives own
same_bits threads-4 by-threads-4 4
nccl plan.json --steps 4 --checkpoint-dir kept-by-threads --checkpoint-every 4 --graphs on --rank-threads >/dev/null
for r in 0 1; do
  cmp "plainly/step-00000004/rank-000$r" "kept-by-threads/step-00000004/rank-000$r" || fail "rank $r: other bits from a graph of threads"
done
# What processes kept, threads go on from.
nccl plan.json --steps 4 --checkpoint-dir by-library --rank-threads >/dev/null
for r in 0 1; do
  cmp "plainly/step-00000004/rank-000$r" "by-library/step-00000004/rank-000$r" || fail "rank $r: threads went on otherwise"
done
expect 2 'communicator nccl beside it' "$planner" exec plan.json --rank-threads
expect 2 'ranks that are processes' nccl plan.json --rank-threads --device-times cupti
expect 2 'a process that starts all ranks' env RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 \
  MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "${run[@]}" --rank-threads
threads=("${run[@]}" --rank-threads)
expect 3 'rank 1: .*an error that a test asked for; not over: nccl' env PLANNER_FAKE_NCCL='rank=1 error=3' "${threads[@]}"
expect 3 'rank [01]: .*a failure that a test asked for' env PLANNER_TWIN=launch=9:device "${threads[@]}"
expect 3 'NCCL 2.18.1 or newer, found 2.17.1 in' env PLANNER_FAKE_NCCL=version=21701 "${threads[@]}"
run_by_processes=("${run[@]}")
run=("${threads[@]}")
expect 3 'rank [01]: a step took longer than 2.00 s; not over: nccl.* (group 0,1, channel .*call' stalled 3 nccl
run=(env --default-signal=INT "${threads[@]}")
begin_nccl interrupted
kill -INT $pid
code=0
wait $pid || code=$?
[[ $code -eq 130 && $(cat err.txt) == 'planner: interrupted' ]] || fail "exit $code after an interrupt: $(cat err.txt)"
run=("${run_by_processes[@]}")
nccl plan.json --steps $((10#$(kept interrupted | sed 's/.*step-0*//') + 2)) --checkpoint-dir interrupted >/dev/null
printf 'NCCL on twins: as the host; one end for every failure\n'
