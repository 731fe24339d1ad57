#!/usr/bin/env bash
# What the page of web/ is compiled from asks the system for nothing, but where a second source
# stands in for it (web/README.md): the build of the page is no part of `./dev test`.
# usage: page_sources.sh ROOT. Prints file: what it includes; exits 1 if anything was printed.
set -euo pipefail
cd "$1"

readonly kSystem='<(thread|filesystem|fstream|future|condition_variable|semaphore|csignal|unistd\.h|fcntl\.h|dlfcn\.h|poll\.h|sched\.h|sys/[a-z_]*\.h|linux/[a-z_]*\.h)>'
# Replaced in the page, or compiled without it.
readonly kInstead='^(core/(file|folder|machine_memory|parallel)\.cpp|core/thread\.hpp|hw_profiles/detect\.cpp|cli/(process|sandbox)\.cpp|reports/(fit|imports|logs)/.*)$'

# Sources of the library cli_questions, from its CMakeLists.txt.
questions() {
  sed -n '/^planner_library(cli_questions/,/HEADERS/p' cli/CMakeLists.txt | grep -o '[a-z_]*\.cpp' | sed 's|^|cli/|'
}

sources=$({ find core models hw_profiles sim planner reports exec/record exec/training web \
  -name '*.cpp' -o -name '*.hpp'; questions; } | grep -vE "$kInstead")
if [[ $(questions | wc -l) -lt 10 ]]; then
  echo 'cli/CMakeLists.txt: no sources of cli_questions found'
  exit 1
fi
# shellcheck disable=SC2086  # names without blanks
if grep -nE "^#include $kSystem" $sources; then exit 1; fi
printf 'page: %s files ask the system for nothing\n' "$(wc -w <<<"$sources")"
