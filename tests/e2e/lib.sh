# Sourced by tests that go through the real binaries: a folder of their own, gone when they end, and
# what they say where something is not as expected.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# Ends the test.
fail() {
  printf 'FAILED: %s\n' "$*"
  exit 1
}
# ends CODE PATTERN COMMAND...: its exit code, and a pattern on stderr; ends the test otherwise.
ends() {
  local wanted=$1 pattern=$2 code=0
  shift 2
  "$@" 2>err.txt >out.txt || code=$?
  [[ $code -eq $wanted ]] || fail "exit $code instead of $wanted: $* ($(cat err.txt))"
  grep -q -- "$pattern" err.txt || fail "no \"$pattern\" from: $* ($(cat err.txt))"
}
says_one_line() {
  [[ $(wc -l <err.txt) -eq 1 ]] || fail "more than one line from: $* ($(cat err.txt))"
}

# Counts, and goes on: such a test ends by `if [[ $failures -gt 0 ]]; then exit 1; fi`.
failures=0
complain() {
  printf 'FAILED: %s\n' "$*"
  failures=$((failures + 1))
}
# answers CODE TEXT COMMAND...: its exit code, and an extended regular expression on stderr.
answers() {
  local code=$1 text=$2 found
  shift 2
  "$@" >out.txt 2>err.txt </dev/null
  found=$?
  if [[ $found -ne $code ]]; then
    complain "$*: exit $found, expected $code: $(head -c 400 err.txt)"
  fi
  if [[ -n $text ]] && ! grep -Eq -- "$text" err.txt; then
    complain "$*: stderr lacks /$text/: $(head -c 400 err.txt)"
  fi
}
