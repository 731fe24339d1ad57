#pragma once
// Pieces: what one block of a stage does to memory and to the clock, as figures that are affine in
// the micro-batch. A stage of n equal layers is then a few sums (stage_form.hpp), so the search
// never lowers a candidate.
//
// The figures are not formulas of their own: a probe of two layers of each kind is lowered by
// planner/lowering, at one and at two samples, and its blocks are read. What an operator saves,
// recomputes or sends inside a block therefore follows the lowering by construction. Shared by
// everything that builds the same graph (tensor degree and what else shapes it). Not thread-safe:
// at() fills a table.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/graph.hpp"
#include "planner/evaluate/closed_form/kind_rows.hpp"
#include "planner/question/job.hpp"
#include "planner/question/quantization.hpp"
#include "planner/strategy/strategy.hpp"
#include "sim/cost/machine.hpp"
#include "sim/program/footprint.hpp"

namespace planner::closed_form {

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

// The pieces at one micro-batch, by slot (kind_rows.hpp).
struct Forms {
  std::array<program::LiveFootprint, kSlots> live;
  // What pieces take, with the transfers that they wait for: where gradients are whole, and where
  // they are divided, so that no second copy in f32 is added to.
  struct Kernels { std::array<std::int64_t, kSlots> whole{}, divided{}; };
  std::vector<Kernels> kernels;       // by machine
  std::int64_t boundary = 0;                         // bytes of a boundary tensor
  std::vector<std::int64_t> landing;  // by machine: copying one out of the landing buffer
  std::vector<MessageTime> message;   // by machine
  // By machine: bytes that calls for attention take beyond the workspace that is always there.
  std::vector<std::int64_t> attention;
};

// What of a layer's trained elements has a unit and spans of its own (stage::Stage::unit_groups):
// experts that differ from rank to rank, what is read in 8 bits.
struct UnitGroup { bool experts = false, f8 = false; };
inline constexpr std::array<UnitGroup, 4> kUnitGroups{
    {{false, false}, {true, false}, {false, true}, {true, true}}};
inline constexpr std::size_t kExperts = 1, kF8 = 2, kF8Experts = 3;  // indices of these
inline std::size_t group_of(bool experts, bool f8) {
  return (f8 ? kF8 : 0) + (experts ? kExperts : 0);
}
template <class What>
using ByGroup = std::array<What, kUnitGroups.size()>;

// Of a kind of layer, elements of its units (stage/layout.hpp), each gathered, cast and reduced
// together.
struct LayerElements {
  ByGroup<std::int64_t> trained{};
  std::int64_t frozen = 0;             // in the compute type
  std::int64_t quantised = 0, decoding = 0;  // bytes of codes; of these, the constants
  std::int64_t partial = 0;            // trained, whose gradients are summed over tensor ranks
  bool exchanges = false;              // rows with expert ranks
  ByGroup<std::vector<std::int64_t>> parameters;  // of `trained`, in the order of the flat space
  std::int64_t experts() const { return trained[kExperts] + trained[kF8Experts]; }
};
// The same of the model's ends.
struct EndElements {
  std::int64_t final = 0, tied = 0, embeddings = 0;  // trained
  // In the compute type; prologue: with the tied table.
  std::int64_t frozen_prologue = 0, frozen_epilogue = 0, frozen_tied = 0;
  std::int64_t partial_final = 0, partial_embeddings = 0;
  std::int64_t experts = 0;            // of the epilogue: trained, differ from rank to rank
  bool exchanges = false;              // the same
};

class Pieces {
 public:
  // nullopt where the sums do not describe the model: more than kMostKinds kinds of layers, layers
  // whose backward reads their output, a graph without loss. shape: the strategy's degrees that
  // shape the graph, how its keys meet, its loss_chunks, and whether its schedule splits backward
  // passes; the rest is ignored. So is of the policy what does not concern operators.
  // graph and machines outlive the result.
  static std::optional<Pieces> of(const models::ModelGraph& graph, const Job& job,
                                  const stage::Policy& policy, const Strategy& shape,
                                  std::span<const cost::Machine* const> machines);

  const Forms& at(std::int64_t micro_batch);

  std::vector<LayerElements> layers;   // by kind
  EndElements ends;
  // Trained parameters in the order of the flat space, by part of the stage.
  std::vector<std::int64_t> epilogue_parameters, prologue_parameters, epilogue_expert_parameters;
  bool prologue_trains = true;
  bool prologue_reads = false;         // its backward, weights of its own: it has a norm

 private:
  struct Change { std::int64_t fixed = 0, per_sample = 0; };
  // Two layers of a kind between the model's ends.
  struct Probe {
    program::Program program;          // one sample
    std::array<program::Call, kPieces> calls{};
    std::array<std::vector<Change>, kPieces> changes{};
  };

  static std::optional<Probe> probe_of(const models::ModelGraph& graph, const Job& job,
                                       const stage::Policy& policy, const Strategy& shape,
                                       std::size_t kind, bool ends);
  static bool read_calls(const Strategy& shape, bool ends, Probe& probe);  // false: not as expected
  static bool read_changes(const Strategy& shape, Probe& probe);  // false: not by the sample
  Forms build(std::int64_t micro_batch) const;
  void add_kernels(const cost::Machine& machine, std::int64_t micro_batch, std::size_t kind,
                   Forms::Kernels& kernels) const;
  MessageTime message_time(std::int64_t bytes, const cost::Machine& machine) const;
  void count_ends(const models::ModelGraph& graph);

  Change boundary_;
  std::vector<Probe> probes_;          // by kind; the ends' pieces are those of the first
  std::span<const cost::Machine* const> machines_;
  core::DType boundary_type_{};
  bool ring_ = false;                  // keys pass round beside the attention
  std::vector<std::int64_t> micro_batches_;    // of forms_: a dozen
  std::vector<std::unique_ptr<Forms>> forms_;
};

}  // namespace planner::closed_form
