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
# eventually WHAT COMMAND...: waits until the command succeeds, however slow this machine is; one that
# hangs is given up after ten minutes. A test waits by this for a state and never for a time.
eventually() {
  local what=$1 tries=0
  shift
  until "$@"; do
    tries=$((tries + 1))
    if [[ $tries -gt 30000 ]]; then fail "waited ten minutes for $what"; fi
    sleep 0.02
  done
}
# begun PID COMMAND...: waits until the command succeeds while the process runs; ends the test where
# it ended before, with what it wrote to err.txt.
begun() {
  local pid=$1
  shift
  eventually "$*" begun_or_ended "$pid" "$@"
  [[ $ended_first -eq 0 ]] || fail "ended before $*: $(cat err.txt)"
}
exists() { compgen -G "$1" >/dev/null; }
# A state that was seen is not looked for again: it may have passed since.
begun_or_ended() {
  ended_first=0
  if "${@:2}"; then return 0; fi
  if kill -0 "$1" 2>/dev/null; then return 1; fi
  # It may have come to the state and ended between the two looks.
  "${@:2}" || ended_first=1
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
