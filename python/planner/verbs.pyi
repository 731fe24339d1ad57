# Written by tests/python/stubs.py from the options of the command line; a test keeps it true
# (UPDATE_GOLDEN=1 writes it anew). What each option means: planner.help(VERB).
import os
from typing import Any

from ._types import File, Progress, Table, Value, Values
from .files import (Answer, Comparison, Gpus, Import, Launch, Models, Plan, Simulation, Sweep,
                    Validation, answer_of)
from .hugging_face import HuggingFace

def plan(
    model: Value = None,
    gpus: Value = None,
    *,
    progress: Progress = None,
    # model_type as which a config.json of an unknown one is read: llama, mixtral
    model_like: Value = None,
    gpu: Value = None,  # which GPU: H100, rtx4090 or a file; more of them are compared
    node: Value = None,  # a machine that `planner gpus` lists (aws-p5, ...), or a file
    gpus_per_node: Value = None,  # GPUs in one machine (as its profile says)
    site: Value = None,  # calibration of your site, by `planner calibrate`
    internode_gbps: Value = None,  # network bandwidth of a node, in Gbit/s
    host_memory: Value = None,  # host memory of a node, as 512GiB
    host_bandwidth: Value = None,  # bandwidth of that memory, as 200GB/s
    seq: Value = None,  # tokens per sample: 4096 or 4k
    global_batch: Value = None,  # samples per step
    mode: Value = None,  # train, finetune, inference
    recipe: Value = None,  # number types of weights, gradients, optimizer: mixed, fp32, lean, ...
    # bf16 or fp16, the recipe's short type; fp8 or nvfp4, for layers' products
    precision: Value = None,
    fp8_scaling: Value = None,  # of fp8: tensorwise, delayed, rowwise, blockwise, mxfp8
    # also in 8 or 12 bits: params, dispatch, activation_input, attention_output
    fp8_tensors: Value = None,
    optimizer: Value = None,  # adamw, adam, sgd, ...
    lora_rank: Value = None,  # rank of LoRA adapters; 0 (default) trains all weights
    lora_targets: Value = None,  # matrices with adapters: q,k,v,o,gate,up,down, or all-linear
    quantization: Value = None,  # of frozen weights: none, int8, nf4, gptq, two_factor
    attention: Value = None,  # flash2, flash1, fused_softmax, unfused
    framework: Value = None,  # framework whose behaviour is predicted (native)
    # rows of the busiest expert rank, by those of an equal share (1)
    expert_imbalance: Value = None,
    clip: Value = None,  # scale gradients down to this norm of all of them (0: no limit)
    # of fp16: dynamic, none or a number that the loss's gradient is multiplied by (dynamic)
    loss_scale: Value = None,
    # modules for multi-token prediction to train (the model's, where --framework can)
    mtp: Value = None,
    reduce_dtype: Value = None,  # number type in which gradients are sent
    tokens: Value = None,  # tokens to train on, as 500B: adds time, rent and energy
    price: Values = None,  # rent of a GPU for an hour; repeatable
    objective: Value = None,  # what to minimise: time, memory, cost, energy
    pin: Values = None,  # fix a key of the strategy; repeatable
    forbid: Values = None,  # rule out a value of a key; repeatable
    # of a graph of operators: exact (default); mcmc: a Markov chain over simulated divisions, too
    # (--seed)
    search: Value = None,
    allow_stale: bool = False,  # also search strategies that train with stale weights
    max_risk: Value = None,  # highest accepted risk of running out of memory (5%)
    # the simplest strategy within this share of the fastest wins (2%)
    simpler_within: Value = None,
    # rank by steps with slow ranks: stragglers=1%x1.2,links=0.1%x0.5,quantile=0.95
    robust: Value = None,
    top: Value = None,  # alternatives to keep (5)
    threads: Value = None,  # threads for the search (all cores)
    candidate: Value = None,  # choose the N-th best (1)
    out: Value = None,  # write the plan to FILE, completely or not at all
    seed: Value = None,  # seed of everything random (1)
    quiet: bool = False,  # no progress on standard error
    full: bool = False,  # print everything: communication, rejected strategies, other machines
    version: bool = False,  # print the version and the commit
) -> Plan: ...

def sweep(
    model: Value = None,
    gpus: Value = None,
    *,
    progress: Progress = None,
    # model_type as which a config.json of an unknown one is read: llama, mixtral
    model_like: Value = None,
    gpu: Value = None,  # which GPU: H100, rtx4090 or a file; more of them are compared
    node: Value = None,  # a machine that `planner gpus` lists (aws-p5, ...), or a file
    gpus_per_node: Value = None,  # GPUs in one machine (as its profile says)
    site: Value = None,  # calibration of your site, by `planner calibrate`
    internode_gbps: Value = None,  # network bandwidth of a node, in Gbit/s
    host_memory: Value = None,  # host memory of a node, as 512GiB
    host_bandwidth: Value = None,  # bandwidth of that memory, as 200GB/s
    seq: Value = None,  # tokens per sample: 4096 or 4k
    global_batch: Value = None,  # samples per step
    mode: Value = None,  # train, finetune, inference
    recipe: Value = None,  # number types of weights, gradients, optimizer: mixed, fp32, lean, ...
    # bf16 or fp16, the recipe's short type; fp8 or nvfp4, for layers' products
    precision: Value = None,
    fp8_scaling: Value = None,  # of fp8: tensorwise, delayed, rowwise, blockwise, mxfp8
    # also in 8 or 12 bits: params, dispatch, activation_input, attention_output
    fp8_tensors: Value = None,
    optimizer: Value = None,  # adamw, adam, sgd, ...
    lora_rank: Value = None,  # rank of LoRA adapters; 0 (default) trains all weights
    lora_targets: Value = None,  # matrices with adapters: q,k,v,o,gate,up,down, or all-linear
    quantization: Value = None,  # of frozen weights: none, int8, nf4, gptq, two_factor
    attention: Value = None,  # flash2, flash1, fused_softmax, unfused
    framework: Value = None,  # framework whose behaviour is predicted (native)
    # rows of the busiest expert rank, by those of an equal share (1)
    expert_imbalance: Value = None,
    clip: Value = None,  # scale gradients down to this norm of all of them (0: no limit)
    # of fp16: dynamic, none or a number that the loss's gradient is multiplied by (dynamic)
    loss_scale: Value = None,
    # modules for multi-token prediction to train (the model's, where --framework can)
    mtp: Value = None,
    reduce_dtype: Value = None,  # number type in which gradients are sent
    tokens: Value = None,  # tokens to train on, as 500B: adds time, rent and energy
    price: Values = None,  # rent of a GPU for an hour; repeatable
    objective: Value = None,  # what to minimise: time, memory, cost, energy
    pin: Values = None,  # fix a key of the strategy; repeatable
    forbid: Values = None,  # rule out a value of a key; repeatable
    # of a graph of operators: exact (default); mcmc: a Markov chain over simulated divisions, too
    # (--seed)
    search: Value = None,
    allow_stale: bool = False,  # also search strategies that train with stale weights
    max_risk: Value = None,  # highest accepted risk of running out of memory (5%)
    # the simplest strategy within this share of the fastest wins (2%)
    simpler_within: Value = None,
    # rank by steps with slow ranks: stragglers=1%x1.2,links=0.1%x0.5,quantile=0.95
    robust: Value = None,
    top: Value = None,  # alternatives to keep (5)
    threads: Value = None,  # threads for the search (all cores)
    candidate: Value = None,  # choose the N-th best (1)
    each: Values = None,  # pin a key to each of several values; repeatable
    # write the points (sweep/1; .csv or .md by its name) to FILE, completely or not at all
    out: Value = None,
    seed: Value = None,  # seed of everything random (1)
    quiet: bool = False,  # no progress on standard error
    format: Value = None,  # of standard output: text, csv, md (text)
) -> Sweep: ...

def min_gpus(
    model: Value = None,
    *,
    progress: Progress = None,
    # model_type as which a config.json of an unknown one is read: llama, mixtral
    model_like: Value = None,
    # number of GPUs (1); 8xH100 also names the GPU, 8xH100+8xA100 several kinds
    gpus: Value = None,
    gpu: Value = None,  # which GPU: H100, rtx4090 or a file; more of them are compared
    node: Value = None,  # a machine that `planner gpus` lists (aws-p5, ...), or a file
    gpus_per_node: Value = None,  # GPUs in one machine (as its profile says)
    site: Value = None,  # calibration of your site, by `planner calibrate`
    internode_gbps: Value = None,  # network bandwidth of a node, in Gbit/s
    host_memory: Value = None,  # host memory of a node, as 512GiB
    host_bandwidth: Value = None,  # bandwidth of that memory, as 200GB/s
    seq: Value = None,  # tokens per sample: 4096 or 4k
    global_batch: Value = None,  # samples per step
    mode: Value = None,  # train, finetune, inference
    recipe: Value = None,  # number types of weights, gradients, optimizer: mixed, fp32, lean, ...
    # bf16 or fp16, the recipe's short type; fp8 or nvfp4, for layers' products
    precision: Value = None,
    fp8_scaling: Value = None,  # of fp8: tensorwise, delayed, rowwise, blockwise, mxfp8
    # also in 8 or 12 bits: params, dispatch, activation_input, attention_output
    fp8_tensors: Value = None,
    optimizer: Value = None,  # adamw, adam, sgd, ...
    lora_rank: Value = None,  # rank of LoRA adapters; 0 (default) trains all weights
    lora_targets: Value = None,  # matrices with adapters: q,k,v,o,gate,up,down, or all-linear
    quantization: Value = None,  # of frozen weights: none, int8, nf4, gptq, two_factor
    attention: Value = None,  # flash2, flash1, fused_softmax, unfused
    framework: Value = None,  # framework whose behaviour is predicted (native)
    # rows of the busiest expert rank, by those of an equal share (1)
    expert_imbalance: Value = None,
    clip: Value = None,  # scale gradients down to this norm of all of them (0: no limit)
    # of fp16: dynamic, none or a number that the loss's gradient is multiplied by (dynamic)
    loss_scale: Value = None,
    # modules for multi-token prediction to train (the model's, where --framework can)
    mtp: Value = None,
    reduce_dtype: Value = None,  # number type in which gradients are sent
    tokens: Value = None,  # tokens to train on, as 500B: adds time, rent and energy
    price: Values = None,  # rent of a GPU for an hour; repeatable
    objective: Value = None,  # what to minimise: time, memory, cost, energy
    pin: Values = None,  # fix a key of the strategy; repeatable
    forbid: Values = None,  # rule out a value of a key; repeatable
    # of a graph of operators: exact (default); mcmc: a Markov chain over simulated divisions, too
    # (--seed)
    search: Value = None,
    allow_stale: bool = False,  # also search strategies that train with stale weights
    max_risk: Value = None,  # highest accepted risk of running out of memory (5%)
    # the simplest strategy within this share of the fastest wins (2%)
    simpler_within: Value = None,
    # rank by steps with slow ranks: stragglers=1%x1.2,links=0.1%x0.5,quantile=0.95
    robust: Value = None,
    top: Value = None,  # alternatives to keep (5)
    threads: Value = None,  # threads for the search (all cores)
    candidate: Value = None,  # choose the N-th best (1)
    within: Value = None,  # time in which to train --tokens, as 30d
    max_gpus: Value = None,  # try no more than these (65536)
    # write the points (sweep/1; .csv or .md by its name) to FILE, completely or not at all
    out: Value = None,
    seed: Value = None,  # seed of everything random (1)
    quiet: bool = False,  # no progress on standard error
    format: Value = None,  # of standard output: text, csv, md (text)
) -> Sweep: ...

def max_batch(
    model: Value = None,
    gpus: Value = None,
    *,
    progress: Progress = None,
    # model_type as which a config.json of an unknown one is read: llama, mixtral
    model_like: Value = None,
    gpu: Value = None,  # which GPU: H100, rtx4090 or a file; more of them are compared
    node: Value = None,  # a machine that `planner gpus` lists (aws-p5, ...), or a file
    gpus_per_node: Value = None,  # GPUs in one machine (as its profile says)
    site: Value = None,  # calibration of your site, by `planner calibrate`
    internode_gbps: Value = None,  # network bandwidth of a node, in Gbit/s
    host_memory: Value = None,  # host memory of a node, as 512GiB
    host_bandwidth: Value = None,  # bandwidth of that memory, as 200GB/s
    seq: Value = None,  # tokens per sample: 4096 or 4k
    global_batch: Value = None,  # samples per step
    mode: Value = None,  # train, finetune, inference
    recipe: Value = None,  # number types of weights, gradients, optimizer: mixed, fp32, lean, ...
    # bf16 or fp16, the recipe's short type; fp8 or nvfp4, for layers' products
    precision: Value = None,
    fp8_scaling: Value = None,  # of fp8: tensorwise, delayed, rowwise, blockwise, mxfp8
    # also in 8 or 12 bits: params, dispatch, activation_input, attention_output
    fp8_tensors: Value = None,
    optimizer: Value = None,  # adamw, adam, sgd, ...
    lora_rank: Value = None,  # rank of LoRA adapters; 0 (default) trains all weights
    lora_targets: Value = None,  # matrices with adapters: q,k,v,o,gate,up,down, or all-linear
    quantization: Value = None,  # of frozen weights: none, int8, nf4, gptq, two_factor
    attention: Value = None,  # flash2, flash1, fused_softmax, unfused
    framework: Value = None,  # framework whose behaviour is predicted (native)
    # rows of the busiest expert rank, by those of an equal share (1)
    expert_imbalance: Value = None,
    clip: Value = None,  # scale gradients down to this norm of all of them (0: no limit)
    # of fp16: dynamic, none or a number that the loss's gradient is multiplied by (dynamic)
    loss_scale: Value = None,
    # modules for multi-token prediction to train (the model's, where --framework can)
    mtp: Value = None,
    reduce_dtype: Value = None,  # number type in which gradients are sent
    tokens: Value = None,  # tokens to train on, as 500B: adds time, rent and energy
    price: Values = None,  # rent of a GPU for an hour; repeatable
    objective: Value = None,  # what to minimise: time, memory, cost, energy
    pin: Values = None,  # fix a key of the strategy; repeatable
    forbid: Values = None,  # rule out a value of a key; repeatable
    # of a graph of operators: exact (default); mcmc: a Markov chain over simulated divisions, too
    # (--seed)
    search: Value = None,
    allow_stale: bool = False,  # also search strategies that train with stale weights
    max_risk: Value = None,  # highest accepted risk of running out of memory (5%)
    # the simplest strategy within this share of the fastest wins (2%)
    simpler_within: Value = None,
    # rank by steps with slow ranks: stragglers=1%x1.2,links=0.1%x0.5,quantile=0.95
    robust: Value = None,
    top: Value = None,  # alternatives to keep (5)
    threads: Value = None,  # threads for the search (all cores)
    candidate: Value = None,  # choose the N-th best (1)
    # write the points (sweep/1; .csv or .md by its name) to FILE, completely or not at all
    out: Value = None,
    seed: Value = None,  # seed of everything random (1)
    quiet: bool = False,  # no progress on standard error
    format: Value = None,  # of standard output: text, csv, md (text)
) -> Sweep: ...

def simulate(
    plan: File,
    *,
    progress: Progress = None,
    candidate: Value = None,  # 0: the chosen; N: the N-th alternative
    # a rank whose kernels take X times as long, or random=1%,...[,steps=N]; repeatable
    straggler: Values = None,
    # timed (default): each takes its predicted time; flows: messages share the links
    collectives: Value = None,
    links: Value = None,  # with flows: shared (default) or exclusive
    # with flows: the switches between nodes, such as dgx-superpod (hw_profiles/fabrics)
    fabric: Value = None,
    # a rank whose links keep the share X of their bandwidth, or random=...; repeatable
    link_down: Values = None,
    jitter: Value = None,  # kernel times vary by this share
    # steps to play where something is random (200, fewer of large plans)
    sample_steps: Value = None,
    scale: Value = None,  # also with so many data-parallel copies: 1,2,4,8
    unfold: bool = False,  # play every rank, even those that behave alike
    threads: Value = None,  # threads that play the step (all cores)
    report: Value = None,  # also write the answer as a page: FILE.html, or FILE.md
    mtbf: Value = None,  # mean time between failures of one GPU: goodput, best checkpoint interval
    # the same of each gpu, node, network, switch, software; or published: llama3-405b
    failures: Values = None,
    save: Value = None,  # time to write a checkpoint (with failures)
    # or the bandwidth of its storage for the job, as 200GB/s: --save by the plan's bytes; with
    # flows, over the links of the steps
    storage: Value = None,
    # sync (default): steps wait; async: written behind steps; memory: on another node
    saves: Value = None,
    save_every: Value = None,  # steps between checkpoints (the best number)
    detect: Value = None,  # time until a failure is noticed (0s)
    restart: Value = None,  # time from then until steps run again (with failures)
    spare_nodes: Value = None,  # nodes that stand by (always enough)
    repair: Value = None,  # time until a failed part and its node are back
    horizon: Value = None,  # how long a run with failures is played (30d)
    trace: Value = None,  # write a trace of the step
    # json, or perfetto: binary and far smaller (default where FILE ends in .pftrace)
    trace_format: Value = None,
    detail: Value = None,  # slices of the trace: block (default) or op
    ranks: Value = None,  # show these ranks, or all
    micro_batches: Value = None,  # show these micro-batches, or all
    chakra: Value = None,  # write a Chakra execution trace of each rank there, for other simulators
    chakra_ranks: Value = None,  # of these ranks alone
    gpu: Value = None,  # whose links, by name or file
    node: Value = None,  # a machine that `planner gpus` lists (aws-p5, ...), or a file
    gpus_per_node: Value = None,  # GPUs in one machine (as its profile says)
    site: Value = None,  # calibration of your site, by `planner calibrate`
    internode_gbps: Value = None,  # network bandwidth of a node, in Gbit/s
    host_memory: Value = None,  # host memory of a node, as 512GiB
    host_bandwidth: Value = None,  # bandwidth of that memory, as 200GB/s
    groups: Value = None,  # ranks of process groups (comm_groups.json there)
    out: Value = None,  # write the simulation to FILE, completely or not at all
    seed: Value = None,  # seed of everything random (1)
    quiet: bool = False,  # no progress on standard error
) -> Simulation: ...

def compare(
    *files: File,
    progress: Progress = None,
    strategies: bool = False,  # every candidate of each plan, side by side
    machines: bool = False,  # each plan on every GPU that its --gpu named
    # what a framework printed while it ran the plan, a profile of torch.profiler, a snapshot of
    # its memory, or a rank's Chakra trace; repeatable
    log: Values = None,
    format: Value = None,  # of standard output: text, csv, md (text)
    out: Value = None,  # write the comparison to FILE, completely or not at all
    seed: Value = None,  # seed of everything random (1)
    quiet: bool = False,  # no progress on standard error
    # read files where this process can write only its answer, start nothing and reach no network
    # (on where the kernel has it)
    sandbox: Value = None,
) -> Comparison: ...

def validate(
    runs: Table,
    *,
    progress: Progress = None,
    more: Values = None,  # another CSV of runs, scored with them; repeatable
    leave_out: Values = None,  # do not score its rows; repeatable
    # set a field of a profile: [GPU or framework:]gpu.gemm_sustained=0.8; repeatable
    set: Values = None,
    site: Value = None,  # calibration of the site of all rows, by `planner calibrate`
    # a Markdown page and its scatter plot; fits without each dataset, which takes a minute
    report: Value = None,
    collectives: Value = None,  # timed collectives: adds a section to that page
    out: Value = None,  # write the scores to FILE, completely or not at all
    seed: Value = None,  # seed of everything random (1)
    quiet: bool = False,  # no progress on standard error
    # read files where this process can write only its answer, start nothing and reach no network
    # (on where the kernel has it)
    sandbox: Value = None,
) -> Validation: ...

def emit(
    plan: File,
    framework: str | None = None,
    *,
    progress: Progress = None,
    candidate: Value = None,  # 0: the chosen; N: the N-th alternative
    # what starts it on all nodes: torchrun, slurm, jobset, pytorchjob, mpijob, skypilot
    launcher: Value = None,
    image: Value = None,  # container image, for launchers on Kubernetes
    # folder to start in: in the image, or for skypilot the one that it brings along
    workdir: Value = None,
    script: Value = None,  # your training script, for deepspeed
    out: Value = None,  # write the script or configuration to FILE, completely or not at all
    seed: Value = None,  # seed of everything random (1)
    quiet: bool = False,  # no progress on standard error
) -> Launch: ...

def import_(
    *files: File,
    progress: Progress = None,
    plan: bool = False,  # also plan it, and compare it with the best strategy for its job
    var: Values = None,  # a variable of the script, or a setting of the Python file; repeatable
    config: Value = None,  # the function of a Python file that is meant
    vocab: Value = None,  # tokens of the vocabulary, where the files do not say
    model_out: Value = None,  # write a model that has no name, by its sizes
    model: Value = None,  # a name of `planner models`, a config.json, its folder, or a model file
    # model_type as which a config.json of an unknown one is read: llama, mixtral
    model_like: Value = None,
    # number of GPUs (1); 8xH100 also names the GPU, 8xH100+8xA100 several kinds
    gpus: Value = None,
    gpu: Value = None,  # which GPU: H100, rtx4090 or a file; more of them are compared
    node: Value = None,  # a machine that `planner gpus` lists (aws-p5, ...), or a file
    gpus_per_node: Value = None,  # GPUs in one machine (as its profile says)
    site: Value = None,  # calibration of your site, by `planner calibrate`
    internode_gbps: Value = None,  # network bandwidth of a node, in Gbit/s
    host_memory: Value = None,  # host memory of a node, as 512GiB
    host_bandwidth: Value = None,  # bandwidth of that memory, as 200GB/s
    seq: Value = None,  # tokens per sample: 4096 or 4k
    global_batch: Value = None,  # samples per step
    mode: Value = None,  # train, finetune, inference
    recipe: Value = None,  # number types of weights, gradients, optimizer: mixed, fp32, lean, ...
    # bf16 or fp16, the recipe's short type; fp8 or nvfp4, for layers' products
    precision: Value = None,
    fp8_scaling: Value = None,  # of fp8: tensorwise, delayed, rowwise, blockwise, mxfp8
    # also in 8 or 12 bits: params, dispatch, activation_input, attention_output
    fp8_tensors: Value = None,
    optimizer: Value = None,  # adamw, adam, sgd, ...
    lora_rank: Value = None,  # rank of LoRA adapters; 0 (default) trains all weights
    lora_targets: Value = None,  # matrices with adapters: q,k,v,o,gate,up,down, or all-linear
    quantization: Value = None,  # of frozen weights: none, int8, nf4, gptq, two_factor
    attention: Value = None,  # flash2, flash1, fused_softmax, unfused
    framework: Value = None,  # framework whose behaviour is predicted (native)
    # rows of the busiest expert rank, by those of an equal share (1)
    expert_imbalance: Value = None,
    clip: Value = None,  # scale gradients down to this norm of all of them (0: no limit)
    # of fp16: dynamic, none or a number that the loss's gradient is multiplied by (dynamic)
    loss_scale: Value = None,
    # modules for multi-token prediction to train (the model's, where --framework can)
    mtp: Value = None,
    reduce_dtype: Value = None,  # number type in which gradients are sent
    tokens: Value = None,  # tokens to train on, as 500B: adds time, rent and energy
    price: Values = None,  # rent of a GPU for an hour; repeatable
    objective: Value = None,  # what to minimise: time, memory, cost, energy
    pin: Values = None,  # fix a key of the strategy; repeatable
    forbid: Values = None,  # rule out a value of a key; repeatable
    # of a graph of operators: exact (default); mcmc: a Markov chain over simulated divisions, too
    # (--seed)
    search: Value = None,
    allow_stale: bool = False,  # also search strategies that train with stale weights
    max_risk: Value = None,  # highest accepted risk of running out of memory (5%)
    # the simplest strategy within this share of the fastest wins (2%)
    simpler_within: Value = None,
    # rank by steps with slow ranks: stragglers=1%x1.2,links=0.1%x0.5,quantile=0.95
    robust: Value = None,
    top: Value = None,  # alternatives to keep (5)
    threads: Value = None,  # threads for the search (all cores)
    candidate: Value = None,  # choose the N-th best (1)
    out: Value = None,  # write what was read to FILE, completely or not at all
    seed: Value = None,  # seed of everything random (1)
    quiet: bool = False,  # no progress on standard error
) -> Import: ...

def explain(
    *question: str,
    progress: Progress = None,
    servers: Value = None,  # parameter servers (2)
    measure: bool = False,  # run a small model and count the bytes it sends
    plan: Value = None,  # explain this plan instead of a new one
    model: Value = None,  # a name of `planner models`, a config.json, its folder, or a model file
    # model_type as which a config.json of an unknown one is read: llama, mixtral
    model_like: Value = None,
    # number of GPUs (1); 8xH100 also names the GPU, 8xH100+8xA100 several kinds
    gpus: Value = None,
    gpu: Value = None,  # which GPU: H100, rtx4090 or a file; more of them are compared
    node: Value = None,  # a machine that `planner gpus` lists (aws-p5, ...), or a file
    gpus_per_node: Value = None,  # GPUs in one machine (as its profile says)
    site: Value = None,  # calibration of your site, by `planner calibrate`
    internode_gbps: Value = None,  # network bandwidth of a node, in Gbit/s
    host_memory: Value = None,  # host memory of a node, as 512GiB
    host_bandwidth: Value = None,  # bandwidth of that memory, as 200GB/s
    seq: Value = None,  # tokens per sample: 4096 or 4k
    global_batch: Value = None,  # samples per step
    mode: Value = None,  # train, finetune, inference
    recipe: Value = None,  # number types of weights, gradients, optimizer: mixed, fp32, lean, ...
    # bf16 or fp16, the recipe's short type; fp8 or nvfp4, for layers' products
    precision: Value = None,
    fp8_scaling: Value = None,  # of fp8: tensorwise, delayed, rowwise, blockwise, mxfp8
    # also in 8 or 12 bits: params, dispatch, activation_input, attention_output
    fp8_tensors: Value = None,
    optimizer: Value = None,  # adamw, adam, sgd, ...
    lora_rank: Value = None,  # rank of LoRA adapters; 0 (default) trains all weights
    lora_targets: Value = None,  # matrices with adapters: q,k,v,o,gate,up,down, or all-linear
    quantization: Value = None,  # of frozen weights: none, int8, nf4, gptq, two_factor
    attention: Value = None,  # flash2, flash1, fused_softmax, unfused
    framework: Value = None,  # framework whose behaviour is predicted (native)
    # rows of the busiest expert rank, by those of an equal share (1)
    expert_imbalance: Value = None,
    clip: Value = None,  # scale gradients down to this norm of all of them (0: no limit)
    # of fp16: dynamic, none or a number that the loss's gradient is multiplied by (dynamic)
    loss_scale: Value = None,
    # modules for multi-token prediction to train (the model's, where --framework can)
    mtp: Value = None,
    reduce_dtype: Value = None,  # number type in which gradients are sent
    tokens: Value = None,  # tokens to train on, as 500B: adds time, rent and energy
    price: Values = None,  # rent of a GPU for an hour; repeatable
    objective: Value = None,  # what to minimise: time, memory, cost, energy
    pin: Values = None,  # fix a key of the strategy; repeatable
    forbid: Values = None,  # rule out a value of a key; repeatable
    # of a graph of operators: exact (default); mcmc: a Markov chain over simulated divisions, too
    # (--seed)
    search: Value = None,
    allow_stale: bool = False,  # also search strategies that train with stale weights
    max_risk: Value = None,  # highest accepted risk of running out of memory (5%)
    # the simplest strategy within this share of the fastest wins (2%)
    simpler_within: Value = None,
    # rank by steps with slow ranks: stragglers=1%x1.2,links=0.1%x0.5,quantile=0.95
    robust: Value = None,
    top: Value = None,  # alternatives to keep (5)
    threads: Value = None,  # threads for the search (all cores)
    candidate: Value = None,  # choose the N-th best (1)
    out: Value = None,  # write the explanation to FILE, completely or not at all
    seed: Value = None,  # seed of everything random (1)
    quiet: bool = False,  # no progress on standard error
) -> Answer: ...

def models(
    *,
    out: Value = None,  # write the list to FILE, completely or not at all
    seed: Value = None,  # seed of everything random (1)
    quiet: bool = False,  # no progress on standard error
) -> Models: ...

def gpus(
    name: File | None = None,
    *,
    out: Value = None,  # write the list to FILE, completely or not at all
    seed: Value = None,  # seed of everything random (1)
    quiet: bool = False,  # no progress on standard error
) -> Gpus: ...

def report(
    *files: File,
    format: str | None = None,
    progress: Progress = None,
    out: Value = None,  # write the page to FILE, completely or not at all
    seed: Value = None,  # seed of everything random (1)
    quiet: bool = False,  # no progress on standard error
    # read files where this process can write only its answer, start nothing and reach no network
    # (on where the kernel has it)
    sandbox: Value = None,
) -> str: ...

def load(
    path: str | os.PathLike[str],
) -> Any: ...

def from_hf(
    config: File,
) -> HuggingFace: ...

def help(
    verb: str = 'plan',
) -> str: ...

def version() -> str: ...
