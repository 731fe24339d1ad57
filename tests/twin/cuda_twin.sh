#!/usr/bin/env bash
# --backend cuda from end to end, with the GPU played on the host: what is recorded is the host's,
# every failure of the device ends in a reason and exit code 3. usage: cuda_twin.sh BIN_FOLDER BINARY
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
cp "$1/planner" "$1/planner-exec" "$2" .
planner=./planner
readonly kHangs=600  # seconds after which a command hangs, on any machine

# expect CODE PATTERN COMMAND...: its exit code, and one line on stderr that says so.
expect() {
  ends "$1" "$2" timeout $kHangs "${@:3}"
  says_one_line "${@:3}"
}

printf '%s' '{"model_type":"gpt2","n_layer":2,"n_embd":24,"n_head":2,"n_positions":12,"vocab_size":61}' >config.json
plan() {
  local name=$1
  shift
  "$planner" --model config.json --seq 12 --gpu h200-sxm-141g --optimizer momentum --quiet \
    --out "$name.json" "$@" >/dev/null
}
plan two --gpus 2 --global-batch 4 --recipe fp32 --pin data=2 --pin sharding=zero2
run() { timeout $kHangs "$planner" exec two.json --quiet "$@"; }

# ---- what a run records is what the host's records -----------------------------------------------
run --backend host --steps 3 --out host.json >/dev/null
run --backend cuda --steps 3 --out cuda.json --trace trace.json >/dev/null
if command -v python3 >/dev/null; then
  python3 - <<'PYTHON'
import json
host, cuda = (json.load(open(f"{name}.json")) for name in ("host", "cuda"))
assert cuda["backend"] == "cuda" and cuda["communicator"] == "local", cuda["backend"]
for x, y in zip(cuda["loss"], host["loss"], strict=True):
    assert abs(x - y) <= 1e-5 * abs(y), (x, y)
for term in ("weights", "gradients", "optimizer", "activations", "logits", "communication", "live", "reserved"):
    assert cuda["memory"][term] == host["memory"][term], term
for term in ("workspace", "context", "communicators", "device"):
    assert cuda["memory"][term] is not None, term
traffic = lambda run: sorted((c["what"], c["collective"], c["algorithm"], c["count"], c["payload_bytes"],
                              c["wire_bytes_per_rank"]) for c in run["communication"])
assert traffic(cuda) == traffic(host), (traffic(cuda), traffic(host))
assert cuda["time"]["compute"] > 0 and cuda["environment"]["ranks_per_gpu"] == "2"
events = json.load(open("trace.json"))
events = events.get("traceEvents", events)
assert len(events) > 20
chosen = json.load(open("two.json"))["chosen"]["memory"]
assert chosen["live"] == cuda["memory"]["live"]
PYTHON
fi
"$planner" compare two.json cuda.json >compared.txt || [[ $? -eq 1 ]] || fail 'compare'

# ---- a step that was kept by one backend is gone on with by the other ----------------------------
run --backend cuda --steps 2 --checkpoint-dir kept >/dev/null
cp -r kept kept-2
run --backend cuda --steps 4 --checkpoint-dir kept --out resumed.json >/dev/null
run --backend cuda --steps 4 --checkpoint-dir whole --out whole.json >/dev/null
for rank in 0 1; do
  cmp "kept/step-00000004/rank-000$rank" "whole/step-00000004/rank-000$rank" ||
    fail "rank $rank went on to other bits"
done
run --backend host --steps 3 --checkpoint-dir kept-2 >/dev/null

# ---- a step that is kept and given again ----------------------------------------------------------
plan one --gpus 1 --global-batch 4 --recipe mixed --pin micro_batch=2
graphs() { timeout $kHangs "$planner" exec one.json --backend cuda --steps 5 --quiet --graphs "$@" >/dev/null; }
for when in on off auto; do graphs $when --out "$when.json" --checkpoint-dir "graphs-$when"; done
for when in off auto; do
  cmp graphs-on/step-00000005/rank-0000 "graphs-$when/step-00000005/rank-0000" || fail "--graphs $when: other bits"
done
PLANNER_TWIN=end_capture=1:graph graphs auto --out refused.json
grep -q '"graphs": "off: end_capture: a failure that a test asked for.*run with --graphs off"' refused.json ||
  fail "not said: $(grep graphs refused.json)"
grep -q '"graphs": "on: 3 of 5 steps"' on.json || fail "$(grep graphs on.json)"
grep -q '"graphs": "off: --graphs off"' off.json || fail "$(grep graphs off.json)"
grep -q '"graphs": "on: 3 of 5 steps"' auto.json || fail "a launch-bound plan: $(grep graphs auto.json)"
grep -q '"graphs": "off: ranks that share a GPU' cuda.json || fail "$(grep graphs cuda.json)"
if command -v python3 >/dev/null; then
  python3 -c 'import json
on, off, refused = (json.load(open(f"{n}.json")) for n in ("on", "off", "refused"))
assert on["loss"] == off["loss"] == refused["loss"], (on["loss"], off["loss"])
assert on["memory"]["live"] == off["memory"]["live"]'
fi
rm refused.json
for fault in begin_capture end_capture; do
  expect 3 'a failure that a test asked for.*run with --graphs off' \
    env "PLANNER_TWIN=$fault=1:graph" "$planner" exec one.json --backend cuda --steps 5 --quiet --graphs on
done
expect 3 'a failure that a test asked for' \
  env PLANNER_TWIN=launch_graph=2:device "$planner" exec one.json --backend cuda --steps 5 --quiet
expect 2 'ranks that share a GPU.*use --graphs auto' \
  "$planner" exec two.json --backend cuda --steps 5 --quiet --graphs on
expect 2 'fewer than 3 steps' "$planner" exec one.json --backend cuda --steps 2 --quiet --graphs on
expect 2 'on, off, auto' "$planner" exec one.json --backend cuda --quiet --graphs often
expect 2 'backend cuda beside it' "$planner" exec one.json --quiet --graphs on

# ---- whose attention computes ----------------------------------------------------------------------
printf '%s' '{"model_type":"gpt2","n_layer":2,"n_embd":24,"n_head":3,"n_positions":12,"vocab_size":61}' >heads.json
"$planner" --model heads.json --seq 12 --gpu h200-sxm-141g --optimizer momentum --gpus 1 --global-batch 4 \
  --recipe mixed --pin micro_batch=2 --quiet --out heads.plan.json >/dev/null
attends() { timeout $kHangs "$planner" exec heads.plan.json --backend cuda --steps 5 --quiet --attention-kernel "$@" >/dev/null; }
attention_is() { grep -q "\"attention\": \"$2\"" "$1.json" || fail "not said: $(grep '"attention"' "$1.json")"; }
for whose in own cudnn auto; do attends $whose --graphs on --out "$whose.json" --checkpoint-dir "by-$whose"; done
attends cudnn --graphs off --out plain.json --checkpoint-dir by-plain
for other in auto plain; do
  cmp by-cudnn/step-00000005/rank-0000 "by-$other/step-00000005/rank-0000" || fail "$other attention: other bits"
done
attention_is own 'own kernels'
attention_is cudnn "forward of 2 x 12, 3 heads on 3 of 8, bf16: the twin's library; backward of .*: the twin's library"
attention_is cuda 'forward of .*: own kernels, .*'  # f32: the library was asked all the same
PLANNER_TWIN=open_attention=1:launch attends auto --out absent.json
attention_is absent 'own kernels: open_attention: a failure that a test asked for.*'
PLANNER_TWIN=prepare_attention=2:launch attends auto --out half.json
attention_is half "forward of .*: the twin's library; backward of .*: own kernels, prepare_attention: .*"
if command -v python3 >/dev/null; then
  python3 -c 'import json
own, *others = (json.load(open(f"{n}.json")) for n in ("own", "cudnn", "auto"))
for other in others:
    assert other["memory"]["live"] == own["memory"]["live"]
    assert other["memory"]["workspace"] == own["memory"]["workspace"]
    assert all(abs(x - y) <= 0.01 * y for x, y in zip(other["loss"], own["loss"], strict=True))'
fi
expect 2 'cuDNN and its frontend.*use --attention-kernel own' \
  env PLANNER_TWIN=open_attention=1:launch "$planner" exec heads.plan.json --backend cuda --quiet --attention-kernel cudnn
expect 3 'a failure that a test asked for' \
  env PLANNER_TWIN=attention=5:device "$planner" exec heads.plan.json --backend cuda --quiet --attention-kernel cudnn
expect 2 'own, cudnn, auto' "$planner" exec heads.plan.json --backend cuda --quiet --attention-kernel mine
expect 2 'backend cuda beside it' "$planner" exec heads.plan.json --quiet --attention-kernel cudnn

# ---- products that compute the GELU which reads them ------------------------------------------------
joins() { timeout $kHangs "$planner" exec one.json --backend cuda --quiet --gelu product "$@" >/dev/null; }
joins --steps 5 --graphs on --out joined.json --checkpoint-dir by-product
joins --steps 5 --graphs off --checkpoint-dir by-product-plain
joins --steps 2 --graphs off --checkpoint-dir by-product-resumed
joins --steps 5 --graphs off --checkpoint-dir by-product-resumed
for other in plain resumed; do
  cmp by-product/step-00000005/rank-0000 "by-product-$other/step-00000005/rank-0000" || fail "joined, $other: other bits"
done
grep -q '"gelu": "[1-9][0-9]* in epilogues of products, 0 that' joined.json || fail "$(grep '"gelu"' joined.json)"
timeout $kHangs "$planner" exec one.json --backend cuda --quiet --gelu own --steps 5 --out apart.json >/dev/null
grep -q '"gelu": "own kernels"' apart.json || fail "$(grep '"gelu"' apart.json)"
grep -q '"gelu": "[1-9][0-9]* in epilogues' on.json || fail "not by default: $(grep '"gelu"' on.json)"
if command -v python3 >/dev/null; then
  python3 -c 'import json
own, joined = (json.load(open(f"{n}.json")) for n in ("apart", "joined"))
assert joined["memory"]["live"] == own["memory"]["live"]
assert joined["memory"]["workspace"] == own["memory"]["workspace"]
assert all(abs(x - y) <= 0.01 * y for x, y in zip(joined["loss"], own["loss"], strict=True))'
fi
expect 3 'a failure that a test asked for' \
  env PLANNER_TWIN=multiply_gelu=3:device "$planner" exec one.json --backend cuda --quiet --gelu product
timeout $kHangs "$planner" exec one.json --backend cuda --quiet --deterministic off --steps 2 --out fastest.json >/dev/null
grep -q '"deterministic": "off"' fastest.json || fail "$(grep '"deterministic"' fastest.json)"
grep -q '"deterministic": "on"' joined.json || fail "$(grep '"deterministic"' joined.json)"
expect 2 'on, off' "$planner" exec one.json --backend cuda --quiet --deterministic perhaps
timeout $kHangs "$planner" exec one.json --backend cuda --quiet --tuned-products products.json --out timed.json >/dev/null
grep -q '"tuned_products": "\([1-9][0-9]*\) shapes in the file, \1 of them timed by this run"' timed.json ||
  fail "$(grep '"tuned_products"' timed.json)"
timeout $kHangs "$planner" exec one.json --backend cuda --quiet --tuned-products products.json --out again.json >/dev/null
grep -q 'shapes in the file, 0 of them timed' again.json || fail "$(grep '"tuned_products"' again.json)"
sed -i 's/twin 1/cuBLASLt 130100/' products.json
expect 2 'a file of .* and cuBLASLt 130100' "$planner" exec one.json --backend cuda --quiet --tuned-products products.json
# A run is not lost with the file: no file may grow here, and the record goes to a pipe.
rm products.json
(ulimit -f 0; timeout $kHangs "$planner" exec one.json --backend cuda --quiet --tuned-products products.json \
  --json 2>&1 || printf 'code %s\n' $?) | cat >timed.json
grep -q 'of them timed by this run; not written' timed.json || fail "$(cat timed.json)"
grep -q 'products are not kept: .*products.json' timed.json || fail "$(cat timed.json)"
! grep -q '^code' timed.json || fail "$(cat timed.json)"
expect 2 'no/such' "$planner" exec one.json --backend cuda --quiet --tuned-products no/such/products.json
expect 2 '--backend cuda beside it' "$planner" exec one.json --quiet --tuned-products products.json
expect 2 'own, product' "$planner" exec one.json --backend cuda --quiet --gelu both

# ---- what the device records, kernel by kernel ------------------------------------------------------
records() { timeout $kHangs "$planner" exec "$1.json" --backend cuda --quiet --device-times cupti "${@:2}" >/dev/null; }
timeout $kHangs "$planner" exec two.json --backend cuda --steps 3 --quiet --device-times cupti --trace kernels.json --out recorded.json >page.txt
grep -q 'the last step: actions .* by their events, kernels ' page.txt || fail "$(cat page.txt)"
grep -q 'layer_norm_gradients *5 ' page.txt || fail "no table of kernels: $(cat page.txt)"
records one --steps 5 --graphs on --out recorded-graph.json
records one --steps 3 --gelu product --out recorded-gelu.json
grep -q '"device_times": "the twin: [1-9][0-9]* kernels, copies and fills of actions, 0 of graphs, ' recorded.json ||
  fail "not said: $(grep device_times recorded.json)"
# Alone on the device, every kernel is an action's: those of sums that were held back as well.
grep -q ' of actions, 0 of graphs, 0 of neither, 0 lost"' recorded-graph.json || fail "$(grep device_times recorded-graph.json)"
grep -q '"device_times": "events"' cuda.json || fail "$(grep device_times cuda.json)"
for refused in open_activity start_activity; do
  PLANNER_TWIN=$refused=1:launch records two --out refused.json
  grep -q "\"device_times\": \"events alone: $refused: a failure that a test asked for" refused.json ||
    fail "not said: $(grep device_times refused.json)"
  if grep -q '"actions": \[' refused.json; then fail "$refused: kernels of a device that records none"; fi
done
if command -v python3 >/dev/null; then
  python3 - <<'PYTHON'
import json
for name in ("recorded", "recorded-graph", "recorded-gelu"):
    run = json.load(open(f"{name}.json"))
    times, actions = run["device_times"], {a["name"]: a for a in run["device_times"]["actions"]}
    # Of the twin an action's kernels run one by one, between its events.
    for a in actions.values():
        assert a["covered_seconds"] <= a["kernel_seconds"] * (1 + 1e-9), a
        assert a["kernel_seconds"] <= a["event_seconds"] * (1 + 1e-9) + 1e-9, (name, a)
    # What computes has a kernel for each action, what only orders has none.
    assert all(a["kernels"] >= a["actions"] for n, a in actions.items() if n.startswith("forward ln")), actions
    assert sum(a["kernels"] for n, a in actions.items() if n == "fence") == 0
    assert actions["zero"]["kernels"] == actions["zero"]["actions"]
    calls = {k["name"]: k["calls"] for k in times["kernels"]}
    assert sum(a["kernels"] for a in actions.values()) == sum(calls.values())
    assert calls["set_zero"] == actions["zero"]["kernels"]
    total = sum(k["total_seconds"] for k in times["kernels"])
    assert abs(total - sum(a["kernel_seconds"] for a in actions.values())) <= 1e-6 * total
    assert 0 < times["busy_seconds"] <= total * (1 + 1e-9) and times["gap_seconds"] >= 0
    assert [k["total_seconds"] for k in times["kernels"]] == sorted((k["total_seconds"] for k in times["kernels"]), reverse=True)
# A sum that the next layer norm takes along is the norm's, a product's GELU is the GELU's.
gelu = {a["name"]: a for a in json.load(open("recorded-gelu.json"))["device_times"]["actions"]}
assert gelu["forward mlp.fc"]["kernels"] == 0 and gelu["forward mlp.gelu"]["kernels"] == gelu["forward mlp.gelu"]["actions"]
events = json.load(open("kernels.json"))["traceEvents"]
lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
kernels = [e for e in events if e.get("cat") == "kernel"]
for rank in (0, 1):
    own = [e for e in kernels if e["pid"] == rank]
    assert {lanes[rank, e["tid"]] for e in own} >= {"compute kernels", "gradient kernels"}, lanes
    for tid in {e["tid"] for e in own}:
        lane = sorted((e["ts"], e["ts"] + e["dur"]) for e in own if e["tid"] == tid)
        assert all(a[1] <= b[0] + 1e-6 for a, b in zip(lane, lane[1:])), (rank, tid)
assert any(e["name"] == "attention" and e["args"]["action"] == "forward attn.core" for e in kernels)
plain = json.load(open("trace.json"))["traceEvents"]
assert not any(e.get("cat") == "kernel" for e in plain)
PYTHON
fi
"$planner" compare two.json recorded.json >/dev/null || [[ $? -eq 1 ]] || fail 'a record with kernels is not read'
expect 2 'events, cupti' "$planner" exec one.json --backend cuda --quiet --device-times both
expect 2 'backend cuda beside it' "$planner" exec one.json --quiet --device-times cupti

# ---- a device that does not open -----------------------------------------------------------------
opens() { expect 3 "$2" env "PLANNER_TWIN=open=$1" "$planner" exec two.json --backend cuda --quiet; }
opens old_driver 'driver is too old for the CUDA.*update the driver'
opens no_image 'no code for this GPU.*PLANNER_CUDA_ARCHITECTURES'
opens out_of_memory "GPU's memory is full"
PLANNER_TWIN=open=no_driver "$planner" exec two.json --backend cuda --quiet >out.txt 2>err.txt && fail 'no driver, and it ran'
if ! grep -q -e 'an NVIDIA GPU, found none' -e 'no NVIDIA driver answers' err.txt; then fail "$(cat err.txt)"; fi

# ---- failures while it runs: the first reason, once, and no record -------------------------------
plan three --gpus 3 --global-batch 6 --recipe mixed --pin data=3 --pin sharding=zero3
for fault in allocate=1:out_of_memory allocate=7:out_of_memory allocate_pinned=2:out_of_host_memory \
  launch=1:no_image launch=40:launch launch=150:device multiply=11:device copy=60:device \
  wait=25:device record=30:device copy_in=4:device create_stream=3:device synchronise=9:device; do
  for name in two three; do
    expect 3 'a failure that a test asked for' \
      env "PLANNER_TWIN=$fault" "$planner" exec "$name.json" --backend cuda --steps 2 --quiet --out failed.json
    [[ ! -e failed.json ]] || fail "$fault: a record of a run that failed"
    grep -q 'rank [0-9]\|^planner: [a-z_]*:' err.txt || fail "$fault: nobody's failure: $(cat err.txt)"
  done
done
# Too small a device is refused before anything runs.
expect 2 'of free memory on twin of a GPU' \
  env PLANNER_TWIN=memory=200000 "$planner" exec two.json --backend cuda --quiet
expect 3 'none.so.*name its file with --nccl PATH' \
  "$planner" exec two.json --backend cuda --communicator nccl --nccl ./none.so --quiet

# What it has no kernel for is refused by name.
printf '%s' '{"model_type":"mixtral","num_hidden_layers":1,"hidden_size":24,"intermediate_size":32,"num_attention_heads":2,"num_key_value_heads":1,"max_position_embeddings":12,"vocab_size":61,"num_local_experts":4,"num_experts_per_tok":2}' >mixtral.json
printf '%s' '{"model_type":"bert","num_hidden_layers":1,"hidden_size":24,"intermediate_size":32,"num_attention_heads":2,"max_position_embeddings":12,"vocab_size":61}' >bert.json
printf '%s' '{"model_type":"mpt","n_layers":1,"d_model":24,"n_heads":2,"max_seq_len":12,"vocab_size":61,"no_bias":true,"attn_config":{"alibi":true}}' >mpt.json
printf '%s' '{"schema":"model/1","name":"g","family":"graph","loss":"squared_error","input":{"name":"x","shape":[2,4,4]},"operators":[{"name":"conv","kind":"convolution","inputs":["x"],"channels":2,"kernel":3}]}' >graph.json
printf '%s' '{"schema":"model/1","name":"s","family":"graph","loss":"squared_error","input":{"name":"x","shape":[4]},"operators":[{"name":"fc","kind":"linear","inputs":["x"],"features":4},{"name":"relu","kind":"relu","inputs":["fc"]},{"name":"sum","kind":"add","inputs":["fc","relu"]}]}' >shared.json
for refused in graph:1 shared:1; do
  name=${refused%:*}
  "$planner" --model "$name.json" --gpus 1 --seq "${refused#*:}" --global-batch 2 --gpu h200-sxm-141g --quiet --out refused.json >/dev/null
  ends 2 'operators that the cuda backend computes, found\|activations that alone read' timeout $kHangs "$planner" exec refused.json --backend cuda --quiet
done

# PLAN.json trains on the GPU as on the host, in the same memory.
trains_as_on_host() {
  for backend in host cuda; do
    timeout $kHangs "$planner" exec "$1.json" --backend $backend --steps 2 --quiet --out "$1-$backend.json" >/dev/null
  done
  if command -v python3 >/dev/null; then
    python3 - "$1" <<'PYTHON'
import json, sys
host, cuda = (json.load(open(f"{sys.argv[1]}-{name}.json")) for name in ("host", "cuda"))
for x, y in zip(cuda["loss"], host["loss"], strict=True):
    assert abs(x - y) <= 1e-5 * abs(y), (sys.argv[1], x, y)
assert cuda["memory"]["live"] == host["memory"]["live"], sys.argv[1]
PYTHON
  fi
}

# What decoders have had since GPT-2, a mixture and BERT.
for model in mixtral bert mpt; do
  "$planner" --model "$model.json" --gpus 1 --seq 12 --global-batch 2 --gpu h200-sxm-141g --recipe fp32 \
    --optimizer momentum --quiet --out "$model-plan.json" >/dev/null
  trains_as_on_host "$model-plan"
done

# Ranks that divide a sample, by every method; a plan says that no GPU has run them. Half of a product that is kept.
for method in gather ring exchange; do
  plan "$method" --gpus 2 --global-batch 2 --recipe fp32 --pin context=2 --pin "context_method=$method"
  grep -q 'context parallelism of framework native has not run on a GPU yet' "$method.json" || fail "$method: not said"
  trains_as_on_host "$method"
done
plan halves --gpus 1 --global-batch 2 --recipe fp32 --pin checkpoint=selective_op
trains_as_on_host halves

# Products in 8 bits train as on the host, but for operands that round the other way.
printf '%s' '{"model_type":"llama","num_hidden_layers":2,"hidden_size":32,"intermediate_size":48,"num_attention_heads":2,"num_key_value_heads":1,"max_position_embeddings":16,"vocab_size":61}' >llama.json
f8() {
  "$planner" --model "$1.json" --gpus 1 --seq "$2" --global-batch 2 --gpu h200-sxm-141g --precision fp8 --fp8-scaling "$3" \
    --optimizer momentum --quiet --out f8.json >/dev/null
}
f8 llama 16 tensorwise
grep -q 'have not run on a GPU yet' f8.json || fail 'a plan in 8 bits does not say that no GPU has run it'
for backend in host cuda; do
  timeout $kHangs "$planner" exec f8.json --backend $backend --steps 3 --quiet --out "f8-$backend.json" >/dev/null
done
if command -v python3 >/dev/null; then
  python3 - <<'PYTHON'
import json
host, cuda = (json.load(open(f"f8-{name}.json")) for name in ("host", "cuda"))
for x, y in zip(cuda["loss"], host["loss"], strict=True):
    assert abs(x - y) <= 1e-3 * abs(y), (x, y)
PYTHON
fi
for refused in 'llama 16 rowwise:tensorwise on a GPU' 'llama 12 tensorwise:a multiple of 16' 'mixtral 16 tensorwise:mixture of experts'; do
  # shellcheck disable=SC2086  # the words of a cell
  f8 ${refused%:*}
  ends 2 "${refused#*:}" timeout $kHangs "$planner" exec f8.json --backend cuda --quiet
done

# ---- Ctrl-C --------------------------------------------------------------------------------------
code=0
env --default-signal=INT "$planner" exec two.json --backend cuda --steps 100000 --quiet --checkpoint-dir on \
  >/dev/null 2>err.txt &
pid=$!
begun $pid exists 'on/step-*'
kill -INT $pid
wait $pid || code=$?
[[ $code -eq 130 ]] || fail "exit $code after Ctrl-C: $(cat err.txt)"

# ---- calibration: fails, goes on from its points, and plans take what it made ---------------------
calibrate() { timeout $kHangs "$planner" calibrate --backend cuda --budget 1ms --quiet --out gpu.json "$@"; }
expect 3 'a failure that a test asked for' env PLANNER_TWIN=launch=90:device \
  "$planner" calibrate --backend cuda --budget 1ms --quiet --out gpu.json
[[ -s gpu.json.points && ! -e gpu.json ]] || fail 'no points are kept of a calibration that failed'
cp gpu.json.points before.txt
calibrate >page.txt
while IFS= read -r line; do
  grep -qF -- "$line" gpu.json.points || fail "a point was measured again: $line"
done < <(grep -o '"median"[^,}]*' before.txt)
cp gpu.json first.json
calibrate >again.txt
cmp first.json gpu.json || fail 'the same points make another profile'
grep -qi 'spread\|p10\|±' page.txt || fail "no spread of points: $(cat page.txt)"
"$planner" --model gpt2-124m --gpus 1 --global-batch 8 --gpu gpu.json --quiet --out by-own.json >/dev/null ||
  fail 'the profile is not one that plans take'
printf 'the twin: trains, fails and calibrates through the front door\n'
