"""What a plan consists of, as records. Bytes and counts are integers, times are seconds.

`planner explain WORD` and `planner.explain(WORD)` say what a word means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._record import Record

_record = dataclass(frozen=True, repr=True)


@_record
class Strategy(Record):
    """How the work of a step is divided among the GPUs."""

    data: int
    tensor: int
    pipeline: int
    context: int
    context_method: str
    expert: int
    expert_tensor: int
    split: int
    splits: list[str]
    batch_norm: str
    sequence_parallel: bool
    virtual_stages: int
    schedule: str
    stages: list[int]
    partition: str
    parts: list[Any]
    sharding: str
    shard_group: int
    micro_batch: int
    grad_accum: int
    shares: list[int]
    checkpoint: str
    checkpoint_every: int
    recompute_modules: list[str]
    grad_sync: str
    servers: int
    servers_colocated: bool
    server_mode: str
    overlap: bool
    bucket_bytes: int
    tp_overlap: bool
    expert_dispatch: str
    expert_overlap: bool
    loss_chunks: int
    offload: list[str]
    mesh_order: list[str]


@_record
class MemoryPeaks(Record):
    """The most that each term has at any moment of the step, in bytes."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    communication: int


@_record
class StageMemory(Record):
    """Memory of the fullest GPU of one pipeline stage, in bytes."""

    stage: int
    weights: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    communication: int
    live: int
    reserved: int
    workspace: int
    context: int
    communicators: int
    device: int
    host: int
    waiting: int
    peaks: MemoryPeaks


@_record
class Memory(Record):
    """Memory of the fullest GPU, in bytes: `device` of `usable`.

    weights to communication sum to `live`; `reserved` is what the framework's allocator holds for
    it; workspace, context and communicators come on top. `estimated`: `reserved` is an estimate, as
    it may be of plans that were not chosen.
    """

    rank: int
    weights: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    communication: int
    live: int
    reserved: int
    workspace: int
    context: int
    communicators: int
    device: int
    host: int
    waiting: int
    usable: int
    estimated: bool
    peaks: MemoryPeaks
    stages: list[StageMemory]


@_record
class Time(Record):
    """Time of a step on its critical rank, in seconds.

    step = compute + exposed_communication + bubble + optimizer. `communication` is how long the
    network is busy, most of which other work may hide.
    """

    step: float
    compute: float
    exposed_communication: float
    bubble: float
    optimizer: float | None
    communication: float
    launch_bound: bool


@_record
class LibraryCalls(Record):
    """Calls of a collective for which the library takes the same algorithm and protocol."""

    algorithm: str
    protocol: str
    channels: int
    count: int
    payload_bytes: int
    smallest_bytes: int
    largest_bytes: int


@_record
class Communication(Record):
    """The calls of one collective in a step, on the busiest rank."""

    what: str
    collective: str
    algorithm: str
    group_size: int
    count: int
    payload_bytes: int
    wire_bytes_per_rank: int | None
    seconds: float
    library: list[LibraryCalls] | None = None


@_record
class Throughput(Record):
    """Speed; `mfu` is the share of the GPUs' peak that the model's own FLOPs use."""

    samples_per_second: float
    tokens_per_second: float
    tokens_per_second_per_gpu: float
    model_tflops_per_gpu: float
    mfu: float


@_record
class Uncertainty(Record):
    """The ranges in which 90 % of runs lie, and the risk of running out of memory (0 to 1)."""

    step_low: float
    step_high: float
    device_low: int
    device_high: int
    out_of_memory: float
    calibration_runs: int
    similar_runs: int


@_record
class Candidate(Record):
    """A strategy with its predicted memory, time, traffic and uncertainty."""

    strategy: Strategy
    memory: Memory
    time: Time
    communication: list[Communication]
    throughput: Throughput
    uncertainty: Uncertainty
    evaluator: str


@_record
class Model(Record):
    """The model of a plan. `spec` is all that was read of it."""

    name: str
    family: str
    parameters: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn_hidden: int
    vocab: int
    seq_len: int
    spec: dict[str, Any]


@_record
class Cluster(Record):
    """The machine of a plan. `profile` has each of its figures, with its source."""

    gpu: str
    gpus: int
    gpus_per_node: int
    nodes: int
    usable_bytes: int
    profile: dict[str, Any]


@_record
class Job(Record):
    """What is to be trained, and how; none of it is searched."""

    mode: str
    seq_len: int
    global_batch: int
    recipe: str
    precision: str
    optimizer: str
    lora_rank: int
    lora_targets: list[str]
    quantization: str
    attention: str
    framework: str
    fused_norm: bool
    compile: bool
    fp8_scaling: str
    reduce_dtype: str | None
    fp8_tensors: list[str] | None = None
    mtp_layers: int | None = None
    expert_imbalance: float | None = None
    clip: float | None = None
    loss_scale: str | None = None


@_record
class Chain(Record):
    """A walk over divisions of a graph's operators (`search="mcmc"`), beside the exact search."""

    seed: int
    proposals: int
    accepted: int
    start_seconds: float
    found_seconds: float
    exact_seconds: float
    splits: list[str]


@_record
class Search(Record):
    """What the search went through, and the seconds that it took."""

    enumerated: int
    infeasible: int
    evaluated: int
    replayed: int
    simulated: int
    seconds: float
    chain: Chain | None = None


@_record
class Earned(Record):
    """What a part of the chosen strategy gains: the best one without it."""

    part: str
    without: Strategy | None
    step_seconds: float | None
    device: int | None


@_record
class Training(Record):
    """What it takes to train on the tokens that were asked for."""

    tokens: int
    seconds: float
    gpu_hours: float
    cost_usd: float | None
    energy_joules: float | None


@_record
class Rejection(Record):
    """A strategy that does not hold or fit, what it would need, and how to change that."""

    strategy: Strategy
    limit: str
    needed: int
    available: int
    fix: str | None


@_record
class OtherMachine(Record):
    """The same job on another GPU."""

    gpu: str
    feasible: bool
    step_seconds: float | None
    strategy: Strategy | None
    candidate: Candidate | None
    gpu_hour_usd: float | None
    price_source: str


@_record
class OtherFramework(Record):
    """The same job in another framework."""

    framework: str
    recipe: str
    feasible: bool
    candidate: Candidate | None


@_record
class Released(Record):
    """What the plan gains if some of its pinned keys are left to the search."""

    scope: str
    keys: list[str]
    helps: bool
    strategy: Strategy | None
    step_seconds: float | None
    device: int | None
    out_of_memory: float | None


@_record
class RobustStep(Record):
    """Steps of a candidate with slow ranks and links: the quantile asked for, and the mean, in
    seconds. `one_slow`: by which share one such rank or link makes a step longer."""

    step: float
    mean: float
    slowed_scenarios: int
    one_slow: list[dict[str, float]]


@_record
class Robust(Record):
    """By what the finalists were ranked, and what came of it: the chosen candidate, then the
    alternatives."""

    random: list[dict[str, float]]
    quantile: float
    scenarios: int
    seed: int
    candidates: list[RobustStep]


@_record
class RuleOfThumb(Record):
    """A rule of the literature, for comparison; no plan rests on it."""

    name: str
    formula: str
    value: float
    unit: str
    source: str
