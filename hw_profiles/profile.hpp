#pragma once
// What a job runs on: a GPU, the node it usually sits in, and the framework that trains.
// Plain values in typed units; every number of a loaded Profile remembers where it came from, so
// that `planner explain` can print it. Dense peaks only (no sparsity), bandwidths per direction.
//
// An empty optional says that the device has no such thing or that nobody has sourced it; it is
// never a guess. A source that contains kUnverified was not checked against a document or a
// measurement. Values are thread-compatible; nothing here reads files (hw_profiles/load.hpp does).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/units.hpp"

namespace hw_profiles {

using Hertz = core::Quantity<struct HertzTag, double>;
using Watts = core::Quantity<struct WattsTag, double>;
using DollarsPerHour = core::Quantity<struct DollarsPerHourTag, double>;  // USD

inline constexpr std::string_view kUnverified = "unverified";

// How the GPUs of one node reach each other.
enum class LinkKind {
  nvswitch,      // every GPU to every GPU at full rate
  nvlink_mesh,   // links straight between GPUs, each to some of the others
  nvlink_pairs,  // a bridge inside pairs, PCIe or host memory between them
  pcie_p2p,      // direct copies over PCIe
  host_staged,   // GPU to host memory to GPU: no peer access (GeForce drivers)
};

std::string_view name(LinkKind kind);
std::optional<LinkKind> link_kind_from_name(std::string_view text);
// Whether all GPUs of the node are joined by NVLink.
bool links_all(LinkKind kind);

struct Gpu {
  std::string id;            // "rtx3090": the name on the command line
  std::string name;          // "GeForce RTX 3090"
  std::string architecture;  // "Ampere GA102"
  std::optional<int> compute_capability;  // 86 for 8.6; empty for a CPU

  // Chip. The die carries more multiprocessors than a product enables; waves count enabled ones.
  std::optional<int> die_gpcs;  // graphics processing clusters of the full die
  std::optional<int> die_sms;
  int enabled_sms = 0;
  std::optional<int> tensor_cores_per_sm;
  std::optional<int> tensor_fma_per_cycle;  // per tensor core, 16-bit inputs, f32 accumulation
  Hertz boost_clock;                        // clock of the vector peaks
  Hertz tensor_clock;                       // clock at which the tensor peaks hold

  // Dense peaks; a multiply-add counts two.
  std::optional<core::FlopsPerSecond> peak_f64;
  core::FlopsPerSecond peak_f32;                  // vector units
  std::optional<core::FlopsPerSecond> peak_tf32;  // tensor cores
  core::FlopsPerSecond peak_16bit;                // bf16 and f16 in, f32 accumulation
  std::optional<core::FlopsPerSecond> peak_f8;
  std::optional<core::FlopsPerSecond> peak_f4;    // nvfp4 and mxfp4

  // Memory.
  core::Bytes memory;  // nominal
  core::Bytes usable;  // visible to CUDA on an idle card: what a plan has to fit in
  core::BytesPerSecond memory_bandwidth;
  double memory_efficiency = 0;  // achieved fraction of it by large copies
  std::optional<core::Bytes> l2;

  // Links of the card itself, per direction; the node says which of them is used.
  std::optional<core::BytesPerSecond> nvlink_bandwidth, nvlink_effective;
  std::optional<int> pcie_generation, pcie_lanes;
  std::optional<core::BytesPerSecond> pcie_bandwidth, pcie_effective;
  bool peer_to_peer = false;  // may read a peer over PCIe as the stock driver is delivered
  std::optional<Watts> tdp;
  std::optional<DollarsPerHour> price;  // to rent one GPU; its source carries the date

  // Efficiencies: fractions of the peak of the type in use.
  double gemm_efficiency = 0;                // best 16-bit GEMM that anybody measured
  std::optional<double> gemm_sustained;      // kept through whole training steps: power, library
  std::optional<double> sustained_spread;    // of its logarithm: what no run has told of this GPU
  std::optional<double> gemm_efficiency_f8;  // best f8 GEMM measured
  std::optional<double> gemm_wave_loss;  // share of a ragged last wave's loss that stays
  std::optional<int> gemm_prologue_k;  // K0 of time ~ (1 + K0 / K): filling the K loop's pipeline
  // Long-sequence forward, fraction of peak_16bit. flash2: empty where FlashAttention-2 has no
  // kernel; flash1: or what else keeps no scores there; fused: the vendor's own (cuDNN, FA3).
  std::optional<double> attention_flash2, attention_flash1, attention_fused;

  // Fixed costs.
  core::Bytes context;          // driver context and lazily loaded kernels
  core::Bytes workspace;        // matrix library workspace per stream
  core::Seconds kernel_launch;  // one kernel, submitted by the host one after another

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

struct Node {
  std::string id;     // "dgx-h100"; empty: written out in a profile of its own
  std::string about;  // one line for people; empty as id
  std::string cloud;  // who rents it out; empty: nobody in particular
  // Profiles whose GPU the machine is sold with, as id or the start of one; empty: any that has its
  // links.
  std::vector<std::string> gpus;
  int gpus_per_node = 0;
  LinkKind link = LinkKind::host_staged;
  core::BytesPerSecond link_bandwidth;  // effective, per GPU and direction, as rings see it
  core::Seconds link_latency;           // one hop between two GPUs of the node
  // Inside a bridged pair, and between any two of a mesh; link_bandwidth is what groups of more
  // than two see, of a mesh the whole node.
  std::optional<core::BytesPerSecond> pair_bandwidth;
  std::optional<core::Seconds> pair_latency;
  // Memory of the host, all staged copies together; each transfer passes it twice.
  std::optional<core::BytesPerSecond> host_bandwidth;
  // Bytes that a rank sends per second of its own computing that this takes, where no engine of its
  // own moves them: ranks that fill a host's cores. Empty: transfers hold no computing.
  std::optional<core::BytesPerSecond> hold_bandwidth;
  int nics = 0;
  // Wire rate of the whole node, per direction; files say Gbps.
  core::BytesPerSecond internode_bandwidth;
  std::optional<double> internode_efficiency;  // that NCCL's messages reach of it; empty: 1
  core::Seconds internode_latency;             // one hop between two nodes, NCCL's Simple step
  // Delays that a site measured beyond NCCL's model: each rank of a collective adds rank_wait to
  // its time, and tree_wait as well where it sums over trees. Empty: no delay.
  std::optional<core::Seconds> rank_wait, tree_wait;
  // What a cloud's network plugin or settings make of NCCL. Empty: as NCCL is by itself.
  std::optional<core::Seconds> nccl_latency;   // that the plugin states, for NCCL's choice alone
  std::optional<bool> nccl_low_latency;        // whether LL and LL128 run
  std::optional<bool> nccl_nvls;               // whether the switches' own sums are used
  std::optional<core::Bytes> nccl_buffer;      // NCCL_BUFFSIZE
  std::optional<core::Bytes> nccl_nvls_chunk;  // NCCL_NVLS_CHUNKSIZE
  std::optional<int> nccl_minor;               // NCCL 2.18: 18. Empty: 2.22 or later
  std::optional<core::Bytes> host_memory;    // empty: not known, offload must be told

  friend bool operator==(const Node&, const Node&) = default;
};

// Our own executor on this card.
struct Native {
  core::Seconds kernel_submit;  // host time per kernel outside a graph
  core::Seconds graph_launch;   // host time per kernel inside a replayed CUDA graph
  // Fractions of the 16-bit peak that this executor was measured at: by products where a GPU does
  // nothing else (KernelUse::product_share), and by causal attention over long sequences, with
  // heads of 128. Absent: as gpu.* says.
  std::optional<double> gemm_sustained, attention_forward, attention_backward;
  // Fraction of the memory's bandwidth that its kernels reach. Absent: as gpu.* says.
  std::optional<double> memory_efficiency;
  // The fraction of these rates of attention that heads narrower than 128 reach; absent: 0.85.
  std::optional<double> narrow_forward, narrow_backward;

  friend bool operator==(const Native&, const Native&) = default;
};

// How a training framework behaves, whatever it runs on: types, gradient exchange, fusion, and what
// its host code costs. hw_profiles/frameworks/ holds the shipped ones; `native` is our executor.
// Ratios are of what the operator graph states: a kernel for each operator, each input read and
// each output written once.
struct Framework {
  // What it can run of a strategy's key, where not everything: values as a pin takes them.
  struct Runs {
    std::string key, values, source;
    friend bool operator==(const Runs&, const Runs&) = default;
  };
  std::vector<Runs> runs;
  std::string id = "native";
  std::string about;
  std::string recipe = "mixed";          // what it trains with when nothing else is asked for
  // From this compute capability on the name stands for another file: the releases that support
  // such cards behave otherwise.
  std::string successor;
  std::optional<int> successor_capability;
  bool overlap_gradients = true;         // reduces gradients behind the backward pass
  std::optional<bool> overlap_divided;   // the same of a divided optimizer's; absent: as others'
  // Gathers sharded weights ahead of their use also where adapters are trained.
  bool gathers_ahead_of_adapters = true;
  core::Bytes bucket{25 << 20};          // of gradients reduced together
  bool caching_allocator = false;        // PyTorch's; else an arena

  // Host time to issue one kernel; empty: kernels are replayed from a graph (native.graph_launch).
  std::optional<core::Seconds> kernel_submit;
  // Kernels of one operator in one pass; an RMS norm's where it is not fused.
  double kernels_gemm = 1, kernels_norm = 1, kernels_elementwise = 1, kernels_attention = 1;
  double kernels_softmax = 1;            // attention over stored scores, its softmax in one kernel
  double kernels_collective = 1;
  std::optional<double> kernels_adapter;   // of a LoRA adapter, with host_ahead; absent: one
  core::Seconds step_host{};             // of an update, beside its kernels: norm, checks, loop
  // Bytes moved, as a ratio.
  double traffic_elementwise = 1, traffic_norm = 1, traffic_loss = 1;
  double traffic_rotary = 1, traffic_gated = 1;  // rotary positions; silu(gate) x up
  // Passes over a LoRA adapter's result beside its two products, in each direction.
  double traffic_adapter = 0;
  double traffic_compiled = 1;           // of elementwise, where the framework's compiler runs
  // Times that stored scores are read or written, forward and backward together.
  double passes_softmax = 12, passes_unfused = 24;
  bool vendor_attention = false;         // flash2 means the vendor's kernel where there is one
  // Where a GPU has no flash2 it takes another kernel that keeps no scores; else it stores them.
  bool memory_efficient_attention = true;
  double exposed_tensor = 1;             // share of a tensor collective that its GEMM does not hide
  double exposed_overlapped = 0.3;       // the same under tp_overlap; of exchanges, expert_overlap
  // Rows that sequence parallelism gathers or scatters in the backward pass travel while one of the
  // two gradients of the matrix that reads them is computed.
  bool hides_rows = false;
  bool recomputes_pointwise = false;     // offers checkpoint=pointwise
  bool recomputes_modules = false;       // offers checkpoint=modules
  bool trains_mtp = false;               // modules for multi-token prediction
  // Data ranks may take different numbers of micro-batches (planner::Strategy::shares). Absent: no.
  std::optional<bool> uneven_shares;
  // More tensor ranks than key heads: some share one (models::divides_heads). Absent: no.
  std::optional<bool> shares_key_heads;
  // What checkpoint=every_k means to it: one layer in k computed again, see
  // planner::stage::Policy; else all of them, in segments of k that are kept at their first input.
  bool recomputes_one_in_k = false;
  core::Seconds collective_sync{};       // tensor ranks waiting for each other, each time
  // Bytes kept for the backward pass beside the operators' tensors, per element: see
  // models::KeptBeside.
  double kept_norm = 0, kept_gated = 0, kept_softmax = 0, kept_unfused = 0;
  std::optional<double> kept_rotary;   // of keys and values whose heads are not grouped
  std::optional<double> kept_returned_row;   // of rows from experts; absent: the row itself
  std::optional<double> kept_product_input;  // of narrow products; absent: the 16-bit input
  double kept_probabilities = 1;       // of a stored score, in the type of activations
  double kept_logits = 0, kept_logits_compiled = 0;
  bool gathers_logits = false;
  std::optional<bool> aligned_logits;  // models::KeptBeside; absent: no
  std::optional<int> loss_chunks;        // that a plan may ask for; empty: the loss is taken whole
  bool stand_ins = false;                // see planner::stage::Policy, as the next three
  bool wide_gradients = false;           // of bf16 runs that shard no gradients
  bool root_unit = false, whole_scales = false;
  core::Bytes fixed_memory{};            // held by the framework's libraries, whatever the job
  // What torch's own machinery holds, see planner/stage/policy.hpp. Absent: nothing of it.
  std::optional<bool> pass_gradients, reducer_buckets, adapter_inputs, update_copies;
  std::optional<int> row_buffers, rows_waiting;
  // Communicators beside those of the strategy: of all ranks, and of those that hold one replica of
  // the model, where tensor and pipeline ranks both divide it. Absent: none.
  std::optional<int> world_groups;
  std::optional<bool> model_group;
  std::optional<bool> frozen_f8;         // frozen weights of layers that 8-bit products read
  std::optional<bool> nvfp4_products;    // products of layers in 4 bits
  // Orders (by rows, by columns) in which it stores the codes of weights that it can gather in 8
  // bits. Absent: it gathers them in the recipe's types.
  std::optional<int> f8_weight_orders;
  // The buffer of gradients has the type in which they are reduced. Absent: the recipe's.
  std::optional<bool> gradients_as_reduced;
  // The host issues a layer's pass while the device computes what it issued before: the pass lasts
  // as long as the longer of the two. Absent: each kernel does.
  std::optional<bool> host_ahead;
  // With host_ahead: host time of a block beside its kernels, and of one collective over
  // activations in place of its kernels' (its Python, its streams and events, its launch).
  std::optional<core::Seconds> block_host, collective_submit;
  // Times the steps of a ring over nodes, and a rank's lateness (node.rank_wait), that a collective
  // over activations waits inside a step; and times node.tree_wait, that any sum does. Absent: 1.
  std::optional<double> activation_waits;
  // Bytes that each gradient costs after each micro-batch where a kernel of its own adds it to the
  // sum; absent: the product that makes it does.
  std::optional<double> accumulate_traffic;
  // Mixtures. Host time of a pass through a product of experts. Nothing hides it: before, the host
  // waits for the counts of their rows.
  std::optional<core::Seconds> expert_submit;
  // Bytes that each element of experts' results costs where their last bias is added by kernels of
  // its own, in the forward and in the backward pass; absent: the product adds it.
  std::optional<double> expert_bias_forward, expert_bias_backward;
  // Where kernels of their own clamp the inputs of a gate: their traffic, added to traffic_gated.
  // Absent: the gate's kernel clamps what it reads.
  std::optional<double> traffic_clamp;
  // On a GPU, a product of 16-bit operands computes the GELU (tanh form) that reads it next, and
  // the GELU's gradient. That moves one tensor more than the product. Absent: a kernel of its own.
  std::optional<bool> gelu_in_product;
  // The GPU updates an offloaded optimizer where it lies, over its bus. Absent: the host does.
  std::optional<bool> updates_over_bus;
  // On a GPU, attention in f32, without tensor cores: the share of the f32 peak that it reaches.
  // Absent: as with tensor cores.
  std::optional<double> attention_f32;
  // On a GPU, kernels are those of this tool's executor: products and attention take what Native
  // says, and each launch of an action costs time (sim/cost/launches.hpp).
  std::optional<bool> executor_kernels;
  // Bytes that each element of a result's gradient costs where a kernel of its own sums it for the
  // bias; absent: the product that makes the weight's gradient does.
  std::optional<double> bias_gradient;
  std::optional<bool> divides_by_cost;     // pipelines: planner::stages_by_cost
  // A pass lasts (gpu^n + host^n)^(1/n): n, the smoother the smaller; none: the longer of the two.
  std::optional<double> launch_blend;

  friend bool operator==(const Framework&, const Framework&) = default;
};

// What runs of one site taught: durations of its parts over what shipped profiles predict, and the
// variance of a pace's logarithm that they left. The numbers that a pace scales have been scaled
// already (hw_profiles/site.hpp).
struct Site {
  std::optional<int> runs;               // that it was learnt from; empty: none
  std::optional<int> measured;           // fields of the node that its timed collectives gave
  std::optional<double> pace;            // of everything, where no parts were told apart
  std::optional<double> device, host, links, network;  // empty: no run was on this GPU
  std::optional<double> device_left, host_left, links_left, network_left;

  friend bool operator==(const Site&, const Site&) = default;
};

// One number as its file writes it.
struct Sourced {
  std::string field;   // "gpu.memory_bandwidth"
  std::string text;    // "936 GB/s"
  std::string source;  // never empty

  friend bool operator==(const Sourced&, const Sourced&) = default;
};

struct OtherGpus;

struct Profile {
  Gpu gpu;
  Node node;
  Native native;
  Framework framework;
  Site site;
  std::vector<Sourced> sources;  // one per stated field, in the order of fields.cpp
  // GPUs of other kinds, which the ranks behind those of `gpu` have (hw_profiles/mixed.hpp).
  std::vector<OtherGpus> others;

  // The source of `field` ("gpu.usable", "node.link_bandwidth"), or null.
  const Sourced* lookup(std::string_view field) const;

  friend bool operator==(const Profile& a, const Profile& b);
};

// From rank first_rank on, up to the first of the next kind. The profile has no others.
struct OtherGpus {
  std::int64_t first_rank = 0;
  Profile profile;
};

// Dense peak of GEMMs whose inputs have `type`, or empty where the device has none, as of bf16
// before compute capability 8.0 (CUDA C++ Programming Guide, alternate floating point). f32 means
// true f32 arithmetic, not tf32. Integer and nf4 weights are computed in 16 bit.
std::optional<core::FlopsPerSecond> peak(const Gpu& gpu, core::DType type);

}  // namespace hw_profiles
