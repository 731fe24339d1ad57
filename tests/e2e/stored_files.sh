#!/usr/bin/env bash
# Files that earlier versions wrote are read, and mean what they meant (tests/stored/README.md).
# usage: stored_files.sh BIN_FOLDER SOURCE_FOLDER
set -uo pipefail
planner=$1/planner
stored=$2/tests/stored
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# figure KEY FILE: the first number at the key.
figure() { sed -n "s/^ *\"$1\": \([-0-9.e+]*\),*$/\1/p" "$2" | head -n 1; }

count=0
for folder in "$stored"/*/; do
  count=$((count + 1))
  cp -r "$folder" here
  pushd here >/dev/null || exit 1
  answers 0 '' "$planner" simulate plan.json
  answers 0 '' "$planner" simulate megatron.json
  answers 0 '' "$planner" explain memory.optimizer --plan megatron.json
  answers 0 '' "$planner" exec plan.json --steps 2 --quiet --out again.json
  for what in plan megatron run simulate compare sweep validate; do
    if [[ -e $what.json ]]; then
      answers 0 '' "$planner" report $what.json --out $what.md
      [[ -s $what.md ]] || complain "$folder$what.json: an empty page"
    fi
  done
  # What was predicted then is compared with what ran then and with what runs now.
  for run in run again; do
    answers 0 '' "$planner" compare plan.json $run.json --json
    predicted=$(awk '/"term": "memory.live"/ {getline; print $2 + 0; exit}' out.txt)
    measured=$(awk '/"term": "memory.live"/ {getline; getline; print $2 + 0; exit}' out.txt)
    [[ -n $predicted && $predicted == "$(figure live plan.json)" && $predicted == "$measured" ]] ||
      complain "$folder$run.json: live $measured, planned $predicted"
  done
  if [[ -e site.json ]]; then
    answers 0 '' "$planner" --model gpt2-1.5b --gpus 8 --gpu a100-sxm-80g --site site.json
  fi
  case $(grep -ho 'checkpoint/[0-9]*' kept/*/manifest.json) in
    checkpoint/1)
      answers 1 '' "$planner" verify kept
      answers 2 'expected checkpoint/2, found "checkpoint/1"; go on with the version' \
        "$planner" exec plan.json --steps 3 --checkpoint-dir kept ;;
    checkpoint/2)
      answers 0 '' "$planner" verify kept
      answers 0 '' "$planner" exec plan.json --steps 3 --checkpoint-dir kept --out on.json
      # The first step's loss is the one that was kept.
      first() { awk '/"loss": \[/ {getline; print $1 + 0; exit}' "$1"; }
      [[ -n $(first run.json) && $(first on.json) == "$(first run.json)" ]] || complain "$folder: another first loss"
      ;;
    *) complain "$folder: a checkpoint of another version" ;;
  esac
  popd >/dev/null || exit 1
  rm -rf here
done
[[ $count -ge 2 ]] || complain "only $count folders"

# What no version wrote is still refused, by name.
sed 's/"overlap": /"overlaps": /' "$stored/ae97dba/plan.json" >damaged.json
answers 2 'expected a key "overlap"' "$planner" simulate damaged.json
sed 's|"plan/1"|"plan/9"|' "$stored/ae97dba/plan.json" >newer.json
answers 2 'plan/1' "$planner" simulate newer.json

if [[ $failures -gt 0 ]]; then exit 1; fi
printf 'files of %s earlier versions: read\n' "$count"
