#include "sim/cost/kernel.hpp"

#include <algorithm>
#include <cmath>

#include "core/check.hpp"

namespace cost {
namespace {

constexpr std::int64_t kTile = 128;
constexpr std::int64_t kSplitK = 1024;      // shortest K slice worth a multiprocessor of its own
constexpr double kShortSequence = 256;      // tokens at which causal attention runs at half rate
constexpr std::int64_t kWideHead = 128;
// What attention without tensor cores keeps of the f32 peak: layers of windows of 512 tokens with
// heads of 256, on an H200 (reports/measured/h200_families.json).
constexpr double kVectorForward = 0.044, kVectorBackward = 0.026;
// What this tool's kernels with tensor cores keep of the 16-bit peak over long sequences, with
// heads of 128, on Hopper: 260 and 158 TFLOP/s of causal FLOPs of 4096 tokens on an H100
// (reports/measured/h100_attention.json, tensor_cores_tflops).
constexpr double kOwnForward = 0.28, kOwnBackward = 0.169;
// Of these, what heads narrower than 128 keep: 0.83 to 1.02, 0.97 to 1.24.
constexpr double kOwnNarrowForward = 0.92, kOwnNarrowBackward = 1.1;

std::int64_t parts(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

// Share of the multiprocessors' time that tiles fill, before damping.
double wave_fill(const GemmShape& shape, int multiprocessors) {
  const std::int64_t tiles = parts(shape.m, kTile) * parts(shape.n, kTile) * shape.count;
  const std::int64_t s = multiprocessors;
  if (tiles >= s) return static_cast<double>(tiles) / static_cast<double>(parts(tiles, s) * s);
  const std::int64_t pieces = std::min(s, tiles * std::max<std::int64_t>(1, shape.k / kSplitK));
  return static_cast<double>(pieces) / static_cast<double>(s);
}

core::FlopsPerSecond peak_of(core::DType type, const Machine& machine) {
  const core::FlopsPerSecond peak = machine.peak[static_cast<std::size_t>(type)];
  PLANNER_CHECK(peak.value() > 0, "this device computes no GEMM of the type");
  return peak;
}

}  // namespace

double gemm_efficiency(const GemmShape& shape, core::DType type, const Machine& machine) {
  const double best =
      type == core::DType::f8 || type == core::DType::f4 ? machine.gemm_efficiency_f8
                                                         : machine.gemm_efficiency;
  const double k = static_cast<double>(shape.k);
  const double fill = wave_fill(shape, machine.multiprocessors);
  // A ragged last wave is damped; few tiles for many multiprocessors leave hardware idle for good.
  const double wave = std::min(1 - machine.gemm_wave_loss * (1 - fill), 2 * fill);
  return best * (k / (k + machine.gemm_prologue_k)) * wave;
}

core::Seconds gemm_time(const GemmShape& shape, core::DType type, core::Bytes moved,
                        const Machine& machine) {
  const core::Flops flops(2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                          static_cast<double>(shape.k) * static_cast<double>(shape.count));
  const core::Seconds compute =
      flops / (peak_of(type, machine) * gemm_efficiency(shape, type, machine));
  return std::max(compute, memory_time(moved, machine));
}

core::Seconds gemm_time(const GemmShape& shape, core::DType type, const Machine& machine) {
  const std::int64_t moved = shape.m * shape.k + shape.k * shape.n + shape.m * shape.n;
  return gemm_time(shape, type, core::bytes_of(moved * shape.count, type), machine);
}

namespace {

// Of attention_efficiency(), what heads as wide as the pass's keep.
double of_width(const AttentionPass& pass, const Machine& machine) {
  if (pass.head_dim >= kWideHead) return 1;
  if (pass.own) return pass.forward ? kOwnNarrowForward : kOwnNarrowBackward;
  return pass.forward ? machine.narrow_forward : machine.narrow_backward;
}

// Of a sequence's tiles those on the diagonal of a causal mask are half in vain, and short
// sequences have many of them. Without a mask only the last tile is: 512 tokens of BERT large kept
// 0.97 of the forward rate of long ones on an H200 (reports/measured/h200_families.json).
double tiles_in_use(const AttentionPass& pass) {
  const auto s = static_cast<double>(pass.seq_len);
  if (pass.causal) return s / (s + kShortSequence);
  return s / static_cast<double>(parts(pass.seq_len, kTile) * kTile);
}

}  // namespace

// A call's multiprocessors do not end together: while its last blocks of keys are computed, all but
// a few wait, for about the time of one block. Calls of 256 blocks thus keep 0.66 of the rate, of
// 768 0.85, of 4096 0.97 on 132 multiprocessors. Nothing of it is fitted; divided by it, rates of
// heads of 128 on an H200 are 0.361 in steps (256 blocks a call) and 0.378 alone (768), those of 64
// 0.24 to 0.25 in 256, 768 and 1024 (reports/measured/h200_families.json, h200_steps.json,
// h200_calibration.json).
double attention_efficiency(bool forward, bool own, std::int64_t blocks, const Machine& machine) {
  if (own) return forward ? kOwnForward : kOwnBackward;
  if (forward) return machine.attention_forward;
  if (blocks == 0) return machine.attention_backward;
  const auto all = static_cast<double>(blocks + machine.multiprocessors);
  return machine.attention_backward * static_cast<double>(blocks) / all;
}

core::Seconds attention_time(const AttentionPass& pass, core::DType type, core::Bytes bytes,
                             const Machine& machine) {
  const core::Flops flops = pass.flops * (pass.causal ? 0.5 : 1.0);
  const core::Seconds moved = memory_time(bytes, machine);
  if (pass.on_vectors) {
    const double share = pass.forward ? kVectorForward : kVectorBackward;
    return std::max(flops / (peak_of(core::DType::f32, machine) * share), moved);
  }
  const bool vectors = type == core::DType::f32 && machine.attention_f32 > 0;
  const double wide = attention_efficiency(pass.forward, pass.own, pass.blocks, machine);
  const double rate =
      vectors ? machine.attention_f32 : wide * of_width(pass, machine) * tiles_in_use(pass);
  return std::max(flops / (peak_of(type, machine) * rate), moved);
}

core::Seconds scores_time(const ScoreShape& shape, core::DType type, const Machine& machine) {
  constexpr double kForwardShare = 1.0 / 3;
  const double gemms = shape.forward ? 2 : 4;
  const core::Seconds products =
      gemm_time({shape.rows, shape.keys, shape.head_dim, shape.heads}, type, machine) * gemms;
  const core::Bytes scores = core::bytes_of(shape.heads * shape.rows * shape.keys, type);
  const double passes =
      shape.passes * (shape.forward ? kForwardShare : 1 - kForwardShare);
  return products + memory_time(scores, machine) * passes;
}

core::Seconds with_host(core::Seconds kernel, core::Seconds host, const Machine& machine) {
  if (host.value() == 0 || machine.host_ahead) return kernel;
  const double n = machine.launch_blend;
  if (n == 0) return std::max(kernel, host);
  const double longer = std::max(kernel, host).value(), shorter = std::min(kernel, host).value();
  return core::Seconds(longer * std::pow(1 + std::pow(shorter / longer, n), 1 / n));
}

core::Seconds memory_time(core::Bytes bytes, const Machine& machine) {
  return bytes / machine.memory;
}

core::Seconds offloaded_update_time(core::Bytes bytes, int gpus, const Machine& machine) {
  if (!machine.updates_over_bus) return bytes / machine.host_memory;
  const int used = std::clamp(gpus, 1, machine.gpus_per_node);
  const core::BytesPerSecond share =
      machine.host_memory * (static_cast<double>(machine.gpus_per_node) / used);
  return bytes / std::min(share, machine.host_link);
}

core::Picoseconds host_copy_time(core::Bytes bytes, const Machine& machine) {
  constexpr core::Seconds kStart(30e-6);
  return core::to_picoseconds(kStart + bytes / machine.host_link);
}

}  // namespace cost
