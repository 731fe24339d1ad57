#!/usr/bin/env bash
# The completion script, sourced into bash as a user does, completes verbs, options, models and
# keys; the others are at least what their shells can read. usage: completion.sh BIN_FOLDER
set -uo pipefail
PATH=$1:$PATH
failures=0
complain() {
  printf 'FAILED: %s\n' "$*"
  failures=$((failures + 1))
}

# shellcheck disable=SC1090  # made by the binary
source <(planner completion bash) || complain 'bash does not read its script'

# completes WORD LINE...: WORD is among the completions of the last word of the line.
completes() {
  local wanted=$1
  shift
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  _planner
  local found
  for found in "${COMPREPLY[@]}"; do
    if [[ $found == "$wanted" ]]; then return; fi
  done
  complain "'$*' does not complete to $wanted: ${COMPREPLY[*]}"
}

completes explain planner expl
completes bench planner ''
completes --global-batch planner --model gpt2-124m --glob
completes --steps planner exec plan.json --st
completes gpt2-1.5b planner --model gpt2-
completes rtx3090 planner --gpu rtx30
completes sharding=zero1 planner --pin shard
completes zsh planner completion z

for shell in zsh fish; do
  script=$(planner completion $shell)
  if [[ $script != *gpt2-1.5b* || $script == *@* && $script == *@verbs@* ]]; then
    complain "$shell: names are missing"
  fi
  if command -v $shell >/dev/null && ! $shell -n <(printf '%s\n' "$script"); then
    complain "$shell does not read its script"
  fi
done
planner completion tcsh 2>err.$$
if [[ $? -ne 2 ]] || ! grep -q 'bash, zsh, fish' err.$$; then complain 'an unknown shell'; fi
rm -f err.$$

if ! planner --version | grep -E '^planner [0-9]+\.[0-9]+\.[0-9]+( \([^)]+\))?$' >/dev/null; then
  complain 'a version'
fi
for verb in plan simulate exec compare report emit import sweep min-gpus max-batch explain models gpus doctor bench validate verify fit calibrate completion; do
  if ! planner $verb --help | grep '^Examples:' >/dev/null; then complain "$verb --help: no examples"; fi
done

if [[ $failures -gt 0 ]]; then exit 1; fi
printf 'completion, version, help: as they should be\n'
