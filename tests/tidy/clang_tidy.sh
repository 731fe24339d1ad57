#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy over everything that a build folder compiles, but for CUDA, tests and
# what the build makes itself. usage: clang_tidy.sh BUILD_FOLDER [PROCESSES]
# Prints each finding, and ends with 1 if there is one. Needs clang-tidy 14; no test runs this (about 20 minutes on two
# cores). Batches of sources (PLANNER_UNITY) are checked as they are compiled: that is faster than one by one.
set -euo pipefail
build=$(readlink -f "${1:?usage: clang_tidy.sh BUILD_FOLDER [PROCESSES]}")
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
list=$(python3 - "$build/compile_commands.json" "$build/" <<'PYTHON'
import json, sys
files = {entry["file"] for entry in json.load(open(sys.argv[1]))}
own = [f for f in files if f.endswith(".cpp") and not f.startswith(sys.argv[2])]
batches = [f for f in files if f.endswith("_cxx.cxx")]
print("\n".join(sorted(f for f in own + batches if "/tests/" not in f)))
PYTHON
)
found=$(mktemp)
trap 'rm -f "$found"' EXIT
# A header in two batches is told once. What another compiler warns of is no finding.
xargs -P "${2:-$(nproc)}" -n 1 clang-tidy -p "$build" --quiet --extra-arg=-Wno-everything <<<"$list" 2>/dev/null |
  grep -E '(warning|error): .*\[' | sed 's/,-warnings-as-errors\]$/]/' | sort -u >"$found" || true
cat "$found"
[[ ! -s $found ]] || exit 1
echo "clang-tidy: $(wc -l <<<"$list") sources and batches"
