#!/usr/bin/env bash
# What one GPU can show of NCCL: a communicator of one rank, and two processes on one card, which NCCL
# takes for two machines where their NCCL_HOSTID differ. usage: nccl.sh BIN_FOLDER OUT [LIBNCCL]
# Writes OUT/nccl.txt: what was run, what held, and what NCCL ran. Exit 77, with the reason: no GPU or no
# NCCL. A step that takes longer than NCCL_PATIENCE (60 s) ends its run, and a run ends after five times that.
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
patience=${NCCL_PATIENCE:-60}
held() { printf 'held: %s\n' "$*" | tee -a "$result"; }
failed() {
  printf 'FAILED: %s\n' "$*" | tee -a "$result"
  failures=$((failures + 1))
}

# Of this run's own numbers the first that nobody listens on.
port_from=$((20000 + $$ % 10000))
free_port() {
  local port=$port_from
  while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
  echo "$port"
}

cat >config.json <<'JSON'
{"model_type":"gpt2","n_layer":4,"n_embd":64,"n_head":4,"n_positions":64,"vocab_size":501}
JSON
plan() {
  "$planner" --model config.json --seq 64 --global-batch 8 --recipe fp32 --gpu h100-sxm-80g --quiet \
    --out "$1.json" --gpus "$2" "${@:3}" >/dev/null
}
run=(--backend cuda --communicator nccl "${library[@]}" --deadline "$patience" --steps 3 --quiet)

# ---- one rank: the library opens, a communicator is made, watched and ended -------------------------------
plan one 1
code=0
RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$(free_port) \
  timeout $((5 * patience)) "$planner" exec one.json "${run[@]}" --out one-run.json >/dev/null 2>err.txt || code=$?
if [[ $code -eq 3 ]] && grep -q -e 'found none' -e 'no NVIDIA driver' -e 'shows no GPU' -e 'libnccl' err.txt; then
  printf 'skipped: %s\n' "$(cat err.txt)" | tee "$result"
  exit 77
fi
if [[ $code -eq 0 ]]; then held "one rank: $(grep -o '"nccl": "[^"]*"' one-run.json)"
else failed "one rank: exit $code: $(tail -n 2 err.txt)"; fi

# ---- two ranks on one card, over sockets: the bits of two ranks that are threads ---------------------------
# of RANKS NAME PLAN OPTION...: the record of rank 0 as NAME.json.
of() {
  local ranks=$1 name=$2 file=$3 r code pids=()
  shift 3
  local port
  port=$(free_port)
  for ((r = 0; r < ranks; ++r)); do
    RANK=$r WORLD_SIZE=$ranks LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
      NCCL_HOSTID=planner-$r NCCL_SOCKET_IFNAME=lo timeout $((5 * patience)) "$planner" exec "$file.json" "${run[@]}" "$@" \
      --checkpoint-dir "$name" --checkpoint-every 3 --out "$name-$r.json" >/dev/null 2>"err.$r" &
    pids[r]=$!
  done
  for ((r = 0; r < ranks; ++r)); do
    code=0
    wait "${pids[$r]}" || code=$?
    [[ $code -eq 0 ]] || { failed "$name: rank $r: exit $code: $(tail -n 2 "err.$r")"; return 0; }
  done
  held "$name: all ranks ended"
  "$planner" compare "$file.json" "$name-0.json" --format md >compare.md || true
  grep -e '\.nccl\.' -e 'expected NCCL' -e 'bytes and counts' compare.md >>"$result" || true
  if grep 'gradients.*\(count\|payload\|wire\) .*differs' compare.md >>"$result"; then
    failed "$name: calls or bytes are not as planned"
  fi
}
two() { of 2 "$@"; }
# same NAME: the bits that two ranks as threads on this card come to.
same() {
  local r kept
  for kept in "threads-$2"/step-00000003/rank-*; do
    r=${kept##*-}
    if [[ ! -e $1/step-00000003/rank-$r ]]; then return 0; fi  # told already
    cmp -s "$kept" "$1/step-00000003/rank-$r" ||
      { failed "$1: rank $r has other bits than with threads"; return 0; }
  done
  held "$1: the same bits as with threads"
}
threads() {
  "$planner" exec "$1.json" --backend cuda --steps 3 --quiet --checkpoint-dir "threads-$1" --checkpoint-every 3 \
    --out "threads-$1.json" >/dev/null 2>err.txt || failed "threads: $(tail -n 2 err.txt)"
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

# ---- more than two ranks: the library adds in an order of its own ------------------------------------------
# Sums of four f32 numbers in any order differ by at most 3 x 2^-24 of the sum of their sizes (Higham,
# Accuracy and Stability, 4.2); losses of three steps move by far less than the 1e-5 that is allowed.
losses() { sed -n 's/^  "loss": \[\(.*\)\].*/\1/p' "$1" | tr -d ' ' | tr ',' '\n'; }
plan four 4 --pin data=4 --pin sharding=zero1
threads four
of 4 four-by-library four
if [[ -s four-by-library-0.json && -s threads-four.json ]]; then
  if paste <(losses threads-four.json) <(losses four-by-library-0.json) |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > 1e-5 * $1) bad = 1 } END { exit bad || NR != 3 }'; then
    held "four-by-library: the losses of threads within 1e-5"
  else
    failed "four-by-library: losses $(losses four-by-library-0.json | tr '\n' ' '), of threads $(losses threads-four.json | tr '\n' ' ')"
  fi
fi
of 4 four-by-own four --collectives own
same four-by-own four

if [[ $failures -gt 0 ]]; then exit 1; fi
