#!/usr/bin/env bash
# `pip install .` as a user does it: a wheel is built from a copy of the checkout, and installed into a
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

"$python" -m venv build-tools >venv.txt 2>&1 || skip "no virtual environments: $(tail -n 1 venv.txt)"
build-tools/bin/pip install --quiet 'scikit-build-core>=0.10' 'pybind11>=2.10' ninja >pip.txt 2>&1 ||
  skip "pip cannot fetch scikit-build-core: $(tail -n 1 pip.txt)"

mkdir checkout
(cd "$source" && tar --exclude=./build --exclude=./.git -cf - .) | tar -C checkout -xf -
PATH=$PWD/build-tools/bin:$PATH build-tools/bin/pip wheel --no-build-isolation --no-deps --wheel-dir wheels \
  ./checkout >wheel.txt 2>&1 || fail "no wheel: $(tail -n 20 wheel.txt)"
files=$("$python" -m zipfile --list wheels/planner-*.whl) || fail 'the wheel is no archive'
for name in planner/__init__.py planner/verbs.pyi planner/py.typed planner/_planner.cpython; do
  [[ $files == *"$name"* ]] || fail "the wheel lacks $name: $files"
done
[[ $files != *.hpp* && $files != *.a* ]] || fail "the wheel has files of the build: $files"

"$python" -m venv fresh || fail 'no second environment'
fresh/bin/pip install --quiet --no-index wheels/planner-*.whl || fail 'the wheel does not install'
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
