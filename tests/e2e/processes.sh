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

# No launcher's variable of ours is taken for one of the test's.
for variable in RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT PLANNER_SECRET \
  PLANNER_PORT SLURM_PROCID OMPI_COMM_WORLD_RANK TORCHELASTIC_USE_AGENT_STORE; do
  unset $variable
done

# ---- ranks that others start: their words are in out.N and err.N, their processes in pids[N]
pids=()
port=$((20000 + $$ % 12000))
taken() { (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
next_port() {
  port=$((port + 1))
  while taken; do port=$((port + 1)); done
}
# rank N SIZE COMMAND...: one rank in the background, as torchrun's environment has it.
rank() {
  RANK=$1 WORLD_SIZE=$2 LOCAL_RANK=$1 LOCAL_WORLD_SIZE=$2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
    "${@:3}" >"out.$1" 2>"err.$1" &
  pids[$1]=$!
}
# two_of_srun COMMAND...: two ranks, as srun's variables have them.
two_of_srun() {
  local r
  for r in 0 1; do
    SLURM_PROCID=$r SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=$r SLURM_JOB_ID=7 PLANNER_PORT=$port \
      SLURM_STEP_NODELIST=localhost "$@" >"out.$r" 2>"err.$r" &
    pids[r]=$!
  done
}
# two_of_mpirun COMMAND...: its output is in out.0.
two_of_mpirun() {
  local code=0
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HWLOC_COMPONENTS=-gl \
    mpirun --oversubscribe -n 2 env MASTER_PORT=$port "$@" >out.0 2>err.txt || code=$?
  [[ $code -eq 0 ]] || fail "under mpirun: exit $code: $(cat err.txt)"
}
# code_of N: sets `code` to the exit code of rank N.
code_of() {
  code=0
  { wait "${pids[$1]}" || code=$?; } 2>/dev/null
}
# ended N CODE PATTERN: rank N's exit code and all it said, one line or, without a pattern, nothing.
ended() {
  code_of "$1"
  [[ $code -eq $2 ]] || fail "rank $1: exit $code instead of $2: $(cat err.*)"
  if [[ -z $3 ]]; then
    [[ ! -s err.$1 ]] || fail "rank $1 said: $(cat "err.$1")"
  else
    grep -q -- "$3" "err.$1" || fail "rank $1: no \"$3\" in: $(cat err.*)"
    [[ $(wc -l <"err.$1") -eq 1 ]] || fail "rank $1: more than one line: $(cat "err.$1")"
  fi
}

# ---- two nodes: network namespaces ${node}a and ${node}b, joined by one cable
# lay_cable NODE NETWORK: nodes NETWORK.1 and NETWORK.2. False where it is not allowed, with the
# reason in refused.txt.
lay_cable() {
  local end
  node=$1
  if ! command -v ip >/dev/null; then
    echo "no ip (install iproute2)" >refused.txt
    return 1
  fi
  ip netns add "${node}a" 2>refused.txt || return 1
  trap 'end_all; ip netns del "${node}a"; ip netns del "${node}b" 2>/dev/null || true' EXIT
  ip netns add "${node}b" 2>refused.txt || return 1
  ip link add "${node}x" netns "${node}a" type veth peer name "${node}y" netns "${node}b" \
    2>refused.txt || return 1
  ip -n "${node}a" addr add "$2.1/24" dev "${node}x"
  ip -n "${node}b" addr add "$2.2/24" dev "${node}y"
  for end in "${node}a ${node}x" "${node}b ${node}y"; do
    ip -n "${end% *}" link set lo up
    ip -n "${end% *}" link set "${end#* }" up
  done
}
cut_cable() { ip -n "${node}a" link set "${node}x" down; }
# on_nodes NETWORK COMMAND...: four ranks, two on each node.
on_nodes() {
  local r side
  for r in 3 1 2 0; do
    if [[ $r -lt 2 ]]; then side=a; else side=b; fi
    RANK=$r WORLD_SIZE=4 LOCAL_RANK=$((r % 2)) LOCAL_WORLD_SIZE=2 MASTER_ADDR=$1.1 \
      MASTER_PORT=4711 PLANNER_SECRET=shared ip netns exec "$node$side" "${@:2}" \
      >"out.$r" 2>"err.$r" &
    pids[r]=$!
  done
}
# The cable is cut: nobody hears of it but by silence. Each side ends, and one of each says why.
ended_by_silence() {
  ended 0 3 "rank [23]: was not heard from for 5 s: it is stopped, or its machine or the network is gone"
  ended 1 3 ''
  ended 2 3 "rank 0: was not heard from for 5 s"
  ended 3 3 ''
  no_orphans "the cable is cut"
}
