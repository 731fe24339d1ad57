#!/usr/bin/env bash
# Runs every example of docs/guide/ as a reader would, page by page, each in a folder of its own that
# has docs/examples beside it. What a page shows must be what its commands print; UPDATE_GOLDEN=1
# writes it anew. usage: guide.sh BIN_FOLDER SOURCE_FOLDER [PAGE]
set -uo pipefail
bin=$(cd "$1" && pwd)
source=$(cd "$2" && pwd)
only=${3:-}
source "$(dirname "${BASH_SOURCE[0]}")/documents.sh"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export PATH=$bin:$PATH LC_ALL=C
unset COLUMNS

total=0
for page in "$source"/docs/guide/*.md; do
  name=$(basename "$page" .md)
  if [[ $name == README || (-n $only && $name != "$only") ]]; then continue; fi
  mkdir -p "$name/docs"
  cp -r "$source/docs/examples" "$name/docs/"
  cp "$page" "$name/page.md"
  began=$SECONDS
  cd "$name" || fail "no folder for $name"
  check_examples page.md "$page"
  if [[ $examples -lt 4 ]]; then complain "$name.md has $examples examples"; fi
  cd ..
  total=$((total + examples))
  printf '%s: %s examples, %s s\n' "$name" "$examples" $((SECONDS - began))
  grep -qF "($name.md)" "$source/docs/guide/README.md" || complain "docs/guide/README.md names no $name.md"
done
if [[ $total -eq 0 ]]; then complain 'no examples were found'; fi
if [[ $failures -gt 0 ]]; then exit 1; fi
printf 'guide: %s examples print what is shown\n' "$total"
