#!/usr/bin/env bash
# What one GPU can show of NCCL: a communicator of one rank, and two processes on one card, which NCCL
# takes for two machines where their NCCL_HOSTID differ. usage: nccl.sh BIN_FOLDER OUT [LIBNCCL]
# Writes OUT/nccl.txt: what was run, what held, and what NCCL ran. Exit 77, with the reason: no GPU or no
# NCCL. Each run ends after a minute without progress (--deadline).
set -euo pipefail
planner=$(cd "$1" && pwd)/planner
mkdir -p "$2"
result=$(cd "$2" && pwd)/nccl.txt
library=()
if [[ -n ${3:-} ]]; then library=(--nccl "$3"); fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
: >"$result"
failures=0
held() { printf 'held: %s\n' "$*" | tee -a "$result"; }
failed() {
  printf 'FAILED: %s\n' "$*" | tee -a "$result"
  failures=$((failures + 1))
}

cat >config.json <<'JSON'
{"model_type":"gpt2","n_layer":4,"n_embd":64,"n_head":4,"n_positions":64,"vocab_size":501}
JSON
plan() {
  "$planner" --model config.json --seq 64 --global-batch 8 --recipe fp32 --gpu h100-sxm-80g --quiet \
    --out "$1.json" --gpus "$2" "${@:3}" >/dev/null
}
run=(--backend cuda --communicator nccl "${library[@]}" --deadline 60 --steps 3 --quiet)

# ---- one rank: the library opens, a communicator is made, watched and ended -------------------------------
plan one 1
code=0
RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29411 \
  timeout 300 "$planner" exec one.json "${run[@]}" --out one-run.json >/dev/null 2>err.txt || code=$?
if [[ $code -eq 3 ]] && grep -q -e 'found none' -e 'no NVIDIA driver' -e 'shows no GPU' -e 'libnccl' err.txt; then
  printf 'skipped: %s\n' "$(cat err.txt)" | tee "$result"
  exit 77
fi
if [[ $code -eq 0 ]]; then held "one rank: $(grep -o '"nccl": "[^"]*"' one-run.json)"
else failed "one rank: exit $code: $(tail -n 2 err.txt)"; fi

# ---- two ranks on one card, over sockets: the bits of two ranks that are threads ---------------------------
# two NAME PLAN OPTION...: the record of rank 0 as NAME.json.
two() {
  local name=$1 file=$2 r code pids=()
  shift 2
  for r in 0 1; do
    RANK=$r WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29412 \
      NCCL_HOSTID=planner-$r NCCL_SOCKET_IFNAME=lo timeout 300 "$planner" exec "$file.json" "${run[@]}" "$@" \
      --checkpoint-dir "$name" --checkpoint-every 3 --out "$name-$r.json" >/dev/null 2>"err.$r" &
    pids[r]=$!
  done
  for r in 0 1; do
    code=0
    wait "${pids[$r]}" || code=$?
    [[ $code -eq 0 ]] || { failed "$name: rank $r: exit $code: $(tail -n 2 "err.$r")"; return 0; }
  done
  held "$name: both ranks ended"
  "$planner" compare "$file.json" "$name-0.json" --format md >compare.md || true
  grep -e '\.nccl\.' -e 'expected NCCL' -e 'bytes and counts' compare.md >>"$result" || true
  if grep 'gradients.*\(count\|payload\|wire\) .*differs' compare.md >>"$result"; then
    failed "$name: calls or bytes are not as planned"
  fi
}
# same NAME: the bits that two ranks as threads on this card come to.
same() {
  local r
  for r in 0 1; do
    if [[ ! -e $1/step-00000003/rank-000$r ]]; then return 0; fi  # told already
    cmp -s "threads-$2/step-00000003/rank-000$r" "$1/step-00000003/rank-000$r" ||
      { failed "$1: rank $r has other bits than with threads"; return 0; }
  done
  held "$1: the same bits as with threads"
}
threads() {
  "$planner" exec "$1.json" --backend cuda --steps 3 --quiet --checkpoint-dir "threads-$1" --checkpoint-every 3 \
    >/dev/null 2>err.txt || failed "threads: $(tail -n 2 err.txt)"
}
plan data 2 --pin data=2 --pin sharding=zero1
threads data
two library data
same library data
two planned data --collectives plan
same planned data
two own data --collectives own
same own data
plan stages 2 --pin pipeline=2 --pin schedule=1f1b
threads stages
two stages-over-nccl stages
same stages-over-nccl stages

if [[ $failures -gt 0 ]]; then exit 1; fi
