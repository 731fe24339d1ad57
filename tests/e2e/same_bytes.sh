#!/usr/bin/env bash
# Two builds of one source are the same bytes, wherever they lie: the source is copied into two folders, built
# and packed in each (without a compiler cache, which would hand the first's objects to the second), and every
# package is compared. usage: same_bytes.sh BIN_FOLDER SOURCE BUILD
set -euo pipefail
source=$(cd "$2" && pwd) build=$3
folders=$(mktemp -d)
trap 'rm -rf "$folders"' EXIT
unset CMAKE_CXX_COMPILER_LAUNCHER CMAKE_C_COMPILER_LAUNCHER
value() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
# The time that archives give their files, as the signer of a release sets it.
SOURCE_DATE_EPOCH=$(git -C "$source" log -1 --format=%ct 2>/dev/null || printf 1)
export SOURCE_DATE_EPOCH
for name in one another/folder; do
  mkdir -p "$folders/$name"
  (cd "$source" && tar --exclude=./build --exclude=./.git -cf - .) | tar -C "$folders/$name" -xf -
  cmake -G Ninja -S "$folders/$name" -B "$folders/$name/build/release" -DPLANNER_TESTS=OFF -DPLANNER_CUDA=OFF \
    -DPLANNER_MPI=OFF -DCMAKE_BUILD_TYPE="$(value CMAKE_BUILD_TYPE)" \
    -DCMAKE_CXX_COMPILER="$(value CMAKE_CXX_COMPILER)" -DPLANNER_UNITY="$(value PLANNER_UNITY)" \
    -DPLANNER_NATIVE="$(value PLANNER_NATIVE)" >/dev/null
  ninja -C "$folders/$name/build/release" >/dev/null
  (cd "$folders/$name/build/release" && cpack -B packages >/dev/null)
done
cd "$folders/one/build/release/packages"
shopt -s nullglob
packages=(*.deb *.tar.gz)
[[ ${#packages[@]} -gt 1 ]] || { printf 'nothing was packed\n'; exit 1; }
for package in "${packages[@]}"; do
  cmp "$package" "$folders/another/folder/build/release/packages/$package" ||
    { printf 'two builds of one source differ\n'; exit 1; }
done
printf 'the same bytes: %s\n' "${packages[*]}"
