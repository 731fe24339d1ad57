#!/usr/bin/env bash
# What must hold on a GPU, through the real binaries. usage: gpu_test.sh BIN_FOLDER CHECK
# Exit 77 where there is no GPU, with the reason.
set -euo pipefail
planner=$(cd "$1" && pwd)/planner
check=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  printf 'FAILED: %s\n' "$*"
  exit 1
}

cat >config.json <<'JSON'
{"model_type":"gpt2","n_layer":4,"n_embd":64,"n_head":4,"n_positions":64,"vocab_size":501}
JSON
# plan NAME OPTIONS...: a plan of the small model, every choice pinned by the options.
plan() {
  local name=$1
  shift
  "$planner" --model config.json --seq 64 --global-batch 12 --gpu h200-sxm-141g --quiet \
    --out "$name.json" "$@" >/dev/null
}
run() { "$planner" exec "$1.json" --backend "$2" --steps 4 --quiet --out "$1-$2.json" "${@:3}" >/dev/null; }

plan one --gpus 1 --recipe fp32 --optimizer momentum
if [[ $check != faults ]]; then
  code=0
  run one cuda 2>err.txt || code=$?
  if [[ $code -eq 3 ]] && grep -q -e "found none" -e 'no NVIDIA driver' -e 'shows no GPU' err.txt; then
    printf 'skipped: %s\n' "$(cat err.txt)"
    exit 77
  fi
  [[ $code -eq 0 ]] || fail "exit $code: $(cat err.txt)"
fi

# close A B TOLERANCE: losses of two records, and their live and wire bytes to the byte.
close() {
  python3 - "$@" <<'PYTHON'
import json, sys
a, b = (json.load(open(p)) for p in sys.argv[1:3])
tolerance = float(sys.argv[3])
for x, y in zip(a["loss"], b["loss"], strict=True):
    assert abs(x - y) <= tolerance * abs(y), f"loss {x} beside {y}"
for term in ("weights", "gradients", "optimizer", "activations", "logits", "communication", "live"):
    assert a["memory"][term] == b["memory"][term], term
wire = lambda r: sorted((c["what"], c["collective"], c["count"], c["wire_bytes_per_rank"]) for c in r["communication"])
assert wire(a) == wire(b), "traffic"
PYTHON
}

case $check in
  trains)
    grep -q '"device"' one-cuda.json || fail "no device in the record"
    ;;
  equals_host)
    run one host
    close one-cuda.json one-host.json 1e-5 || fail "fp32 is not the host's"
    plan half --gpus 1 --recipe mixed --optimizer momentum
    run half host
    run half cuda --attention-kernel own --gelu own
    close half-cuda.json half-host.json 0.03 || fail "bf16 is not the host's"
    mv half-cuda.json half-own.json
    run half cuda --attention-kernel own --gelu product
    grep '"gelu"' half-cuda.json
    close half-cuda.json half-own.json 0.03 || fail "a GELU in its product is not own kernels'"
    ;;
  cudnn)
    plan half --gpus 1 --recipe mixed --optimizer momentum
    run half cuda --attention-kernel own
    mv half-cuda.json half-own.json
    run half cuda
    says=$(grep -o '"attention": "[^"]*"' half-cuda.json)
    if [[ $says == *'"own kernels: '* ]]; then
      printf 'skipped: %s\n' "$says"
      exit 77
    fi
    printf '%s\n' "$says"
    [[ $says == *cuDNN* ]] || fail "$says"
    close half-cuda.json half-own.json 0.03 || fail "cuDNN's attention is not own kernels'"
    grep -q "$(grep -o '"workspace": [0-9]*' half-own.json)" half-cuda.json || fail "another workspace"
    ;;
  records)
    run one cuda --device-times cupti --trace trace.json
    says=$(grep -o '"device_times": "[^"]*"' one-cuda.json)
    if [[ $says == *'"events alone: '* ]]; then
      printf 'skipped: %s\n' "$says"
      exit 77
    fi
    printf '%s\n' "$says"
    python3 - <<'PYTHON' || fail "$says"
import json
times = json.load(open("one-cuda.json"))["device_times"]
assert 0 < times["busy_seconds"] and times["gap_seconds"] >= 0, times
for a in times["actions"]:
    computes = a["name"].startswith(("forward ", "input_gradient ", "weight_gradient ", "optimizer", "zero", "load"))
    assert 0 < a["covered_seconds"] <= a["kernel_seconds"] * (1 + 1e-9) or not computes or "add" in a["name"] or a["name"] in ("forward head.max", "forward head.sums"), a
    print(f"{a['name']:<34} {a['actions']:4} actions {a['kernels']:4} kernels: by events {a['event_seconds'] * 1e6:9.1f} us, by kernels {a['covered_seconds'] * 1e6:9.1f} us")
assert any(e.get("cat") == "kernel" for e in json.load(open("trace.json"))["traceEvents"])
PYTHON
    ;;
  strategies)
    for pins in "3 --pin data=3 --pin sharding=zero3" "3 --pin data=3 --pin grad_sync=tree" \
      "2 --pin tensor=2" "2 --pin pipeline=2 --pin schedule=1f1b" \
      "2 --pin context=2 --pin context_method=gather" "2 --pin context=2 --pin context_method=ring" \
      "2 --pin context=2 --pin context_method=exchange" "3 --pin checkpoint=selective_op" \
      "3 --pin checkpoint=every_k --pin checkpoint_every=1"; do
      # shellcheck disable=SC2086  # words
      plan many --recipe fp32 --optimizer momentum --gpus $pins 2>err.txt || fail "$(cat err.txt)"
      run many host
      run many cuda
      close many-cuda.json many-host.json 1e-5 || fail "$pins"
    done
    ;;
  calibrated)
    "$planner" calibrate --backend cuda --budget 20ms --quiet --out gpu.json >/dev/null
    "$planner" --model gpt2-124m --gpus 1 --global-batch 8 --gpu gpu.json --quiet --out by-own.json \
      >/dev/null || fail "the profile is not one that plans take"
    ;;
  faults)
    # A device that is hidden, whatever the machine has.
    code=0
    CUDA_VISIBLE_DEVICES='' run one cuda 2>err.txt || code=$?
    [[ $code -eq 3 ]] || fail "exit $code without a device"
    grep -q -e 'found none' -e 'no NVIDIA driver' -e 'shows no GPU' err.txt || fail "$(cat err.txt)"
    ;;
  *) fail "no check named $check" ;;
esac
