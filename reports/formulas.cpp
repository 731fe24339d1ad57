#include <array>

#include "reports/explanation.hpp"

namespace reports {
namespace {

constexpr std::string_view kDefinition = "definition of this tool";
constexpr std::string_view kLeftOut = "planner/evaluate/accuracy.hpp, from left-out runs";
constexpr std::string_view kReplay = "replay of the step's alloc and free sequence";

// More specific rows before those with '*'.
constexpr std::array kFormulas{
    Formula{"memory.weights",
            "sum over the rank's stored weights of elements x bytes of the weight type; matrices "
            "are split by tensor, layers by pipeline, and zero3 keeps 1 / shard_group",
            "model.parameters job.recipe job.precision strategy.tensor strategy.pipeline "
            "strategy.sharding strategy.shard_group",
            "[zero] section 5, [megatron] section 3"},
    Formula{"memory.gradients",
            "elements of the trained weights x bytes of the gradient type; zero2 and zero3 keep "
            "1 / shard_group",
            "model.parameters job.recipe job.precision strategy.tensor strategy.pipeline "
            "strategy.sharding strategy.shard_group",
            "[zero] section 5"},
    Formula{"memory.optimizer",
            "elements of the trained weights x (bytes of the master + m-like slots + v-like "
            "slots); zero1, zero2 and zero3 keep 1 / shard_group",
            "model.parameters job.recipe job.optimizer strategy.tensor strategy.pipeline "
            "strategy.sharding strategy.shard_group",
            "[zero] section 3.1, [adam]"},
    Formula{"memory.activations",
            "bytes of the tensors kept for the backward pass and of temporaries that are alive at "
            "the live peak, counted by replaying the step",
            "job.seq_len job.attention strategy.micro_batch strategy.grad_accum "
            "strategy.checkpoint strategy.checkpoint_every strategy.tensor strategy.pipeline "
            "strategy.schedule job.framework",
            "[korthikanti2022], [chen2016]"},
    Formula{"memory.logits",
            "micro_batch x seq_len x stored vocabulary rows of the rank x bytes / loss_chunks, as "
            "alive at the live peak",
            "model.vocab job.seq_len job.precision strategy.micro_batch strategy.tensor "
            "strategy.loss_chunks",
            kDefinition},
    Formula{"memory.communication",
            "bytes of gathered weights, buckets and staging buffers alive at the live peak; under "
            "pipedream and pipedream_2bw also every version of the weights beyond one",
            "strategy.sharding strategy.grad_sync strategy.bucket_bytes strategy.schedule",
            kDefinition},
    Formula{"memory.live", "sum of the six terms at the first instant of the live peak",
            "memory.weights memory.gradients memory.optimizer memory.activations memory.logits "
            "memory.communication",
            kReplay},
    Formula{"memory.reserved", "live peak after the framework's allocator: rounding, segments",
            "memory.live job.framework", kReplay},
    Formula{"memory.workspace",
            "what the libraries of matrix products and attention take for a call, at most",
            "job.framework strategy.micro_batch strategy.tensor",
            "profile of the GPU: explain gpu.workspace; sim/cost/launches.hpp, workspace_of"},
    Formula{"memory.context", "what the driver keeps for the process", "cluster.gpu",
            "profile of the GPU: explain gpu.context"},
    Formula{"memory.communicators", "what the communication library keeps for its channels",
            "strategy.data strategy.tensor strategy.pipeline", kDefinition},
    Formula{"memory.device", "reserved + waiting + workspace + context + communicators",
            "memory.reserved memory.waiting memory.workspace memory.context memory.communicators",
            kDefinition},
    Formula{"memory.host",
            "what strategy.offload names: weights, gradients, optimizer state; what each layer "
            "keeps for its backward pass, of each micro-batch in flight",
            "strategy.offload memory.optimizer strategy.checkpoint strategy.micro_batch",
            kDefinition},
    Formula{"memory.waiting",
            "rows of a micro-batch that the host has freed while the device, which it is ahead of, "
            "has yet to scatter them",
            "job.framework strategy.sequence_parallel strategy.pipeline strategy.micro_batch",
            kDefinition},
    Formula{"memory.usable", "memory that the driver shows on an idle card", "cluster.usable_bytes",
            "profile of the GPU: explain gpu.usable"},
    Formula{"time.step", "compute + exposed_communication + bubble + optimizer",
            "time.compute time.exposed_communication time.bubble time.optimizer", kDefinition},
    Formula{"time.compute",
            "sum over kernels of max(FLOPs / (peak x efficiency), bytes / (bandwidth x "
            "efficiency)) + launch, recomputation included; on a host's own cores also what "
            "transfers beside it hold, bytes sent / node.hold_bandwidth",
            "job.precision strategy.micro_batch strategy.grad_accum strategy.checkpoint "
            "strategy.tensor strategy.pipeline",
            "profile of the GPU: explain gpu.peak_16bit, gpu.memory_bandwidth"},
    Formula{"time.exposed_communication",
            "time of collectives that no computation hides: what the dependencies leave over",
            "time.communication strategy.overlap strategy.bucket_bytes", "[ddp]"},
    Formula{"time.bubble",
            "idle time of the pipeline; with p equal stages, m micro-batches, v virtual stages, "
            "free messages and passes F, B, W: gpipe and 1f1b (p - 1) / (m + p - 1) of the step; "
            "interleaved (p - 1) / (v m + p - 1); zb_h1 (p - 1) (F + max(B - W, 0)); zb_h2 "
            "(p - 1) max(F + B - 2 W, 0); zb_v and, without flush, pipedream and pipedream_2bw "
            "none; naive m (p - 1) (F + B + W). Tied embeddings on two stages join them at the "
            "step's end: zb_h2 at least (p - 1) F, pipedream and pipedream_2bw (p - 1) (B + W)",
            "strategy.pipeline strategy.grad_accum strategy.virtual_stages strategy.schedule",
            "[gpipe] section 2, [megatron2021] section 2.2, [zero-bubble], [zb-v], [pipedream], "
            "[pipedream-2bw]"},
    Formula{"time.optimizer", "bytes of the optimizer's update / (bandwidth x efficiency) + launch",
            "memory.optimizer memory.weights job.optimizer",
            "profile of the GPU: explain gpu.memory_bandwidth"},
    Formula{"time.communication",
            "sum of the seconds of all entries of communication, hidden or not", "time.step",
            kDefinition},
    Formula{"throughput.mfu",
            "GEMM FLOPs of the graph (3 x forward; 2 x of weights that are not trained; once at "
            "inference) / (dense peak of the compute type x step x gpus)",
            "throughput.model_tflops_per_gpu time.step cluster.gpus job.precision",
            "[megatron2021] appendix, by the graph instead of its closed form"},
    Formula{"throughput.samples_per_second", "global_batch / step", "job.global_batch time.step",
            kDefinition},
    Formula{"throughput.tokens_per_second", "global_batch x seq_len / step",
            "job.global_batch job.seq_len time.step", kDefinition},
    Formula{"throughput.tokens_per_second_per_gpu", "tokens_per_second / gpus",
            "throughput.tokens_per_second cluster.gpus", kDefinition},
    Formula{"communication.*.all_reduce.wire_bytes_per_rank",
            "ring: 2 S (K - 1) / K; naive: S (K - 1); S the payload, K the ranks of the group",
            "communication.*.all_reduce.payload_bytes communication.*.all_reduce.algorithm "
            "communication.*.all_reduce.group_size",
            "[ring]"},
    Formula{"communication.*.reduce_scatter.wire_bytes_per_rank", "S (K - 1) / K",
            "communication.*.reduce_scatter.payload_bytes "
            "communication.*.reduce_scatter.group_size",
            "[ring]"},
    Formula{"communication.*.all_gather.wire_bytes_per_rank", "S (K - 1) / K",
            "communication.*.all_gather.payload_bytes communication.*.all_gather.group_size",
            "[ring]"},
    Formula{"communication.*.exchange.wire_bytes_per_rank", "S (K - 1) / K",
            "communication.*.exchange.payload_bytes communication.*.exchange.group_size",
            "[gshard]"},
    Formula{
        "communication.expert.exchange.payload_bytes",
        "bytes of micro_batch x seq_len / context x experts_per_token x hidden, as often as rows "
        "go to the experts or come back: twice forward, twice backward, twice where a layer is "
        "recomputed",
        "communication.expert.exchange.count strategy.micro_batch strategy.context "
        "strategy.checkpoint job.seq_len model.hidden",
        "[gshard]; routing is balanced"},
    Formula{
        "communication.context.send.payload_bytes",
        "context_method=ring: bytes of one rank's keys and values, micro_batch x seq_len / "
        "context x 2 x kv_heads x head_dim / tensor, as often as a block goes to the next rank: "
        "context - 1 times forward (again where a layer is recomputed), and backward as often, "
        "and their gradients",
        "communication.context.send.count strategy.micro_batch strategy.context "
        "strategy.tensor job.seq_len model.kv_heads",
        "[ring-attention]"},
    Formula{
        "communication.context.exchange.payload_bytes",
        "context_method=exchange: bytes of a rank's rows of q, k and v, and of the attention's "
        "output, once each forward (q, k and v again where a layer is recomputed), and of their "
        "gradients",
        "communication.context.exchange.count strategy.micro_batch strategy.context "
        "strategy.tensor job.seq_len model.heads model.kv_heads",
        "[ulysses]"},
    Formula{"communication.*.*.wire_bytes_per_rank", "bytes of payload that the busiest rank sends",
            "communication.*.*.payload_bytes communication.*.*.group_size", "[parameter-server]"},
    Formula{"communication.*.*.payload_bytes",
            "total of a step of the vector that the caller asks to move; gathered size where "
            "parts are gathered or scattered",
            "communication.*.*.count communication.*.*.group_size", "[nccl-tests]"},
    Formula{"communication.*.*.seconds",
            "steps of the algorithm x (latency + bytes of a step / link bandwidth)",
            "communication.*.*.wire_bytes_per_rank communication.*.*.count "
            "communication.*.*.group_size",
            "[thakur2005]; explain node.link_bandwidth, node.link_latency"},
    Formula{"communication.*.*.count",
            "calls issued in a step by the rank that sends most in this entry",
            "communication.*.*.algorithm strategy.grad_accum strategy.bucket_bytes "
            "strategy.overlap",
            kDefinition},
    Formula{"communication.*.*.group_size", "ranks of the group that the collective runs among",
            "strategy.data strategy.tensor strategy.pipeline strategy.context", kDefinition},
    Formula{"communication.*.*.library.*",
            "what NCCL is assumed to run: the algorithm and protocol of least time in NCCL's own "
            "model, on the channels that the links take; counts and bytes are of a step",
            "", "[nccl] src/graph/tuning.cc"},
    Formula{"communication.*.*.*", "what the entry is about", "", kDefinition},
    Formula{"memory.rank", "the rank of greatest device memory, the lowest on ties",
            "memory.device", kReplay},
    Formula{"memory.stages.stage", "number of the pipeline stage, from 0", "strategy.pipeline",
            kDefinition},
    Formula{"memory.peaks.*", "greatest bytes of this term alone at any instant of the step",
            "memory.live", kReplay},
    Formula{"time.launch_bound",
            "whether the host issues kernels more slowly than the GPU runs them", "time.step",
            kDefinition},
    Formula{"throughput.model_tflops_per_gpu",
            "GEMM FLOPs of the graph, as of mfu, / (step x gpus), in 10^12 a second",
            "time.step cluster.gpus job.global_batch", "[megatron2021] appendix"},
    Formula{"uncertainty.step_low",
            "step / exp(reach sd), sd^2 = w + b; calibrated: w + sum over device, host, links and "
            "network "
            "of (d log step / d log pace)^2 x the variance its runs left",
            "time.step uncertainty.calibration_runs", kLeftOut},
    Formula{"uncertainty.step_high",
            "step x exp(reach sd), sd^2 = w + b; calibrated: w + sum over device, host, links and "
            "network "
            "of (d log step / d log pace)^2 x the variance its runs left",
            "time.step uncertainty.calibration_runs", kLeftOut},
    Formula{"uncertainty.device_low", "device x lower quantile of measured / predicted",
            "memory.device", kLeftOut},
    Formula{"uncertainty.device_high", "device x upper quantile of measured / predicted",
            "memory.device", kLeftOut},
    Formula{"uncertainty.out_of_memory",
            "0.9 Phi(z / sqrt(s^2 + m)) + 0.1 Phi(z / sqrt(25 s^2 + m)), z = log(device / "
            "usable); s: spread of runs, m: variance between frameworks or of the layout where no "
            "memory is known",
            "memory.device memory.usable", kLeftOut},
    Formula{"uncertainty.similar_runs",
            "runs of other sites, left out of a fit, that wait for the same; 0: none of this "
            "framework",
            "time.exposed_communication time.bubble", kLeftOut},
    Formula{"uncertainty.calibration_runs", "runs of --site FILE; 0: a site nothing is known of",
            "", kLeftOut},
    Formula{"evaluator",
            "the engine where transfers contend for links, else the sweep; of long steps the "
            "closed form",
            "time.step", kDefinition},
    Formula{"search.enumerated", "strategies of the space that the question spans",
            "search.infeasible search.evaluated", kDefinition},
    Formula{"search.infeasible", "strategies refused with a reason (rejected_per_limit)",
            "search.enumerated", kDefinition},
    Formula{"search.evaluated", "strategies whose time and memory were both worked out",
            "search.enumerated", kDefinition},
    Formula{"search.replayed", "strategies whose whole step went through the allocator",
            "search.evaluated", kReplay},
    Formula{"search.simulated", "strategies timed by the sweep or the engine", "search.evaluated",
            kDefinition},
    Formula{"search.seconds", "wall clock of the search", "search.evaluated", kDefinition},
    Formula{"search.chain.*",
            "--search mcmc: a walk over divisions of operators ([flexflow] section 6.2): how many "
            "were proposed and taken, and simulated steps of the first, of the fastest that it "
            "met, and of the exact search's choice",
            "time.step", kDefinition},
    Formula{"max_risk",
            "--max-risk: the probability of running out of memory that is accepted", "",
            kDefinition},
    Formula{"earned.without.*",
            "a choice of the best plan without this part of the chosen strategy",
            "search.enumerated", kDefinition},
    Formula{"earned.*", "the best plan without this part of the chosen strategy", "", kDefinition},
    Formula{"released.strategy.*", "a choice of the best plan without these pins",
            "search.enumerated", kDefinition},
    Formula{"released.*", "the best plan without these pins", "", kDefinition},
    Formula{"other_frameworks.*", "the same job in another framework", "", kDefinition},
    Formula{"rejected.needed",
            "bytes, or the amount that the limit is about, that the strategy needs",
            "cluster.usable_bytes", kDefinition},
    Formula{"rejected.available", "what there is of it", "cluster.usable_bytes", kDefinition},
    Formula{"rejected.*", "why a strategy was refused, and the cheapest change that fits", "",
            kDefinition},
    Formula{"rejected_per_limit.*", "strategies that this limit refused", "search.infeasible",
            kDefinition},
    Formula{"other_machines.step_seconds", "time.step of the best plan on that machine", "",
            kDefinition},
    Formula{"other_machines.*", "the same job on another machine", "", kDefinition},
    Formula{"model.parameters",
            "elements of every weight of the model's graph, shared ones once, without padding",
            "model.layers model.hidden model.heads model.kv_heads model.ffn_hidden model.vocab",
            "the model: planner models"},
    Formula{"cluster.nodes", "gpus / gpus_per_node, rounded up",
            "cluster.gpus cluster.gpus_per_node", kDefinition},
    Formula{"strategy.expert",
            "ranks that divide the experts of a layer: each holds experts / expert of them, with "
            "their gradients and state, which (data x context) / expert ranks add up and shard",
            "memory.weights memory.gradients memory.optimizer strategy.data strategy.context",
            "[gshard]"},
    Formula{"strategy.expert_tensor",
            "0: tensor ranks divide each expert. 1: each lies whole on one of `expert` ranks, that "
            "is all tensor ranks of expert / tensor neighbouring data ranks; (tensor x data x "
            "context) / expert ranks add up and shard its gradients and state",
            "strategy.expert strategy.tensor strategy.data strategy.context",
            "docs/decisions/0007-balanced-routing.md"},
    Formula{
        "strategy.context_method",
        "how queries of context ranks meet all keys. gather: keys and values of all rows on each "
        "rank; ring: a block at a time, passed on while the one before is attended to, merged by "
        "online softmax in the order own, one rank before, two before; exchange: all rows of "
        "heads / context instead of some rows of all heads, which tensor x context must divide",
        "memory.communication memory.activations time.exposed_communication strategy.context",
        "[llama3] section 3.3.2, [ring-attention], [ulysses]"},
    Formula{"strategy.schedule",
            "order of the passes; pipedream_2bw makes the gradients of step k with the weights "
            "before update k - 1, W(k+1) = W(k) - lr g(W(k-1)), pipedream those of stage r with "
            "weights p - 1 - r updates old; the others with the newest",
            "strategy.pipeline strategy.grad_accum", "[pipedream] section 3.3, [pipedream-2bw]"},
    Formula{"strategy.server_mode",
            "sync: a server waits for its W workers; async: it updates by each push, which in the "
            "mean is (W - 1) / W to W - 1 updates of others stale (a run counts them: staleness)",
            "strategy.data strategy.grad_sync strategy.servers", "[parameter-server]"},
    Formula{"strategy.loss_chunks",
            "head and loss take a micro-batch's tokens in so many equal runs, ascending: logits, "
            "their gradient and what it adds to the head's weight and input, before the next",
            "memory.logits memory.activations time.compute strategy.micro_batch job.seq_len",
            "[liger]"},
    Formula{"strategy.*", "a choice of the search, or as pinned", "search.enumerated", kDefinition},
    Formula{"job.**", "as asked for, or a default that `assumptions` names", "", kDefinition},
    Formula{"model.**", "of the model's definition", "model.name", "the model: planner models"},
    Formula{"cluster.**", "of the question and the GPU's profile", "cluster.gpu",
            "the profile: planner gpus"},
};

}  // namespace

std::span<const Formula> formulas() { return kFormulas; }

}  // namespace reports
