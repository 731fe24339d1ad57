#pragma once
// What a rank keeps from step to step: weights, gradients and the optimizer's state, buffer by
// buffer. Stated here alone: the lowering declares these buffers, the closed form adds up their
// bytes. Pure.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "planner/question/job.hpp"
#include "planner/stage/policy.hpp"
#include "planner/strategy/strategy.hpp"
#include "sim/program/program.hpp"

namespace planner::stage {

// Elements of the 1/parts of a range that one rank stores.
inline std::int64_t shard_of(std::int64_t elements, std::int64_t parts) {
  return program::padded(elements, parts) / parts;
}

// Parameters that are gathered, cast and reduced together.
struct UnitSizes {
  std::int64_t elements = 0;           // trained
  std::int64_t frozen = 0;             // frozen ones that are stored in the compute type
  std::int64_t quantised = 0;          // bytes of the codes and constants of quantised ones
  std::int64_t decoding = 0;           // of these bytes, the constants
  bool of_layer = true;
  bool experts = false;                // a layer's, divided over ranks that share nothing else
  bool f8 = false;                     // a layer's, read in 8 bits (f8_weights.hpp)
};

// What all units and spans of a stage add up to.
struct StateSizes {
  std::int64_t trained = 0;            // elements
  std::int64_t shard = 0, scales = 0;  // of the spans: elements of own shards, and their scales
  std::int64_t f8 = 0, f8_shard = 0;   // of `trained` and `shard`, those that are read in 8 bits
  // On this rank: frozen elements, bytes of quantised matrices, constants of the other ranks'.
  std::int64_t frozen = 0, quantised = 0, others_constants = 0;
  std::int64_t frozen_ends = 0;        // of the frozen ones, those of no layer
  std::int64_t largest_layer = 0, largest_experts = 0, largest_other = 0;  // trained elements
  std::int64_t largest_f8 = 0, largest_f8_experts = 0;  // the same of units that are read in 8 bits

  // parts: ranks that divide the frozen parameters. count: of equal units.
  void add_unit(const UnitSizes& u, std::int64_t parts, std::int64_t count = 1) {
    trained += count * u.elements;
    if (u.f8) f8 += count * u.elements;
    frozen += count * shard_of(u.frozen, parts);
    if (!u.of_layer) frozen_ends += count * shard_of(u.frozen, parts);
    quantised += count * shard_of(u.quantised, parts);
    others_constants += count * (u.decoding - u.decoding / parts);
    std::int64_t& largest = u.f8 && u.experts ? largest_f8_experts
                            : u.f8            ? largest_f8
                            : u.experts       ? largest_experts
                            : u.of_layer      ? largest_layer
                                              : largest_other;
    if (count > 0) largest = std::max(largest, u.elements);
  }
  // own: elements of the rank's shard of a span.
  void add_span(std::int64_t own, bool in_f8, std::int64_t count = 1) {
    shard += count * own;
    if (in_f8) f8_shard += count * own;
    scales += count * scales_of(own);
  }
  static std::int64_t scales_of(std::int64_t own) {
    return (own + program::kQuantisationBlock - 1) / program::kQuantisationBlock;
  }
};

enum class StateKind : std::uint8_t {
  weights, weights_f8, other_order, frozen, frozen_ends, quantised, others_constants, stand_ins,
  wide_gradients, gradient_copies, held_inputs, gradients, loss, norm, loss_scale, server_weights,
  master, moment, moment_scales, host_weights, host_gradients
};

struct StateBuffer {
  StateKind kind{};
  program::Term term{};
  core::DType type{};
  std::int64_t elements = 0;           // of all units or spans where it has an instance of each
  bool host = false;                   // in host memory
  int slot = 0;                        // of moments: first ones, then second ones
  bool second = false;                 // a second moment
};
// "optimizer.m0": the buffer's name in Programs and reports.
std::string name_of(const StateBuffer& buffer);

class State {
 public:
  static constexpr std::size_t kMost = 22;
  void add(const StateBuffer& b) { buffers_.at(count_++) = b; }
  const StateBuffer* begin() const { return buffers_.data(); }
  const StateBuffer* end() const { return buffers_.data() + count_; }
  // Bytes on the device, or in host memory. versions: of the weights.
  std::int64_t bytes(bool host, std::int64_t versions = 1) const;

 private:
  std::array<StateBuffer, kMost> buffers_{};
  std::size_t count_ = 0;
};

// A stage as far as its state depends on it.
struct StateQuestion {
  const Policy& policy;
  const Recipe& recipe;
  const Optimizer& optimizer;
  const Strategy& strategy;            // resolved
  core::DType reduce{};                // in which gradients travel
  StateSizes sizes;
  std::int64_t layers = 0;
  std::int64_t boundary = 0;           // elements of a layer's input, of one micro-batch
  bool training = true;
  bool last = true;                    // has the head
  bool serves = false, apart = false;  // a parameter server; one without a worker
  bool norm = false, scales_loss = false;  // takes_norm() and scales_loss() of the job
};

// In the order in which Programs declare them; what is empty is left out.
State state_of(const StateQuestion& question);

}  // namespace planner::stage
