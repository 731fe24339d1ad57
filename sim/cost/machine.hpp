#pragma once
// Machine: the few numbers of a profile that time depends on, ready for the cost functions. Built
// once per plan; immutable, thread-safe to read.

#include <array>
#include <memory>
#include <optional>
#include <string_view>

#include "core/dtype.hpp"
#include "core/units.hpp"
#include "hw_profiles/profile.hpp"
#include "sim/cost/fabric.hpp"

namespace cost {

struct Mixed;  // sim/cost/mixed.hpp

// always: the workspace that products and other kernels have on a GPU. most: what a call of a
// library for attention may take. That is as much, but where the executor asks a library (cuDNN on
// Hopper) at least a thirty-second of the memory.
struct AttentionRoom { core::Bytes always{}, most{}; };
AttentionRoom attention_room(const hw_profiles::Profile& profile);

struct Machine {
  // Dense GEMM peak by input type; zero where the device computes no such type.
  std::array<core::FlopsPerSecond, core::kDTypes> peak{};
  double gemm_efficiency = 0;      // fraction kept by large GEMMs through whole steps
  double gemm_efficiency_f8 = 0;   // the same for f8 and f4 inputs
  double product_share = 1;        // KernelUse's
  double gemm_wave_loss = 0.5;     // share of what a ragged last wave leaves idle that is lost
  double gemm_prologue_k = 0;      // K0: a GEMM loses K0 of its K loop to filling the pipeline
  // Of the 16-bit peak, causal FLOPs counted once; of these, what heads narrower than 128 reach.
  double attention_forward = 0, attention_backward = 0;
  double narrow_forward = 0.85, narrow_backward = 0.85;
  // What a call of a library for attention may take, where the executor asks one. 0: it asks none,
  // and attention has the same rate in any number of calls.
  core::Bytes attention_workspace{};
  AttentionRoom attention_room{};
  int multiprocessors = 1;         // enabled ones: the width of a wave
  core::BytesPerSecond memory{};   // achieved, not nominal
  core::Seconds launch{};          // gap between two kernels of a replayed graph
  core::Seconds submit{};          // host time per kernel outside a graph

  // The framework: what its kernels move more (or less) than one kernel per operator would, and how
  // long its host takes to issue an operator's pass; a pass lasts at least that.
  struct Host {
    core::Seconds gemm{}, norm{}, elementwise{}, attention{}, collective{}, update{}, unfused{},
        adapter{}, experts{};
  };
  Host host;
  // host_ahead: a block lasts as long as the longer of its kernels and what issues them; `block` is
  // its host time beside kernels. Else each kernel lasts at least its own issue.
  bool host_ahead = false;
  core::Seconds block_host{};
  double activation_waits = 1;     // hw_profiles::Framework
  core::Seconds rank_wait{};       // hw_profiles::Node
  double launch_blend = 0;         // n of (gpu^n + host^n)^(1/n); 0: the longer of the two
  double elementwise_traffic = 1, norm_traffic = 1, loss_traffic = 1;
  double rotary_traffic = 1, gated_traffic = 1;
  double clamp_traffic = 0;        // beside gated_traffic, where a gate's inputs are clamped
  double expert_bias_forward = 0, expert_bias_backward = 0;  // hw_profiles::Framework
  double adapter_traffic = 0;      // passes over a LoRA adapter's result, in each direction
  double decode_traffic = 1;       // of decoding a matrix, over that of one kernel for all of it
  double score_passes = 0;         // over stored scores, both directions; 0: none are stored
  double unfused_passes = 0;       // where the softmax is made by several kernels
  // At whose peak operands of few bits are multiplied: f8 or f4; none: at that of 16 bits.
  std::optional<core::DType> narrow_gemms;
  // Linear layers, but not the head, read 16 bits, cast them and multiply in few bits: narrow_cast
  // is the bytes that they move for each element they cast. Where this is false, casts are actions.
  bool narrow_casts = false;
  double narrow_cast = 0;
  bool wide_gradients = false;     // planner::stage::Policy
  bool gelu_in_product = false;    // of 16-bit operands
  double attention_f32 = 0;        // share of peak[f32]; 0: as of 16-bit operands
  bool executor_kernels = false;   // hw_profiles::Framework; launches are sim/cost/launches.hpp's
  double bias_gradient = 0;        // bytes for each element that a bias's own kernel sums
  double accumulate_traffic = 0;   // bytes of a gradient that is added up by a kernel of its own
  bool gathers_logits = false;     // each tensor rank computes the loss over all columns
  double exposed_tensor = 1;       // share of a tensor collective that its GEMM does not hide
  double exposed_overlapped = 1;   // the same under tp_overlap; of exchanges, expert_overlap
  bool hides_rows = false;         // see hw_profiles::Framework
  core::Seconds collective_sync{}; // ranks waiting for each other at a tensor collective

  int gpus_per_node = 1;
  core::Seconds link_latency{}, internode_latency{};
  core::BytesPerSecond link{};       // per GPU and direction inside a node
  core::BytesPerSecond pair{};       // inside a bridged pair of GPUs; zero: none
  bool meshed = false;               // any two GPUs of a node are joined as a pair
  core::Seconds pair_latency{};
  core::BytesPerSecond hold{};  // sent per second of computing that it takes; zero: it takes none
  core::BytesPerSecond internode{};  // of the whole node, per direction
  core::BytesPerSecond host_link{};    // between a GPU and its host, one direction
  core::BytesPerSecond host_memory{};  // of the host, for one of its GPUs while all use it
  bool updates_over_bus = false;       // the GPU updates an offloaded optimizer where it lies
  std::optional<Fabric> fabric;      // GPUs: rings are NCCL's; empty: plain messages
  // GPUs of several kinds: this is the first one's. Null: all ranks are alike.
  std::shared_ptr<const Mixed> mixed;  // machines are copied, and hold several of these
};

// What of a job its kernels depend on.
struct KernelUse {
  std::string_view attention = "flash2";  // planner::attention_kinds
  bool bf16 = false, fp8 = false, fp8_rowwise = false, nvfp4 = false;
  bool fused_norm = true, compile = false;
  std::string_view quantization = "none";  // of frozen matrices: what decodes them
  double product_share = 1;            // of computing (planner/evaluate/product_share.hpp)
};

// The sustained GEMM fraction is used where the profile has one and never above the best measured;
// a card without a sourced flash1 figure takes flash2's.
Machine make_machine(const hw_profiles::Profile& profile, const KernelUse& use);

}  // namespace cost
