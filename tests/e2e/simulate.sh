#!/usr/bin/env bash
# A plan is played through the real binary: its trace, its figures, what is refused.
# usage: simulate.sh BIN_FOLDER
set -uo pipefail
planner=$1/planner
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
plan() {
  "$planner" --model gpt2-124m --gpus 4 --gpu h100-sxm-80g --global-batch 8 --seq 64 "$@" \
    >/dev/null || complain "planning $*"
}
# expect CODE TEXT ARGUMENTS...: the exit code, and an extended regular expression on stderr.
expect() {
  local code=$1 text=$2
  shift 2
  answers "$code" "$text" "$planner" "$@"
  if [[ $code -eq 2 && -s out.txt ]]; then complain "planner $*: refused, yet wrote on stdout"; fi
}

plan --pin pipeline=4 --pin schedule=1f1b --pin micro_batch=1 --out plan.json
expect 0 '' simulate plan.json --trace first.json --json --out one.json
if ! cmp -s out.txt one.json; then complain '--json and --out differ'; fi
expect 0 '' simulate plan.json --trace second.json --json --out two.json
if ! cmp -s first.json second.json || ! cmp -s one.json two.json; then
  complain 'the same plan gave other bytes'
fi
for rank in 0 1 2 3; do
  if ! grep -q "\"rank $rank, stage $rank\"" first.json; then complain "no rank $rank"; fi
done
for phase in X C s f M; do
  if ! grep -q "\"ph\":\"$phase\"" first.json; then complain "no event of phase $phase"; fi
done
expect 0 '' simulate plan.json --detail op --trace detailed.json
if [[ $(wc -l <detailed.json) -le $(wc -l <first.json) ]]; then
  complain '--detail op shows no more than --detail block'
fi
if [[ $(tr -s '\n ' ' ' <out.txt) != *'detailed.json '*' shows every rank and every micro-batch'* ]]; then
  complain 'no word of what the trace shows'
fi
if ! grep -A1 '^Next$' out.txt | grep 'open detailed.json in ui.perfetto.dev' >/dev/null; then
  complain 'no next step'
fi
# Part of a trace, in either format.
expect 0 '' simulate plan.json --ranks 1-2 --micro-batches 0..1 --trace part.json --json
for said in '"whole": false' '"bytes": '"$(wc -c <part.json)"; do
  if ! grep -q "$said" out.txt; then complain "the simulation does not say $said"; fi
done
if grep -q '"pid":0\|"name":"forward 2"' part.json; then complain 'more than was asked for'; fi
expect 0 '' simulate plan.json --ranks all --micro-batches all --trace all.json
if ! cmp -s first.json all.json; then complain 'a small trace is not whole by itself'; fi
expect 0 '' simulate plan.json --trace one.pftrace
expect 0 '' simulate plan.json --trace two.pb --trace-format perfetto
if ! cmp -s one.pftrace two.pb; then complain 'the same plan gave other packets'; fi
# A larger one is made for a browser: 8 ranks that behave alike, 512 micro-batches.
"$planner" --model gpt2-124m --gpus 8 --gpu h100-sxm-80g --global-batch 4096 --seq 64 \
  --pin micro_batch=1 --out large.json >/dev/null || complain 'planning a long step'
expect 0 '' simulate large.json --trace large.trace
if [[ $(wc -c <large.trace) -gt 32000000 ]]; then complain 'a trace that no browser opens'; fi
if ! tr '\n' ' ' <out.txt | grep 'so that a *browser opens it. All of them: --ranks all' >/dev/null; then
  complain 'no word of what was left out'
fi
expect 2 'ranks from 0 to 3, found 4' simulate plan.json --trace no.json --ranks 2-4
expect 2 'micro-batches from 0 to 7' simulate plan.json --trace no.json --micro-batches 8
expect 2 'as 0,3,8-11' simulate plan.json --trace no.json --ranks one
expect 2 'json or perfetto' simulate plan.json --trace no.json --trace-format xml
expect 2 'ranks: expected --trace FILE' simulate plan.json --ranks 1
expect 0 '' simulate plan.json --jitter 0.05 --seed 7 --json
cp out.txt jitter.json
expect 0 '' simulate plan.json --jitter 0.05 --seed 7 --json
if ! cmp -s out.txt jitter.json; then complain 'the same seed gave other bytes'; fi
expect 0 '' simulate plan.json --straggler rank=3,slowdown=1.5
if ! grep -q 'rank 3 computes 1.5 times as long' out.txt; then complain 'no word of straggler'; fi
if ! grep -q 'slower than the healthy step' out.txt; then complain 'not held against healthy'; fi
if ! grep -q 'Longer than in the healthy step: compute by' out.txt; then complain 'what grew'; fi

# A step of 256 ranks that several threads play: the same bytes from one, to the trace.
expect 0 '' --model gpt2-124m --gpus 256xh100-sxm-80g --seq 64 --global-batch 4096 \
  --pin micro_batch=1 --pin tensor=2 --pin data=64 --pin pipeline=2 --quiet --out large.json
for threads in 1 2 3; do
  expect 0 '' simulate large.json --unfold --straggler rank=77,slowdown=1.3 --threads $threads \
    --trace "threads$threads.pftrace" --ranks 0-2,77,255 --json
  cp out.txt "threads$threads.json"
  if ! cmp -s threads1.json "threads$threads.json" ||
    ! cmp -s threads1.pftrace "threads$threads.pftrace"; then
    complain "$threads threads gave other bytes"
  fi
done
expect 2 'threads: expected an integer >= 1' simulate large.json --threads 0

expect 0 '' simulate plan.json --collectives flows --json
if ! grep -q 'wire_bytes_by_rank' out.txt; then complain 'flows count no bytes'; fi
if ! grep -A3 '"critical_path": \[' out.txt | grep '"kind"' >/dev/null; then complain 'flows have no path'; fi
# Ranks that are alike are played once, and the trace is the one of all ranks.
expect 0 '' --model gpt2-124m --gpus 16xh100-sxm-80g --seq 64 --pin data=16 --quiet --out data.json
expect 0 '' simulate data.json --collectives flows --trace flows.json --json
if grep -q '"ranks_played": 16' out.txt; then complain 'alike ranks were played one by one'; fi
expect 0 '' simulate data.json --collectives flows --trace every.json --json --unfold
if ! grep -q '"ranks_played": 16' out.txt; then complain 'not every rank was played'; fi
if ! cmp -s flows.json every.json; then complain 'flows of alike ranks are not those of all'; fi
# Fabrics: the load of the links, one seed one answer, and files that cannot be meant.
expect 0 '' simulate data.json --fabric dgx-superpod
if ! grep -q 'NIC out' out.txt; then complain 'no load of the links'; fi
if ! grep -q 'cores 16 is assumed: ' out.txt; then complain 'no word of what the fabric assumes'; fi
expect 0 '' simulate data.json --fabric meta-roce-24k --seed 3 --trace hashed.json --json
cp out.txt seed3.json
expect 0 '' simulate data.json --fabric meta-roce-24k --seed 3 --trace again.json --json
if ! cmp -s out.txt seed3.json || ! cmp -s hashed.json again.json; then
  complain 'the same hashes gave other bytes'
fi
if ! grep -q '"link_loads"' out.txt; then complain 'no loads in the file'; fi
expect 0 '' simulate data.json --fabric leaf-spine-3to1 --report links.html --json --out links.json
if ! grep -q '<svg class="cells"' links.html; then complain 'no picture of the links'; fi
"$planner" report links.json --out same.html >/dev/null || complain 'reporting the links'
if [[ $(grep -c '<svg class="cells"' links.html) != $(grep -c '<svg class="cells"' same.html) ]]; then
  complain 'report draws other links than simulate'
fi
expect 2 'ends with .html or .md' simulate data.json --fabric leaf-spine-3to1 --report links.txt
# A checkpoint over these links, with and without failures.
expect 0 '' simulate data.json --fabric dgx-superpod --storage 20GB/s
if ! grep -q 'A checkpoint over these links' out.txt; then complain 'no word of the checkpoint'; fi
expect 0 '' simulate data.json --links shared --storage 20GB/s --json --report kept.html
if ! grep -q '"checkpoint_traffic"' out.txt; then complain 'no checkpoint in the file'; fi
if ! grep -q 'Checkpoint over these links' kept.html; then complain 'no checkpoint on the page'; fi
expect 0 '' simulate data.json --links shared --saves memory --mtbf 50000h --storage 20GB/s \
  --restart 10min
if ! grep -q 'each checkpoint delays them by' out.txt; then complain 'no delay of checkpoints'; fi
"$planner" --model gpt2 --gpus 1 --gpu h100-sxm-80g --mode inference --quiet --out serve.json >/dev/null
expect 2 'nothing to save; leave --storage out' simulate serve.json --links shared --storage 20GB/s
expect 2 'or --links shared for what checkpoints cost' simulate data.json --storage 20GB/s
expect 2 'write --storage 200GB/s' simulate data.json --links shared --saves async
expect 2 'shared links where a checkpoint' simulate data.json --links exclusive --storage 20GB/s
expect 2 'did you mean' simulate data.json --fabric dgx-superpot
expect 2 'flows where' simulate data.json --collectives timed --fabric dgx-superpod
cat >small.json <<'END'
{"schema": "fabric/1", "id": "small", "nics_per_node": ["8", "test"],
 "nic_bandwidth": ["400 Gbps", "test"], "nic_efficiency": ["1", "test"], "routing": ["ecmp", "test"],
 "shape": "torus", "link_bandwidth": ["400 Gbps", "test"], "dimensions": ["1", "test"]}
END
expect 2 'room for the plan.s 2 nodes' simulate data.json --fabric small.json
sed 's/"id": "small",/"id": "small", "gpus_per_node": ["72", "test"],/' small.json >rack.json
expect 2 'for nodes of 72.*plan with --gpus-per-node 72' simulate data.json --fabric rack.json
sed 's/"1", "test"\]}/"1000x1000", "test"]}/' small.json >million.json
expect 2 'at most 4096 nodes' simulate data.json --fabric million.json
sed 's/"400 Gbps", "test"\], "dim/"0 Gbps", "test"], "dim/' small.json >zero.json
expect 2 'link_bandwidth' simulate data.json --fabric zero.json
expect 0 '' --model gpt2-124m --gpus 1024xh100-sxm-80g --quiet --out many.json
expect 0 '' simulate many.json --collectives flows
expect 0 '' simulate plan.json --links exclusive --link-down rank=1,share=0.5
if ! grep -q 'rank 1 keep 50.0 %' out.txt; then complain 'no word of a weak link'; fi
expect 0 '' simulate plan.json --link-down rank=1

# Execution traces: written, played, refused; a folder is whole or as it was.
step_of() { awk '/"step":/ { printf "%.12f", $2; exit }' "$1"; }  # to the picosecond
expect 0 '' simulate plan.json --chakra traces --json
cp out.txt planned.json
if [[ $(ls traces) != $'comm_groups.json\nstep.0.et\nstep.1.et\nstep.2.et\nstep.3.et' ]]; then
  complain "other files: $(ls -A traces)"
fi
expect 0 '' simulate traces --json --out played.json
if [[ $(step_of planned.json) != "$(step_of played.json)" ]]; then
  complain "traces take $(step_of played.json), the plan $(step_of planned.json)"
fi
expect 0 '' simulate traces/step.2.et --gpu h100-sxm-80g --json
if [[ $(step_of planned.json) != "$(step_of out.txt)" ]]; then complain 'costed anew, another step'; fi
expect 0 '' simulate traces/step --gpu rtx3090 --gpus-per-node 2 --internode-gbps 10
if ! grep -q 'transfers on rtx3090' out.txt; then complain 'no word of the machine'; fi
cp -r traces before
expect 0 '' simulate plan.json --chakra traces
if ! diff -rq traces before >/dev/null; then complain 'the same plan gave other traces'; fi
expect 0 '' simulate plan.json --chakra some --chakra-ranks 0,2
expect 2 'none of rank 1' simulate some
touch traces/mine.txt
expect 2 'mine\.txt' simulate plan.json --chakra traces
rm traces/mine.txt
expect 2 'mkdir' simulate plan.json --chakra no/such/traces
expect 2 'a new name' simulate plan.json --chakra plan.json
expect 2 'ranks below 4' simulate plan.json --chakra other --chakra-ranks 4
expect 2 'ranks, as 0,8' simulate plan.json --chakra other --chakra-ranks x
expect 2 'chakra FOLDER' simulate plan.json --chakra-ranks 1
expect 2 'timed' simulate plan.json --chakra other --collectives flows
expect 2 'a plan brings its machine' simulate plan.json --gpu h100-sxm-80g
expect 2 'straggler: expected a plan' simulate traces --straggler rank=1,slowdown=2
expect 2 'gpu' simulate traces --node dgx
expect 2 'no execution|none' simulate nowhere.et
mkdir empty
expect 2 'none' simulate empty
head -c 1000 traces/step.3.et >before/step.3.et
expect 2 'before/step\.3\.et: byte [0-9]+' simulate before
printf '{"1": [0, "x"]}' >before/comm_groups.json
expect 2 'comm_groups\.json:1:[0-9]+ /1' simulate before
if [[ -n $(find . -name '.planner-*') ]]; then complain "left: $(find . -name '.planner-*')"; fi

plan --pin data=4 --out copies.json
expect 0 '' simulate copies.json --scale 1,2,4 --mtbf 1000h --save 10s --restart 1min
if ! grep -q 'Goodput' out.txt; then complain 'no goodput'; fi
if ! grep -q 'With failures a step takes' out.txt; then complain 'no step with failures'; fi
if grep -qE '[0-9]e[+-]?[0-9]' out.txt; then complain 'e-notation'; fi
expect 2 'data-parallel copies' simulate copies.json --scale 1,x
expect 2 'save' simulate copies.json --mtbf 1000h --restart 1min
expect 2 'mtbf' simulate copies.json --save 1min
expect 2 'unit|duration' simulate copies.json --mtbf 1000 --save 10s --restart 1min
expect 2 'either --mtbf or --failures' simulate copies.json --mtbf 1000h --failures gpu=1h --save 1s --restart 1s
expect 2 'nodes=N after switch' simulate copies.json --failures switch=1h --save 1s --restart 1s
expect 2 'there twice' simulate copies.json --failures gpu=1h,gpu=2h --save 1s --restart 1s
expect 2 'gpu, node, network' simulate copies.json --failures disk=1h --save 1s --restart 1s
expect 2 'llama3-405b' simulate copies.json --failures llama3 --save 1s --restart 1s
expect 2 'repair what fails' simulate copies.json --failures gpu=1000h --save 1s --restart 1s --spare-nodes 1
expect 2 'two nodes or more' simulate copies.json --failures gpu=1000h --save 1s --restart 1s --saves memory
expect 2 'sync, async, memory' simulate copies.json --failures gpu=1000h --save 1s --restart 1s --saves later
expect 2 'either --save or --storage' simulate copies.json --mtbf 1000h --save 1s --storage 1GB/s --restart 1s
expect 2 'mtbf or --failures beside' simulate copies.json --spare-nodes 1
expect 0 '' simulate copies.json --failures gpu=1000h,switch=9000h,nodes=16,repair=4h --failures software=90h \
  --storage 1GB/s --saves async --detect 1min --restart 1min --spare-nodes 1 --repair 1d --save-every 100
for word in "Young's rule" 'as asked' 'waiting for nodes' 'switch' 'weights and optimizer'; do
  if ! grep -q "$word" out.txt; then complain "no $word"; fi
done

expect 0 '' simulate copies.json --straggler random=20%,slowdown=1.5,steps=3 --link-down random=10%,share=0.5
if ! grep -q 'Steps that vary' out.txt; then complain 'no variation'; fi
cp out.txt varied.txt
expect 0 '' simulate copies.json --straggler random=20%,slowdown=1.5,steps=3 --link-down random=10%,share=0.5
if ! cmp -s out.txt varied.txt; then complain 'a seed gives two distributions'; fi
expect 0 '' simulate copies.json --jitter 0.05 --sample-steps 10
expect 2 'something that varies' simulate copies.json --sample-steps 10
expect 2 'random=SHARE' simulate copies.json --straggler random=2,slowdown=1.5
expect 2 'random=SHARE' simulate copies.json --straggler random=2%
expect 2 'random=SHARE' simulate copies.json --link-down random=2%,share=0
expect 2 'timed where' simulate copies.json --straggler random=2%,slowdown=1.5 --collectives flows
expect 2 'failures to play' simulate copies.json --mtbf 1s --save 1s --restart 1s --horizon 10000000d

expect 2 'rank below 4' simulate plan.json --straggler rank=4,slowdown=1.5
expect 2 'slowdown' simulate plan.json --straggler rank=1
expect 2 'slowdown' simulate plan.json --straggler rank=1,slowdown=0
expect 2 'share' simulate plan.json --jitter -1
expect 2 'rank below 4' simulate plan.json --link-down rank=4,share=0.5
expect 2 'share' simulate plan.json --link-down rank=1,share=2
expect 2 'timed or flows' simulate plan.json --collectives fast
expect 2 'flows where' simulate plan.json --collectives timed --links shared
expect 2 'block or op' simulate plan.json --trace no.json --detail everything
expect 2 'candidate' simulate plan.json --candidate 99
expect 2 'no/such' simulate plan.json --trace no/such/trace.json
expect 2 'missing\.json' simulate missing.json
head -c 900 plan.json >half.json
expect 2 'half\.json' simulate half.json
sed -E 's/"grad_accum": [0-9]+/"grad_accum": 1000000000000/' plan.json >many.json
expect 2 'grad_accum|global_batch' simulate many.json
sed 's/"450 GB\/s"/"0 GB\/s"/; s/"367.2 GB\/s"/"0 GB\/s"/' plan.json >still.json
expect 2 'still\.json.* /cluster/profile' simulate still.json
sed -E 's/"live": [0-9]+/"live": -5/' plan.json >negative.json
expect 2 'negative\.json:[0-9]+:[0-9]+ ' simulate negative.json
"$planner" --model gpt2-124m --gpus 4 --gpu h100-sxm-80g --global-batch 8 --seq 64 --pin data=3 \
  --out never.json >/dev/null 2>&1
expect 1 'no feasible' simulate never.json

if [[ $failures -gt 0 ]]; then
  printf '%s checks failed\n' "$failures"
  exit 1
fi
printf 'simulate: all as it should be\n'
