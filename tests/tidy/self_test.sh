#!/usr/bin/env bash
# Tidy has teeth: each rule is broken once in a tree of its own, and must be found at its line.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/sim" "$tree/exec" "$tree/build"
failures=0

# expect WANTED FILE: TEXT of standard input, put into FILE, is answered with the line WANTED
# ("" for none).
expect() {
  local wanted=$1 file=$2 got
  mkdir -p "$tree/$(dirname "$file")"
  cat >"$tree/$file"
  got=$("$here/tidy.sh" "$tree" || true)
  rm "$tree/$file"
  if [[ -z $wanted && $got == "tidy: "* ]] || [[ -n $wanted && $got == "$wanted"* ]]; then return; fi
  printf 'expected %s\nfound    %s\n' "${wanted:-nothing}" "$got"
  failures=$((failures + 1))
}
header() { printf '#pragma once\n// A header.\n%s\n' "$1"; }

header 'int x;' | expect '' sim/good.hpp
printf '// A header.\n' | expect 'sim/a.hpp:1: no #pragma once' sim/a.hpp
printf '#pragma once\nint x;\n' | expect 'sim/a.hpp:2: no opening comment' sim/a.hpp
header "// $(printf 'x%.0s' {1..98})" | expect 'sim/a.hpp:3: 101 columns' sim/a.hpp
header "// $(printf 'é%.0s' {1..97})" | expect '' sim/a.hpp
seq 401 | sed 's|^|// |' | expect 'sim/a.cpp:400: 401 lines' sim/a.cpp
seq 400 | sed 's|^|// |' | expect '' sim/a.cpp
header 'using namespace std;' | expect 'sim/a.hpp:3: using namespace' sim/a.hpp
printf 'using namespace core;\n' | expect '' sim/a.cpp
header '#include <nlohmann/json.hpp>' | expect 'sim/a.hpp:3: a library type' sim/a.hpp
header '#include <mpi.h>' | expect 'sim/a.hpp:3: a library type' sim/a.hpp
header '#include <cuda_runtime.h>' | expect 'sim/a.hpp:3: a library type' sim/a.hpp
header '#include <cuda_runtime.h>' | expect '' exec/a.hpp
printf '#include <nlohmann/json.hpp>\n' | expect '' sim/a.cpp
printf '#include <cassert>\n' | expect 'sim/a.cpp:1: this header' sim/a.cpp
printf 'void f() { assert(true); }\n' | expect 'sim/a.cpp:1: assert() vanishes' sim/a.cpp
printf 'static_assert(sizeof(int) == 4);\n' | expect '' sim/a.cpp
printf 'int x = rand();\n' | expect 'sim/a.cpp:1: a generator' sim/a.cpp
printf 'int operand(int);\n' | expect '' sim/a.cpp
printf 'auto t = std::chrono::system_clock::now();\n' | expect 'sim/a.cpp:1: a clock that jumps' sim/a.cpp
printf '// TODO: later\n' | expect 'sim/a.cpp:1: a note without its end' sim/a.cpp
printf '// TODO(Catch2 2 is gone): remove\n' | expect '' sim/a.cpp
printf 'std::shared_ptr<int> x;\n' | expect 'sim/a.cpp:1: shared_ptr' sim/a.cpp
printf 'int x; \n' | expect 'sim/a.cpp:1: blanks at the end' sim/a.cpp
printf '\tint x;\n' | expect 'sim/a.cpp:1: a tab' sim/a.cpp
printf 'see /%s/alice/plan.json\n' home | expect 'notes.md:1: a path of one machine' notes.md
printf '\t\n' | expect '' build/generated.cpp

if [[ $failures -gt 0 ]]; then exit 1; fi
echo "tidy finds what it must and nothing else"
