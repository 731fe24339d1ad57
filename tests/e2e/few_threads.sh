#!/usr/bin/env bash
# Where the system lets a user start few threads or little memory, planning goes on with those there
# are, and a run ends with one message. usage: few_threads.sh BIN_FOLDER
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
planner=$(cd "$1" && pwd)/planner

# The kernel does not count what root starts: another user, of whom nothing else runs.
user=()
if [[ $EUID -eq 0 ]]; then user=(setpriv --reuid=64817 --regid=64817 --clear-groups); fi
skip() {
  printf 'skipped: %s\n' "$*"
  exit 77
}
command -v prlimit >/dev/null || skip 'no prlimit (util-linux)'
if [[ $EUID -ne 0 ]]; then skip 'not root: this user runs more than the test'; fi
"${user[@]}" true 2>/dev/null || skip 'no setpriv, or it may not change the user'
"${user[@]}" test -x "$planner" || skip "another user cannot reach $planner"
chmod 755 "$work"

printf '%s' '{"model_type":"llama","num_hidden_layers":2,"hidden_size":32,"intermediate_size":64,
  "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":16,"vocab_size":256,
  "tie_word_embeddings":false}' >config.json
"$planner" --model config.json --gpus 8 --seq 16 --global-batch 16 --recipe mixed \
  --gpu h100-sxm-80g --pin data=8 --pin sharding=zero1 --quiet --out plan.json >/dev/null

# limited N COMMAND...: as a user who may have N processes or threads at once.
limited() {
  local n=$1
  shift
  "${user[@]}" prlimit --nproc="$n" timeout --foreground --signal=KILL 120 "$@"
}

# ---- planning: whatever there is will do ----------------------------------------------------------
# With one thread there is none for `timeout` to start the planner in.
for n in 2 3; do
  limited $n "$planner" --model gpt2-1.5b --gpus 8 --quiet --threads 4 --json >"few-$n.json" ||
    fail "planning with $n threads: exit $?"
done
"$planner" --model gpt2-1.5b --gpus 8 --quiet --threads 4 --json >all.json
"$planner" --model gpt2-124m --gpus 128xh100-sxm-80g --seq 64 --global-batch 4096 --quiet \
  --pin micro_batch=1 --pin tensor=2 --pin data=32 --pin pipeline=2 --out large.json >/dev/null
"$planner" simulate large.json --unfold --quiet --threads 4 --json >all-step.json
for n in 2 3; do
  limited $n "$planner" simulate large.json --unfold --quiet --threads 4 --json >few-step.json ||
    fail "simulating with $n threads: exit $?"
  cmp all-step.json few-step.json || fail "with $n threads, another step"
done
without_time() { grep -v '^    "seconds": ' "$1"; }  # of the search itself
cmp <(without_time all.json) <(without_time few-2.json) || fail 'fewer threads, another plan'
(ulimit -v 60000; timeout --signal=KILL 120 "$planner" --model gpt2-1.5b --gpus 8 --quiet \
  --threads 4 >/dev/null 2>err.txt) || code=$?
[[ ${code:-0} -eq 0 || ${code:-0} -eq 3 ]] || fail "planning in 60 MB: exit $code ($(cat err.txt))"

# ---- running in little memory: all of it, or one message that is no interruption ----------------
for kib in 100000 150000 200000 300000 400000 500000 700000 1000000; do
  code=0
  (ulimit -v $kib; exec timeout --signal=KILL 60 "$planner" exec plan.json --steps 1 --quiet \
    >/dev/null 2>err.txt) || code=$?
  [[ $code -eq 0 || $code -eq 2 || $code -eq 3 ]] ||
    fail "running in $kib KiB: exit $code ($(cat err.txt))"
  if [[ $code -ne 0 ]]; then says_one_line "running in $kib KiB"; fi
  if grep -q interrupted err.txt; then fail "in $kib KiB: $(cat err.txt)"; fi
done

# ---- running: all of them, or one message --------------------------------------------------------
done_with=0
for n in 2 3 4 5 6 8 10 12 16 20 24 28 32 40 48; do
  code=0
  limited $n "$planner" exec plan.json --steps 1 --quiet >/dev/null 2>err.txt || code=$?
  if [[ $code -eq 0 ]]; then
    done_with=$n
    break
  fi
  [[ $code -eq 3 ]] || fail "running with $n threads: exit $code ($(cat err.txt))"
  says_one_line "running with $n threads"
  grep -q 'threads: expected [0-9]* threads: 8 for ranks, [0-9]* for their streams, found no thread' \
    err.txt || fail "with $n threads: $(cat err.txt)"
done
[[ $done_with -gt 8 ]] || fail "it ran with $done_with threads"
printf 'planned with 2 threads, ran with %s\n' "$done_with"
