#!/usr/bin/env bash
# Three ranks of the test, where this machine lets mpirun start anything. usage: ranks.sh MPIRUN TEST
set -euo pipefail
if ! "$1" --oversubscribe -n 2 true; then
  printf 'skipped: %s cannot start two processes of anything here\n' "$1"
  exit 77
fi
exec "$1" --oversubscribe --bind-to none -n 3 "$2"
