#!/usr/bin/env bash
# ./dev on machines that this one is not: a copy of it runs with a PATH of chosen tools, where
# cmake, ctest and apt-get are stand-ins that answer as each case needs. usage: dev_test.sh ROOT
set -euo pipefail
root=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

# fresh TOOL...: an empty checkout, and a PATH of the plain tools and those named.
fresh() {
  rm -rf "$tree"
  mkdir -p "$tree/bin"
  cp "$root/dev" "$tree/dev"
  local tool
  for tool in bash env awk cat dirname grep head mkdir nproc rm sort tail tee "$@"; do
    ln -s "$(command -v "$tool")" "$tree/bin/$tool"
  done
}
# stand_in NAME LINE: a command that runs LINE.
stand_in() {
  rm -f "$tree/bin/$1"
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$tree/bin/$1"
  chmod +x "$tree/bin/$1"
}
# compilers: stand-ins for whatever builds, as if everything had been built.
compilers() {
  local tool
  for tool in g++ ninja pkg-config mpirun; do stand_in $tool 'exit 0'; done
  stand_in cmake 'if [[ $1 == --version ]]; then echo "cmake version 3.25.1"; fi; echo building'
  mkdir -p "$tree/build/release/bin"
  printf '#!/usr/bin/env bash\necho "planner $*"\n' >"$tree/build/release/bin/planner"
  chmod +x "$tree/build/release/bin/planner"
}
run() { (cd / && PATH=$tree/bin "$tree/dev" "$@" >"$tree/out" 2>"$tree/err" </dev/null); }
# check WHAT CODE OUT ERR VERB...: exit code, stdout as a pattern, a part of stderr.
check() {
  local what=$1 code=$2 out=$3 err=$4 got=0
  shift 4
  run "$@" || got=$?
  if [[ $got == "$code" && $(cat "$tree/out") == $out && $(cat "$tree/err") == *"$err"* ]]; then
    return
  fi
  printf '%s: expected %s, found %s\n' "$what" "$code" "$got"
  head -n 20 "$tree/out" "$tree/err"
  failures=$((failures + 1))
}

fresh
compilers
check 'stdout is the planner'"'"'s alone' 0 'planner --model gpt2 --json' '' plan --model gpt2 --json
check 'run passes the verb on' 0 'planner exec plan.json' '' run exec plan.json
check 'an unknown verb' 2 '' "no verb 'paln'" paln
check 'an unknown kind of test' 2 '' "found 'quick'" test quick

stand_in cmake 'if [[ $1 == --version ]]; then echo "cmake version 3.22.1"; fi'
check 'an old cmake' 3 '' 'cmake >= 3.25 is needed, found 3.22.1' build

compilers
stand_in cmake '[[ $1 == --version ]] && echo "cmake version 3.25.1" && exit; echo "error: boom"; exit 1'
check 'a failed build shows its end' 3 '' 'error: boom' build

compilers
stand_in ctest 'echo "50% tests passed, 1 tests failed out of 2"; exit 8'
check 'a failed test' 1 '50% tests passed, 1 tests failed out of 2' 'tests failed' test
stand_in ctest 'echo "x"; echo "100% tests passed, 0 tests failed out of 2"; echo; echo "Total"'
check 'passed tests print the closing lines' 0 \
  $'100% tests passed, 0 tests failed out of 2\nTotal' '' test
rm "$tree/bin/ctest"
ln -s "$(command -v ctest)" "$tree/bin/ctest"
check 'no test at all is a failure' 1 '*No tests were found!!!*' 'tests failed' test

fresh
compilers
rm "$tree/bin/ninja"
check 'another distribution' 3 '' 'missing ninja-build: runs the build' build
check 'another distribution gets equivalents' 3 '' 'Fedora: gcc-c++ cmake ninja-build' build
stand_in apt-get 'echo "Could not resolve the mirror"; exit 100'
stand_in sudo 'exec "$@"'
check 'no network' 3 '' 'once there is one, run: apt-get update && apt-get install ninja-build' build
check 'no network shows why' 3 '' 'Could not resolve the mirror' build

fresh
compilers
mkdir -p "$tree/build/asan" "$tree/build/tsan"
stand_in ctest 'echo "100% tests passed, 0 tests failed out of 2"'
stand_in apt-get 'echo "Unable to locate the package"; exit 100'
stand_in sudo 'exec "$@"'
check 'a package of a few tests that is nowhere' 0 '100% tests passed*' \
  'without chromium its test is skipped' test full

check 'without the headers of Python the rest is tested' 0 '100% tests passed*' \
  'without python3-dev its test is skipped' test
rm "$tree/bin/apt-get"
check 'neither with another distribution' 0 '100% tests passed*' 'tests: release, fast' test

if [[ $failures -gt 0 ]]; then exit 1; fi
echo "./dev answers as it should"
