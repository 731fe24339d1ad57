#!/usr/bin/env bash
# Two "nodes", each a network namespace with two ranks, joined by one cable (veth), under torchrun's
# variables and no MPI: the same losses as threads, the kernel's own count of what crosses, and an end
# to both where the cable is cut. usage: exec_two_nodes.sh BIN_FOLDER; skipped (77) where the kernel
# lets us have no namespaces.
set -euo pipefail
planner=$1/planner
source "$(dirname "${BASH_SOURCE[0]}")/processes.sh"
if ! lay_cable "tcp$$" 10.79.0; then
  printf 'skipped: expected to be allowed network namespaces, found %s\n' "$(cat refused.txt)"
  exit 77
fi
crossed() { ip netns exec "${node}a" cat "/sys/class/net/${node}x/statistics/$1"; }

start() { on_nodes 10.79.0 "$planner" exec plan.json --communicator tcp --quiet "$@"; }

for pins in "data=4 sharding=zero3" "data=2 tensor=2 sharding=zero1" "data=2 pipeline=2 schedule=1f1b"; do
  # shellcheck disable=SC2086
  plan plan.json 4 $pins
  "$planner" exec plan.json --steps 20 --quiet --out threads.json >/dev/null
  before=$(crossed tx_bytes)
  start --steps 20 --json
  for r in 0 1 2 3; do ended $r 0 ''; done
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

start --steps 1000000 --checkpoint-dir kept
begun "${pids[0]}" kept_since kept ''
cut_cable
ended_by_silence
ip -n "${node}a" link set "${node}x" up

reached=$(kept kept | sed 's/.*step-0*//')
# It goes on where it was, on one machine.
steps=$((10#$reached + 5))
"$planner" exec plan.json --communicator tcp --steps $steps --checkpoint-dir kept --quiet >/dev/null ||
  fail "it does not go on after step $reached"
printf 'two nodes over TCP: same losses, memory and bytes; cut at step %s and gone on\n' "$reached"
