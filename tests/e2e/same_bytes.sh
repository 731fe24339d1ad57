#!/usr/bin/env bash
# Two builds of one checkout are the same bytes, wherever they lie: planner is built again in another
# folder and compared with this one.
# usage: same_bytes.sh BIN_FOLDER SOURCE BUILD
set -euo pipefail
bin=$1 source=$2 build=$3
again=$(mktemp -d)
trap 'rm -rf "$again"' EXIT
value() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
cmake -G Ninja -S "$source" -B "$again/elsewhere" -DPLANNER_TESTS=OFF -DPLANNER_CUDA=OFF -DPLANNER_MPI=OFF \
  -DCMAKE_BUILD_TYPE="$(value CMAKE_BUILD_TYPE)" -DCMAKE_CXX_COMPILER="$(value CMAKE_CXX_COMPILER)" \
  -DPLANNER_UNITY="$(value PLANNER_UNITY)" -DPLANNER_NATIVE="$(value PLANNER_NATIVE)" >/dev/null
ninja -C "$again/elsewhere" planner_binary >/dev/null
if ! cmp "$bin/planner" "$again/elsewhere/bin/planner"; then
  printf 'two builds of one checkout differ\n'
  exit 1
fi
printf 'the same %s bytes\n' "$(stat -c %s "$bin/planner")"
