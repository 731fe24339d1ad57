#!/usr/bin/env bash
# Replays files for the readers under Valgrind, which tells where one uses memory that nothing wrote.
# (Clang's memory sanitizer would need every library compiled with it.)
# usage: valgrind.sh BIN_FOLDER CORPUS   CORPUS has a folder for each target
set -euo pipefail
if ! command -v valgrind >/dev/null; then
  printf 'skipped: no valgrind\n'
  exit 77
fi
status=0
valgrind --quiet --error-exitcode=9 "$1/fuzz_replay" "$2" || status=$?
[[ $status -le 1 ]]  # 1: a target that reads none of its files, which is another test's
