#!/usr/bin/env bash
# The kernel's own count of what ranks send; see exec_namespaces.py. usage: exec_namespaces.sh BIN
if ! command -v python3 >/dev/null; then
  echo "skipped: no python3"
  exit 77
fi
exec python3 "$(dirname "${BASH_SOURCE[0]}")/exec_namespaces.py" "$1"
