#!/usr/bin/env bash
# A run that is killed, interrupted or runs out of disk leaves nothing half done, says one clear
# thing, and goes on bitwise. usage: exec_faults.sh BIN_FOLDER [KILLS]
set -euo pipefail
planner=$1/planner
kills=${2:-12}
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# expect CODE PATTERN COMMAND...: its exit code, and one line on stderr that says so.
expect() {
  ends "$@"
  says_one_line "${@:3}"
}

printf '%s' '{"model_type":"llama","num_hidden_layers":2,"hidden_size":32,"intermediate_size":64,
  "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":16,"vocab_size":256,
  "tie_word_embeddings":false}' >config.json
"$planner" --model config.json --gpus 2 --seq 16 --global-batch 4 --recipe mixed \
  --gpu h100-sxm-80g --pin data=2 --pin sharding=zero1 --quiet --out plan.json >/dev/null
head -c 100000 "$planner" | tr -c 'a-z \n' ' ' >corpus.txt
run() { "$planner" exec plan.json --data corpus.txt --quiet "$@"; }

# ---- killed at any moment: the last complete step, bit by bit -----------------------------------
RANDOM=${SEED:-7}
killed=0
kept() { find . -maxdepth 2 -path './parts/step-*' | sort | tail -n 1; }
kept_since() { [[ $(kept) != "$1" ]]; }
while [[ $killed -lt $kills ]]; do
  before=$(kept)
  # More steps than it comes to.
  "$planner" exec plan.json --data corpus.txt --quiet --steps 1000000 --checkpoint-dir parts \
    >/dev/null 2>err.txt &
  pid=$!
  # At any moment after its start, or (every other time) after its first step.
  if [[ $((killed % 2)) -eq 1 ]]; then begun $pid kept_since "$before"; fi
  sleep "0.0$((RANDOM % 90 + 10))"
  if ! kill -9 $pid 2>/dev/null; then fail "it ended before it was killed: $(cat err.txt)"; fi
  wait $pid 2>/dev/null || true
  killed=$((killed + 1))
done
reached=$(kept | sed 's/.*step-0*//')
if [[ -z $reached ]]; then fail "killed $kills times, it never kept a step"; fi
readonly steps=$((10#$reached + 20))
last=$(printf 'step-%08d' $steps)
run --steps $steps --checkpoint-dir parts --out parts.json >/dev/null
run --steps $steps --checkpoint-dir whole --checkpoint-every $steps --out whole.json >/dev/null
[[ -z $(find parts -name '.step-*') ]] || fail "a half-written step is left: $(ls -a parts)"
for rank in 0 1; do
  cmp "whole/$last/rank-000$rank" "parts/$last/rank-000$rank" ||
    fail "rank $rank went on to other bits"
done

# ---- interrupted: 130, one line, nothing half written -------------------------------------------
for signal in INT TERM; do
  code=0
  # Background jobs of a script ignore SIGINT; env sets it back.
  env --default-signal=INT "$planner" exec plan.json --data corpus.txt --quiet --steps 100000 \
    --checkpoint-dir "on-$signal" --out on.json >/dev/null 2>err.txt &
  pid=$!
  begun $pid exists "on-$signal/step-*"
  kill -$signal $pid
  wait $pid || code=$?
  if [[ $signal == INT ]]; then wanted=130; else wanted=143; fi
  [[ $code -eq $wanted ]] || fail "exit $code after $signal"
  [[ $(cat err.txt) == "planner: interrupted" ]] || fail "said after $signal: $(cat err.txt)"
  [[ ! -e on.json && -z $(find "on-$signal" -name '.step-*') ]] || fail "half a file after $signal"
done

# ---- a disk that takes no more ------------------------------------------------------------------
full() (
  trap '' XFSZ
  ulimit -f 8
  run --steps 3 --checkpoint-dir full
)
expect 3 "full/.step-00000001.partial/rank-000.*too large.*free some space" full
[[ -z $(find full -name '.step-*') ]] || fail "half a step on a full disk"

# ---- bad input ----------------------------------------------------------------------------------
cp -r whole damaged
truncate -s -1 "damaged/$last/rank-0001"
expect 2 "rank-0001: expected a file of" run --steps 500 --checkpoint-dir damaged
kept=$("$planner" verify damaged) && fail "verify takes a damaged step: $kept"
grep -q 'rank-0001: expected a file of' <<<"$kept" || fail "verify does not name it: $kept"
expect 2 "rank-0001: expected a file of" run --steps 500 --checkpoint-dir damaged --skip-damaged
# The two steps before the end are kept: from the first of them the same bits are made again.
cp -r parts passed
truncate -s -1 "passed/$last/rank-0001"
kept=$("$planner" verify passed) && fail "verify takes a damaged step: $kept"
grep -q -- '--skip-damaged' <<<"$kept" || fail "verify does not say how to go on: $kept"
run --steps $steps --checkpoint-dir passed --skip-damaged >out.txt 2>err.txt ||
  fail "going on from the step before: $(cat err.txt)"
grep -q "damaged-$last: .*rank-0001: expected a file of" err.txt || fail "not said: $(cat err.txt)"
for rank in 0 1; do
  cmp "whole/$last/rank-000$rank" "passed/$last/rank-000$rank" || fail "rank $rank has other bits"
done
expect 2 "skip-damaged: expected a --checkpoint-dir" run --skip-damaged
"$planner" verify whole --json | grep '"problems": \[\]' >/dev/null || fail "verify refuses what is whole"
cp -r whole swapped
cp "swapped/$last/rank-0000" "swapped/$last/rank-0001"
expect 2 "rank-0001: expected the state of rank 1 after step $steps, found that of rank 0" \
  run --steps 500 --checkpoint-dir swapped
cp -r whole renamed
mv "renamed/$last" renamed/step-00009001
expect 2 "manifest.json.*steps_done: expected 9001, as its folder is called, found $steps" \
  run --steps 9002 --checkpoint-dir renamed
cp -r whole foreign
expect 2 "seed: expected 9, found 1" run --seed 9 --steps 500 --checkpoint-dir foreign
expect 2 "training: expected lr 0.0005, betas.*found the default" \
  run --lr 5e-4 --steps 500 --checkpoint-dir foreign
run --lr 5e-4 --steps 1 --checkpoint-dir slower >/dev/null
expect 2 "training: expected the default, found lr 0.0005, betas" \
  run --steps 2 --checkpoint-dir slower
expect 2 "lr: expected a number that is not negative, found -1" run --lr -1
expect 2 "decay: expected constant, cosine or linear" run --decay exponential
expect 2 "warmup: expected fewer steps than the decay, which ends at step 3, found 3" \
  run --warmup 3 --decay cosine
expect 2 "more than the $steps that lie behind" run --steps 5 --checkpoint-dir foreign
expect 2 "checkpoint-every: expected a --checkpoint-dir" run --checkpoint-every 2
expect 2 "checkpoint-dir /dev/null/x" run --checkpoint-dir /dev/null/x
expect 2 "no-such-file" "$planner" exec plan.json --data no-such-file
expect 2 "/dev/zero: expected a file or a pipe, found a device" \
  "$planner" exec plan.json --data /dev/zero
expect 2 "t.json: expected its folder" run --trace no/such/folder/t.json
: >empty.txt
expect 2 "at least 17 tokens" "$planner" exec plan.json --data empty.txt

expect 2 'communicator nccl: expected --backend cuda beside it' \
  run --communicator nccl
expect 2 'backend: expected host or cuda, found "tpu"' run --backend tpu
expect 2 "hostfile no-such-file: expected a file" run --communicator mpi --hostfile no-such-file

# ---- llm.c's files of tokens: GPT-2's of 16 bits, Llama 3's of 32, and what is none of them --------
# tokens MAGIC VERSION COUNT [BYTE]: the header's words as bytes, then 80 bytes of tokens.
tokens() {
  printf '%b%b%b' "$1" "$2" "$3"
  head -c 1012 /dev/zero
  head -c 80 /dev/zero | tr '\0' "${4:-\0}"
}
readonly gpt2='\x88\xd8\x34\x01' llama='\xa1\xd9\x34\x01'
readonly one='\x01\x00\x00\x00' seven='\x07\x00\x00\x00' twenty='\x14\x00\x00\x00' forty='\x28\x00\x00\x00'
tokens "$gpt2" "$one" "$forty" >gpt2.bin
tokens "$llama" "$seven" "$twenty" >llama.bin
for file in gpt2 llama; do
  "$planner" exec plan.json --data $file.bin --steps 1 --quiet >out.txt || fail "tokens of $file"
done
tokens "$gpt2" "$one" "$forty" '\1' >large.bin
expect 2 "token 0: expected tokens below the vocabulary's 256, found 257" \
  "$planner" exec plan.json --data large.bin
tokens "$gpt2" "$seven" "$forty" >other.bin
expect 2 "expected version 1 of this file of tokens, found 7" \
  "$planner" exec plan.json --data other.bin
tokens "$gpt2" "$one" "$twenty" >short.bin
expect 2 "the 20 tokens that its header says, found 80 bytes of 2 a token" \
  "$planner" exec plan.json --data short.bin

# ---- a trace that a viewer reads -----------------------------------------------------------------
run --steps 2 --trace trace.json >/dev/null
grep -q '"cat":"optimizer"' trace.json || fail "no optimizer in the trace"
grep -q '"name":"reduce_scatter gradients"' trace.json || fail "no collective in the trace"
run --steps 2 --trace part.json --ranks 1 --micro-batches 0 >/dev/null
if grep -q '"pid":0' part.json; then fail "a rank in the trace that was not asked for"; fi
grep -q '"pid":1' part.json || fail "no rank in the trace"
expect 2 "ranks: expected ranks from 0 to" run --trace t.json --ranks 9
run --steps 2 --trace trace.pftrace >/dev/null
[[ $(wc -c <trace.pftrace) -lt $(wc -c <trace.json) ]] || fail "packets are no smaller than JSON"
if command -v python3 >/dev/null; then python3 -c 'import json; json.load(open("trace.json"))'; fi
printf 'killed %s times (last at step %s), interrupted, full: all went on or said why\n' \
  "$kills" "$reached"
