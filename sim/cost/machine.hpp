#pragma once
// Machine: the few numbers of a profile that time depends on, ready for the cost functions. Built
// once per plan; immutable, thread-safe to read.

#include <array>
#include <string_view>

#include "core/dtype.hpp"
#include "core/units.hpp"
#include "hw_profiles/profile.hpp"

namespace cost {

inline constexpr std::size_t kTypes = 9;  // of core::DType

struct Machine {
  // Dense GEMM peak by input type; zero where the device computes no such type.
  std::array<core::FlopsPerSecond, kTypes> peak{};
  double gemm_efficiency = 0;      // fraction kept by large GEMMs through whole steps
  double gemm_efficiency_f8 = 0;   // the same for f8 inputs
  double gemm_prologue_k = 0;      // K0: a GEMM loses K0 of its K loop to filling the pipeline
  double attention_efficiency = 0; // of the 16-bit peak, causal FLOPs counted once
  int multiprocessors = 1;         // enabled ones: the width of a wave
  core::BytesPerSecond memory{};   // achieved, not nominal
  core::Seconds launch{};          // gap between two kernels of a replayed graph
  core::Seconds submit{};          // host time per kernel outside a graph

  int gpus_per_node = 1;
  core::Seconds link_latency{}, internode_latency{};
  core::BytesPerSecond link{};       // per GPU and direction inside a node
  core::BytesPerSecond pair{};       // inside a bridged pair of GPUs; zero: none
  core::Seconds pair_latency{};
  core::BytesPerSecond internode{};  // of the whole node, per direction
};

// attention: the job's kind ("flash2", "flash1"). The sustained GEMM fraction is used where the
// profile has one and never above the best measured; a card without a sourced flash1 figure takes
// flash2's.
Machine make_machine(const hw_profiles::Profile& profile, std::string_view attention);

}  // namespace cost
