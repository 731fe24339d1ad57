#!/usr/bin/env bash
# Wraps the lines that tidy finds too long, and no others, with clang-format. usage: wrap.sh [ROOT]
# Code and comments alike; read the difference afterwards. Needs clang-format; no test runs this.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
cd "${1:-$here/../..}"
# Near to the hand that the tree is written in, and for these lines alone.
style='{BasedOnStyle: Google, ColumnLimit: 100, DerivePointerAlignment: false, PointerAlignment: Left,
        IncludeBlocks: Preserve, AllowShortFunctionsOnASingleLine: Inline}'
# The last line of a file first: wrapping one moves those below it.
{ "$here/tidy.sh" . || true; } | awk -F: '/columns; wrap/ {print $1, $2}' | sort -k1,1 -k2,2nr |
  while read -r file line; do clang-format -i --style="$style" --lines="$line:$line" "$file"; done
