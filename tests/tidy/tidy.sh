#!/usr/bin/env bash
# Style that a script can hold (tests/tidy/README.md). usage: tidy.sh ROOT
# Prints file:line: what is wrong and what to write instead; exits 1 if anything was printed.
# Needs bash, find and awk. Build folders and embedded data are left out.
set -euo pipefail
tidy=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
cd "$1"

sources() {
  find . \( -name build -o -name .git -o -name .cache \) -prune -o -type f \
    \( -name '*.hpp' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu' \) -print | sort
}
texts() {
  find . \( -name build -o -name .git -o -name .cache -o -path ./tests/tidy \) -prune -o -type f \
    \( -name '*.?pp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cmake' -o -name '*.md' \
    -o -name '*.sh' -o -name '*.json' -o -name '*.csv' -o -name CMakeLists.txt -o -name dev \
    -o -path './.ci/*' \) -print | sort
}

# lint RULES: runs one awk program over the files of standard input.
lint() { xargs -r -d '\n' awk -f "$tidy/$1"; }

found=$({ sources | lint sources.awk; texts | lint texts.awk; } | sed 's|^\./||')
if [[ -n $found ]]; then
  printf '%s\n' "$found"
  exit 1
fi
printf 'tidy: %s source files\n' "$(sources | wc -l)"
