#!/usr/bin/env bash
# Launchers start what the plan says: run here with stand-ins for torchrun, srun, mpirun and python, on
# every node. usage: launchers.sh BIN_FOLDER; skipped (77) without python3.
set -euo pipefail
if ! command -v python3 >/dev/null; then
  printf 'skipped: no python3\n'
  exit 77
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$(cd "$1" && pwd)
source "$here/lib.sh"
python3 -B "$here/launchers.py" "$bin/planner"
