#pragma once
// Pieces: what one block of a stage does to memory and to the clock, as figures that are affine in
// the micro-batch. A stage of n equal layers is then a few sums (stage_form.hpp), so the search
// never lowers a candidate.
//
// The figures are not formulas of their own: a probe of two layers is lowered by planner/lowering,
// at one and at two samples, and its blocks are read. What an operator saves, recomputes or sends
// inside a block therefore follows the lowering by construction. Shared by everything that builds
// the same graph (tensor degree and what else shapes it). Not thread-safe: at() fills a table.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/graph.hpp"
#include "planner/question/job.hpp"
#include "planner/question/quantization.hpp"
#include "planner/stage/script.hpp"
#include "planner/strategy/strategy.hpp"
#include "sim/cost/machine.hpp"
#include "sim/program/footprint.hpp"

namespace planner::closed_form {

using stage::index;
using stage::kPieces;
using stage::Piece;

// On the compute stream, in picoseconds.
struct PieceTime {
  std::int64_t kernels = 0;
  std::int64_t transfers = 0;          // collectives that the block waits for
  std::int64_t wide = 0;               // of the kernels, those that add to gradients in f32
};

// A boundary tensor to a neighbour, in picoseconds: in the same node, to the one that a bridge
// pairs with, in another node.
struct MessageTime {
  std::int64_t inside = 0, paired = 0, across = 0;
};

// The pieces at one micro-batch.
struct Forms {
  std::array<program::LiveFootprint, kPieces> live;
  // What pieces take, with the transfers that they wait for: where gradients are whole, and where
  // they are divided, so that no second copy in f32 is added to.
  struct Kernels { std::array<std::int64_t, kPieces> whole{}, divided{}; };
  std::vector<Kernels> kernels;       // by machine
  std::int64_t boundary = 0;                         // bytes of a boundary tensor
  std::vector<std::int64_t> landing;  // by machine: copying one out of the landing buffer
  std::vector<MessageTime> message;   // by machine
};

// Elements of the units of a stage (stage_layout.hpp): gathered, cast and reduced together.
struct UnitElements {
  std::int64_t layer = 0, final = 0, tied = 0, embeddings = 0;  // trained
  std::int64_t experts = 0;            // of a layer, where they differ from rank to rank: apart
  // Frozen, in the compute type (prologue: with the tied table), and as bytes of codes.
  std::int64_t frozen_layer = 0, frozen_prologue = 0, frozen_epilogue = 0, frozen_tied = 0;
  std::int64_t quantised_layer = 0, decoding_layer = 0;
  // Of the trained ones, those whose gradients are summed over the tensor ranks.
  std::int64_t partial_layer = 0, partial_final = 0, partial_embeddings = 0;
};

class Pieces {
 public:
  // nullopt where the sums do not describe the model: layers of several shapes, layers whose
  // backward reads their output, a graph without loss. shape: the strategy's degrees that shape the
  // graph, how its keys meet, its loss_chunks, and whether its schedule splits backward passes; the
  // rest is ignored.
  // graph and machines outlive the result.
  static std::optional<Pieces> of(const models::ModelGraph& graph, const Job& job,
                                  const Strategy& shape,
                                  std::span<const cost::Machine* const> machines);

  const Forms& at(std::int64_t micro_batch);

  UnitElements units;
  // Trained parameters in the order of the flat space, by part of the stage.
  std::vector<std::int64_t> epilogue_parameters, layer_parameters, prologue_parameters;
  std::vector<std::int64_t> expert_parameters;  // of units.experts, behind all others
  bool prologue_trains = true;
  bool prologue_reads = false;         // its backward, weights of its own: it has a norm

 private:
  struct Change { std::int64_t fixed = 0, per_sample = 0; };

  bool read_changes(const Strategy& shape);  // false: not by the sample
  Forms build(std::int64_t micro_batch) const;
  MessageTime message_time(std::int64_t bytes, const cost::Machine& machine) const;
  void count_units(const models::ModelGraph& graph, Quantization quantization);

  std::array<std::vector<Change>, kPieces> changes_;
  Change boundary_;
  std::array<program::Call, kPieces> calls_{};
  program::Program probe_;             // one sample
  std::span<const cost::Machine* const> machines_;
  core::DType boundary_type_{};
  bool ring_ = false;                  // keys pass round beside the attention
  std::vector<std::int64_t> micro_batches_;    // of forms_: a dozen
  std::vector<std::unique_ptr<Forms>> forms_;
};

}  // namespace planner::closed_form
