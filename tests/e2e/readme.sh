#!/usr/bin/env bash
# Runs every command of README.md, in order, as a reader would. What stands under a heading "With ..."
# runs where that is there, and is named as skipped elsewhere. The sample output at the top must be
# what its command prints; UPDATE_GOLDEN=1 writes it anew. usage: readme.sh BIN_FOLDER SOURCE_FOLDER
set -uo pipefail
bin=$(cd "$1" && pwd)
source=$2
source "$(dirname "${BASH_SOURCE[0]}")/documents.sh"
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mkdir docs
cp -r "$source/docs/examples" docs/
cp "$source/README.md" .
export PATH=$bin:$PATH LC_ALL=C
unset COLUMNS

# there HEADING: whether this machine has what commands under the heading need.
there() {
  case $1 in
    'With mpirun') command -v mpirun >/dev/null && [[ -x $bin/planner-exec-mpi ]] ;;
    'With an NVIDIA GPU') planner doctor --for cuda >/dev/null 2>&1 ;;
    With*) fail "this test does not know what \"$1\" is" ;;
  esac
}

# ---- the sample --------------------------------------------------------------------------------------
check_examples README.md "$source/README.md"
[[ $examples -eq 1 ]] || complain "$examples samples were found"

# ---- the commands ------------------------------------------------------------------------------------
# Each with its heading, a tab between. Blocks show what a command prints.
awk '/^```/ {output = !output}
  output {next}
  /^#+ / {sub(/^#+ /, ""); heading = $0}
  /^    (planner|\.\/dev) / {sub(/^ */, ""); sub(/  +#.*$/, ""); print heading "\t" $0}' README.md >commands.txt
count=0
while IFS=$'\t' read -r heading command; do
  if [[ $command == './dev test' ]]; then
    printf 'skipped: %s (it runs this test)\n' "$command"
    continue
  fi
  if [[ $heading == With* ]] && ! there "$heading"; then
    printf 'skipped: %s (%s)\n' "$command" "$heading"
    continue
  fi
  count=$((count + 1))
  run_line "$command" >out.txt 2>err.txt </dev/null ||
    complain "$command: exit $?: $(head -c 400 err.txt)"
done <commands.txt
if [[ $count -lt 20 ]]; then complain "only $count commands were found"; fi

# ---- what the first round trip promises ----------------------------------------------------------------
planner compare plan.json run.json >compare.txt
verdict=$(grep 'bytes and counts are equal' compare.txt)
[[ $verdict =~ ^([0-9]+)\ of\ ([0-9]+)\ bytes && ${BASH_REMATCH[1]} == "${BASH_REMATCH[2]}" ]] ||
  complain "the scaled-down job is not as predicted: $verdict"
grep -q 'Times are not comparable' compare.txt || complain 'times of another machine are compared'

if [[ $failures -gt 0 ]]; then exit 1; fi
printf 'README: %s commands work as written\n' "$count"
