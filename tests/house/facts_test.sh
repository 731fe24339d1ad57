#!/usr/bin/env bash
# docs/founding_facts.md is true: every law C1 to C10 and fact M1 to M16 has a row, every row names
# a test or says what is open, and every named test exists. usage: facts_test.sh ROOT
set -euo pipefail
cd "$1"
facts=docs/founding_facts.md
failures=0
complain() {
  printf '%s: %s\n' "$facts" "$*"
  failures=$((failures + 1))
}

for name in C{1..10} M{1..16}; do
  if ! grep -q "^| $name " "$facts"; then complain "no row of $name"; fi
done
while IFS= read -r row; do
  if [[ $row != *'"'* && $row != *open* ]]; then complain "neither a test nor open: $row"; fi
done < <(grep '^| ' "$facts" | grep -v '^| row ')

known=$(grep -rh 'TEST_CASE("' tests --include='*.cpp' | sed 's/.*TEST_CASE("\(.*\)").*/\1/')
count=0
while IFS= read -r name; do
  count=$((count + 1))
  if ! grep -Fxq -- "$name" <<<"$known"; then complain "no such test: $name"; fi
done < <(grep '^| ' "$facts" | grep -o '"[^"]*"' | tr -d '"' | sort -u)
if [[ $count -lt 30 ]]; then complain "only $count tests are named"; fi

if [[ $failures -gt 0 ]]; then exit 1; fi
printf 'founding facts: %s tests named, all there\n' "$count"
