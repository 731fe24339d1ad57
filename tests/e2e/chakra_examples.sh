#!/usr/bin/env bash
# ASTRA-sim's own example traces play (tests/chakra/README.md). usage: ... BIN_FOLDER SOURCE_FOLDER
set -uo pipefail
planner=$1/planner
examples=$2/tests/chakra
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# figure KEY: the first number at the key, in the last answer.
figure() { sed -n "s/^ *\"$1\": \([-0-9.e+]*\),*$/\1/p" out.txt | head -n 1; }

# plays FOLDER RANKS NODES COLLECTIVE COUNT PAYLOAD WIRE
plays() {
  answers 0 '' "$planner" simulate "$examples/$1" --gpu h100-sxm-80g --json
  local found
  found="$(figure ranks) $(figure nodes) $(sed -n 's/.*"collective": "\(.*\)",/\1/p' out.txt)"
  found="$found $(figure count) $(figure payload_bytes) $(figure wire_bytes_per_rank)"
  [[ $found == "$2 $3 $4 $5 $6 $7" ]] || complain "$1: $found"
}
plays all_reduce 4 4 all_reduce 1 1048576 1572864
plays all_gather 4 4 all_gather 1 4194304 3145728
plays reduce_scatter 4 4 reduce_scatter 1 1048576 786432
plays all_to_all 4 4 all_to_all 1 1048576 786432
plays all_reduce_2024 8 8 all_reduce 1 1048576 1835008
plays ring_of_messages 8 280 send 14 1835008 1835008
plays resnet50_2023 2 430 all_reduce 54 102011648 102011648

# Their collectives have no recorded times, which needs a machine.
answers 2 'a machine to find it for' "$planner" simulate "$examples/all_reduce"
# Another version is refused by its number: 9.0.4.
mkdir newer
sed '1,2s/0\.0\.4/9.0.4/' "$examples/all_reduce_2024/AllReduce_1MB.0.et" >newer/a.0.et
answers 2 'schema 0.0.4 or 1.x, found version 9.0.4' "$planner" simulate newer

if [[ $failures -gt 0 ]]; then
  printf '%s checks failed\n' "$failures"
  exit 1
fi
printf 'chakra: the examples play\n'
