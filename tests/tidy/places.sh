#!/usr/bin/env bash
# Every place that the guides for contributors name is there: paths in backquotes, and links.
# usage: places.sh ROOT. Prints file: what it names in vain; exits 1 if anything was printed.
set -euo pipefail
cd "$1"

# named FILE: its paths from the root, without those that stand for many (NAME, *, <folder>).
named() {
  grep -o '`[^` ]*`' "$1" | tr -d '`' | grep -E '^[A-Za-z_.-]+/' | grep -v '[*<]\|NAME' || true
  grep -o '](\([^)h#][^)#]*\)' "$1" | sed "s|^](|$(dirname "$1")/|" || true
}

missing=0
for file in CONTRIBUTING.md docs/architecture.md docs/decisions/README.md; do
  for place in $(named "$file"); do
    if [[ -e $place || $place == build/* ]]; then continue; fi
    printf '%s: %s is not there\n' "$file" "$place"
    missing=1
  done
done
exit $missing
