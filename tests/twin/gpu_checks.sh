#!/usr/bin/env bash
# The checks that tests/gpu/gpu_test.sh makes on a GPU, on its twin: a script that is run where a GPU costs
# money has been run before. usage: gpu_checks.sh BIN_FOLDER BINARY
set -euo pipefail
gpu_test=$(cd "$(dirname "${BASH_SOURCE[0]}")/../gpu" && pwd)/gpu_test.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
mkdir bin
cp "$1/planner" "$1/planner-exec" "$2" bin/
for check in trains equals_host records strategies calibrated; do
  bash "$gpu_test" bin "$check" || fail "$check"
done
