#!/bin/sh
# probe_cli_test.sh PROBE CHECK: planner-probe from the outside. Exit 77 = skipped, with the reason.
set -u
probe=$1
check=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
out=$dir/probe.json
err=$dir/stderr

fail() { echo "FAILED: $*"; cat "$err"; exit 1; }
has() { grep -q -- "$1" "$err" || fail "stderr lacks '$1'"; }
expect_status() { [ "$1" -eq "$2" ] || fail "expected exit $2, found $1"; }
# True where the run above ended because there is no usable GPU here.
no_gpu() { grep -qE "no NVIDIA driver|sees no GPU|driver is too old|cannot be used" "$err"; }

case $check in
help)
  "$probe" --help >"$dir/stdout" 2>"$err"
  expect_status $? 0
  grep -q -- "--nccl-ranks" "$dir/stdout" || fail "the help lacks --nccl-ranks"
  ;;
bad_options)
  "$probe" --device x --bogus --out "$out" 2>"$err"
  expect_status $? 2
  has '--device: expected an integer from 0 to 63, found "x"; write --device 0'
  has 'found "--bogus"; planner-probe --help lists them'
  [ ! -e "$out" ] || fail "a bad command line left a file"
  ;;
no_folder)
  "$probe" --out "$dir/none/probe.json" 2>"$err"
  expect_status $? 2
  has 'expected a file that can be written, found'
  ;;
no_gpu)
  CUDA_VISIBLE_DEVICES= "$probe" --out "$out" --quick 2>"$err"
  expect_status $? 3
  no_gpu || fail "exit 3 without saying what is missing"
  [ "$(ls "$dir")" = stderr ] || fail "a run without a GPU left $(ls "$dir")"
  ;;
section_without_gpu)
  # The conductor's own protocol: a worker that cannot start says so in <section>.error.
  CUDA_VISIBLE_DEVICES= "$probe" worker launch "$dir" 5 0 1 2 2>"$err"
  expect_status $? 3
  grep -q "cuda.*: " "$dir/launch.error" || fail "launch.error does not name the failed call"
  ;;
measures)
  "$probe" --out "$out" --quick --sections environment,pool,launch 2>"$err"
  status=$?
  if [ $status -eq 3 ] && no_gpu; then echo "SKIPPED: $(cat "$err")"; exit 77; fi
  expect_status $status 0
  for text in '"schema": "probe/1"' '"sms"' '"rounding"' '"submit_seconds"'; do
    grep -q "$text" "$out" || fail "the result lacks $text"
  done
  ;;
*) fail "no check $check" ;;
esac
