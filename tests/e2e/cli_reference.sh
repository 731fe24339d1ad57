#!/usr/bin/env bash
# docs/cli.md is what the options say; UPDATE_GOLDEN=1 writes it anew.
# usage: cli_reference.sh BIN_FOLDER
set -uo pipefail
planner=$1/planner
reference=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/docs/cli.md
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

answers 0 '' "$planner" help --markdown
if [[ ${UPDATE_GOLDEN:-0} == 1 ]]; then cp out.txt "$reference"; fi
diff "$reference" out.txt || complain 'docs/cli.md is not what the options say: UPDATE_GOLDEN=1'

# Every verb that completion knows has its section, and help VERB is its own page.
for verb in simulate exec compare report emit import sweep min-gpus max-batch explain models gpus doctor \
  bench validate fit calibrate completion; do
  grep -q "^## planner $verb" out.txt || complain "no section of $verb"
done
cp out.txt all.txt
answers 0 '' "$planner" help sweep
"$planner" sweep --help | cmp -s - out.txt || complain 'help sweep is not sweep --help'
grep -q -- '--global-batch' all.txt || complain 'no options in the reference'

if [[ $failures -gt 0 ]]; then exit 1; fi
printf 'docs/cli.md: true\n'
