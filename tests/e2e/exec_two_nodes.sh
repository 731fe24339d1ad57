#!/usr/bin/env bash
# Two "nodes", each a network namespace with two ranks, joined by one cable (veth), under torchrun's
# variables and no MPI: the same losses as threads, the kernel's own count of what crosses, and an end
# to both where the cable is cut. usage: exec_two_nodes.sh BIN_FOLDER; skipped (77) where the kernel
# lets us have no namespaces.
set -euo pipefail
planner=$1/planner
source "$(dirname "${BASH_SOURCE[0]}")/processes.sh"
node=tcp$$
if ! command -v ip >/dev/null; then
  echo "skipped: no ip (install iproute2)"
  exit 77
fi
if ! ip netns add "${node}a" 2>refused.txt || ! ip netns add "${node}b" 2>refused.txt; then
  ip netns del "${node}a" 2>/dev/null || true
  printf 'skipped: expected to be allowed network namespaces, found %s\n' "$(cat refused.txt)"
  exit 77
fi
trap 'end_all; ip netns del "${node}a"; ip netns del "${node}b"' EXIT
if ! ip link add "${node}x" netns "${node}a" type veth peer name "${node}y" netns "${node}b" \
  2>refused.txt; then
  printf 'skipped: expected to be allowed a cable, found %s\n' "$(cat refused.txt)"
  exit 77
fi
ip -n "${node}a" addr add 10.79.0.1/24 dev "${node}x"
ip -n "${node}b" addr add 10.79.0.2/24 dev "${node}y"
for end in "${node}a ${node}x" "${node}b ${node}y"; do
  ip -n "${end% *}" link set lo up
  ip -n "${end% *}" link set "${end#* }" up
done
crossed() { ip netns exec "${node}a" cat "/sys/class/net/${node}x/statistics/$1"; }

# start OPTION...: four ranks, two on each node.
pids=()
start() {
  local r side
  for r in 3 1 2 0; do
    if [[ $r -lt 2 ]]; then side=a; else side=b; fi
    RANK=$r WORLD_SIZE=4 LOCAL_RANK=$((r % 2)) LOCAL_WORLD_SIZE=2 MASTER_ADDR=10.79.0.1 \
      MASTER_PORT=4711 PLANNER_SECRET=shared ip netns exec "$node$side" "$planner" exec plan.json \
      --communicator tcp --quiet "$@" >"out.$r" 2>"err.$r" &
    pids[r]=$!
  done
}
# rank_ends RANK CODE PATTERN: its exit code and the one line it says, or none.
rank_ends() {
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

for pins in "data=4 sharding=zero3" "data=2 tensor=2 sharding=zero1" "data=2 pipeline=2 schedule=1f1b"; do
  # shellcheck disable=SC2086
  plan plan.json 4 $pins
  "$planner" exec plan.json --steps 20 --quiet --out threads.json >/dev/null
  before=$(crossed tx_bytes)
  start --steps 20 --json
  for r in 0 1 2 3; do rank_ends $r 0 ''; done
  cp out.0 processes.json
  measured threads.json >threads.txt
  measured processes.json >processes.txt
  diff threads.txt processes.txt || fail "two nodes differ from threads: $pins"
  # What ranks 0 and 1 sent to 2 and 3, and the frames, acknowledgements and signs of life around it.
  ours=$(awk '/"from"/ {gsub(/[^0-9]/, ""); from = $0} /"to"/ {gsub(/[^0-9]/, ""); to = $0}
    /"wire_bytes"/ {gsub(/[^0-9]/, ""); if (from < 2 && to >= 2) sum += $0} END {print sum + 0}' \
    <(sed -n '/^  "sent"/,/^  \]/p' processes.json))
  kernel=$(($(crossed tx_bytes) - before))
  [[ $kernel -ge $ours ]] || fail "$pins: ranks count $ours bytes across, the kernel $kernel"
  printf '%s: %s bytes across by our count, %s by the kernel with all around them\n' \
    "$pins" "$ours" "$kernel"
done

# The cable is cut: nobody hears of it but by silence. Each side ends, and one of each says why.
start --steps 1000000 --checkpoint-dir kept
begun "${pids[0]}" kept_since kept ''
ip -n "${node}a" link set "${node}x" down
rank_ends 0 3 "rank [23]: was not heard from for 5 s: it is stopped, or its machine or the network is gone"
rank_ends 1 3 ''
rank_ends 2 3 "rank 0: was not heard from for 5 s"
rank_ends 3 3 ''
no_orphans "the cable is cut"
ip -n "${node}a" link set "${node}x" up

reached=$(kept kept | sed 's/.*step-0*//')
# It goes on where it was, on one machine.
steps=$((10#$reached + 5))
"$planner" exec plan.json --communicator tcp --steps $steps --checkpoint-dir kept --quiet >/dev/null ||
  fail "it does not go on after step $reached"
printf 'two nodes over TCP: same losses, memory and bytes; cut at step %s and gone on\n' "$reached"
