# Sourced by tests of runs whose ranks are processes: lib.sh, a small model, and what holds for every
# communicator. Set before: planner (its path), rank_variable (of a rank's environment).
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# No rank and no launcher of this test outlives its run.
no_orphans() { eventually "the end of all ranks: $1" none_of_this_test; }
none_of_this_test() { [[ -z $(of_this_test) ]]; }
# Launchers and ranks whose folder is ours.
of_this_test() {
  local p
  for p in /proc/[0-9]*; do
    if [[ $(cat "$p/comm" 2>/dev/null) == @(mpirun|planner*) &&
      $(readlink "$p/cwd") == "$work" ]]; then printf '%s ' "${p#/proc/}"; fi
  done
}

# A test that fails leaves nobody behind either.
end_all() {
  local left
  left=$(of_this_test)
  # shellcheck disable=SC2086
  if [[ -n $left ]]; then kill -9 $left || true; fi
  rm -rf "$work"
}
trap end_all EXIT

# expect CODE PATTERN COMMAND...: its exit code, and one line of planner's that says so.
expect() {
  local wanted=$1 pattern=$2 code=0
  shift 2
  "$@" 2>err.txt >out.txt || code=$?
  [[ $code -eq $wanted ]] || fail "exit $code instead of $wanted: $* ($(cat err.txt))"
  grep '^planner: ' err.txt >said.txt || fail "not a word from: $* ($(cat err.txt))"
  grep -q -- "$pattern" said.txt || fail "no \"$pattern\" from: $* ($(cat said.txt))"
  [[ $(wc -l <said.txt) -eq 1 ]] || fail "more than one line from: $* ($(cat said.txt))"
  no_orphans "$*"
}

printf '%s' '{"model_type":"llama","num_hidden_layers":2,"hidden_size":32,"intermediate_size":64,
  "num_attention_heads":4,"num_key_value_heads":2,"max_position_embeddings":16,"vocab_size":256,
  "tie_word_embeddings":false}' >config.json
plan() {
  local file=$1 gpus=$2 pins=() pin
  shift 2
  for pin in "$@"; do pins+=(--pin "$pin"); done
  "$planner" --model config.json --gpus "$gpus" --seq 16 --global-batch 4 --recipe mixed \
    --gpu h100-sxm-80g "${pins[@]}" --quiet --out "$file" >/dev/null
}
# What must not depend on the communicator: losses, memory, and every entry's counts and bytes.
measured() {
  sed -n -e '/^  "loss"/p' -e '/^  "memory"/,/^  }/p' -e '/^  "communication"/,/^  \]/p' "$1" |
    grep -v '"seconds"'
}

# same_loss FILE [OF]: the losses of threads.json, or of another record.
same_loss() {
  grep '^  "loss": \[' "${2:-threads.json}" >loss.txt
  grep -F -x -q -f loss.txt "$1" || fail "other losses in $1 than $(cat loss.txt)"
}

# as_predicted PLAN RECORD WHAT: all bytes are those of the plan.
as_predicted() {
  "$planner" compare "$1" "$2" | grep 'bytes and counts are equal' >verdict.txt
  [[ $(cat verdict.txt) =~ ^([0-9]+)\ of\ ([0-9]+)\ bytes &&
    ${BASH_REMATCH[1]} == "${BASH_REMATCH[2]}" ]] || fail "not as predicted: $3 ($(cat verdict.txt))"
}
# as_threads COMMUNICATOR RANKS PIN...: losses, memory and communication are those of threads.
as_threads() {
  local communicator=$1
  shift
  plan plan.json "$@"
  "$planner" exec plan.json --steps 2 --quiet --out threads.json >/dev/null
  "$planner" exec plan.json --communicator "$communicator" --quiet --steps 2 \
    --out processes.json >page.txt
  measured threads.json >threads.txt
  measured processes.json >processes.txt
  [[ $(wc -l <threads.txt) -gt 30 ]] || fail "nothing measured: $*"
  diff threads.txt processes.txt || fail "processes differ from threads: $*"
  as_predicted plan.json processes.json "$*"
}

# begin_run COMMUNICATOR OPTION...: a run in the background, whose process is $pid.
begin_run() {
  # Background jobs of a script ignore SIGINT; env sets it back.
  env --default-signal=INT "$planner" exec plan.json --communicator "$1" --quiet "${@:2}" \
    >/dev/null 2>err.txt &
  pid=$!
}
rank_pid() {
  local p
  for p in $(of_this_test); do
    if tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null |
      grep -x "$rank_variable=$1" >/dev/null; then
      printf '%s' "$p"
      return
    fi
  done
}
rank_runs() { [[ -n $(rank_pid "$1") ]]; }
# kept FOLDER: its last complete step, or nothing.
kept() { find . -maxdepth 2 -path "./$1/step-*" | sort | tail -n 1; }
kept_since() { [[ $(kept "$1") != "$2" ]]; }
