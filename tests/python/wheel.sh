#!/usr/bin/env bash
# A wheel is built from a copy of the checkout, with the libraries that it needs, and installed into a
# virtual environment that has nothing else. The tests of the module then run there. Skipped where pip
# cannot fetch its build tools. usage: wheel.sh PYTHON BIN_FOLDER SOURCE_FOLDER
set -uo pipefail
python=$1 bin=$(cd "$2" && pwd) source=$(cd "$3" && pwd)
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
skip() {
  printf 'skipped: %s\n' "$*"
  exit 77
}
unset PYTHONPATH PYTHONHOME

mkdir checkout
(cd "$source" && tar --exclude=./build --exclude=./.git -cf - .) | tar -C checkout -xf -
status=0
wheel=$(checkout/python/make_wheel.sh "$python" checkout wheels 2>wheel.txt) || status=$?
[[ $status -ne 77 ]] || skip "no tools for wheels: $(tail -n 1 wheel.txt)"
[[ $status -eq 0 ]] || fail "no wheel: $(tail -n 20 wheel.txt)"
[[ $wheel == *-manylinux_* ]] || fail "a wheel for this machine alone: $wheel"
files=$("$python" -m zipfile --list "$wheel") || fail 'the wheel is no archive'
for name in planner/__init__.py planner/verbs.pyi planner/py.typed planner/_planner.cpython \
  planner.libs/libfmt; do
  [[ $files == *"$name"* ]] || fail "the wheel lacks $name: $files"
done
[[ $files != *.hpp* && $files != *.a* ]] || fail "the wheel has files of the build: $files"

"$python" -m venv fresh || fail 'no second environment'
fresh/bin/pip install --quiet --no-index "$wheel" || fail 'the wheel does not install'
found=$(fresh/bin/python -c 'import planner; print(planner.__file__)')
[[ $found == "$PWD"/fresh/* ]] || fail "imported from $found"
version=$("$bin/planner" --version)
[[ $version == "planner $(fresh/bin/python -c 'import planner; print(planner.__version__)')"* ]] ||
  fail "another version than $version"
export PLANNER_BINARY=$bin/planner PLANNER_SOURCE=$source
for script in answers errors calls stub tutorial; do
  fresh/bin/python -B "$source/tests/python/${script}_test.py" >"$script.txt" 2>&1 ||
    fail "${script}_test.py: $(tail -n 30 "$script.txt")"
done
printf 'the wheel installs into a bare environment, and answers there\n'
