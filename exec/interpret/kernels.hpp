#pragma once
// From an action to a host kernel: arguments by the names of models/ops on one side, the signatures
// of exec/host/kernels.hpp on the other. Stateless but for the workspace.

#include <span>
#include <vector>

#include "core/units.hpp"
#include "exec/host/view.hpp"
#include "exec/interpret/rank_memory.hpp"
#include "models/graph.hpp"
#include "sim/program/program.hpp"
#include "sim/program/sequence.hpp"

namespace exec {

// What kernels need to know beyond their operator's shape.
struct KernelContext {
  std::int64_t samples = 1;            // per micro-batch
  std::int64_t global_batch = 1;
  std::int64_t vocab = 0;              // unpadded
  std::int64_t heads = 0;              // of all tensor ranks
  program::SequenceSlice slice;        // of the tokens; tensor ranks may divide it further
  double norm_epsilon = 1e-5;
  int tensor_rank = 0, expert_rank = 0;
  std::int64_t data_ranks = 1;         // that share the statistics of synchronised norms
  std::uint64_t seed = 1;              // what is drawn at random
  std::int64_t first_sample = 0;       // of the micro-batch, counted over all steps
  std::int64_t samples_apart = 0;      // from one data rank's first sample to the next one's
  const double* loss_scale = nullptr;  // in the rank's range; null: none
};

// Workspace that the class's forward and backward kernels need at most.
core::Bytes workspace_bytes(const program::RankClass& rank_class, std::int64_t samples);

// Runs a forward, input_gradient or weight_gradient action.
void run_kernel(const program::Action& action, const models::Operator& op,
                std::span<const Operand> args, const KernelContext& context,
                host::Workspace workspace);

inline host::View view(const Operand& operand) {
  return {operand.data, operand.type, operand.f8};
}

}  // namespace exec
