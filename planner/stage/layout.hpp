#pragma once
// Where the parameters of one pipeline stage live. Trained parameters lie in one flat space in the
// order in which their gradients become ready (head, last layer .. first layer, embeddings), so
// that a bucket is a contiguous range; weights, gradients and optimizer state share the layout.
// Frozen parameters (LoRA) lie in a second flat space, the quantised ones of each layer in a third.
// The flat space divides into spans: buckets of whole tensors [ddp], or one span per unit (layer)
// under ZeRO-2 and 3. Experts that differ from rank to rank lie behind everything else, with units
// and spans of their own: other ranks share them, as in Megatron-LM. Weights that are read in 8
// bits (f8_weights.hpp) lie behind these, again with units and spans of their own: those of layers,
// then those of experts that differ. Pure.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "models/graph.hpp"
#include "planner/question/job.hpp"
#include "planner/question/quantization.hpp"
#include "planner/stage/policy.hpp"
#include "planner/stage/state.hpp"
#include "planner/strategy/strategy.hpp"
#include "sim/program/program.hpp"

namespace planner::stage {

// A run of layers that a rank takes in one go. Ranks have one, or several (virtual stages).
struct Chunk {
  int place = 0;                       // in the chain of all chunks, first layers first
  int first_layer = 0;                 // of the whole model
  int begin = 0, end = 0;              // local layers; none: embeddings or head alone
  bool first = true, last = true;      // of the chain
};

// What a stage holds and how; everything that lowering asks again and again.
struct Stage {
  const models::ModelGraph* graph = nullptr;
  const Job* job = nullptr;
  const Strategy* strategy = nullptr;
  stage::Policy policy;
  Recipe recipe;
  Optimizer optimizer;
  Quantization quantization = Quantization::none;
  program::Mesh mesh;
  int index = 0;                       // pipeline stage
  int first_layer = 0, layers = 0;
  std::vector<Chunk> chunks{Chunk{}};
  bool first = true, last = true;      // holds the first, the last chunk of the chain
  bool serves = false;                 // parameter server, colocated or apart
  bool apart = false;                  // a server without a worker
  bool cut = false;                    // holds a part of a cut graph, one layer of its own
  std::optional<int> alike{};          // the template of all its layers; none: as the graph says
  std::int64_t samples = 1;            // per micro-batch

  // Chunk of a local layer, and its number in the whole model.
  const Chunk& chunk_of(int l) const {
    for (const Chunk& c : chunks)
      if (l < c.end) return c;
    return chunks.back();
  }
  int global_layer(int l) const {
    const Chunk& c = chunk_of(l);
    return c.first_layer + l - c.begin;
  }
  // The index of a local layer's template in the graph.
  std::size_t template_of(int l) const {
    const auto global = static_cast<std::size_t>(global_layer(l));
    return static_cast<std::size_t>(alike ? *alike : graph->layer_template[global]);
  }
  // Weight gradients are passes of their own.
  bool split_backward() const {
    return splits_backward(strategy->schedule) && training();
  }
  // Tied embeddings live on two ranks, each with a gradient of its own.
  bool tied_apart() const { return mesh.pipeline > 1 && !(first && last); }
  bool training() const { return job->mode != Mode::inference; }
  // The rules of planner/stage/policy.hpp.
  std::int64_t segment() const { return stage::segment_layers(policy, *strategy); }
  bool keeps(int l) const {
    return stage::keeps_layer(policy, *strategy, l, l - chunk_of(l).begin);
  }
  bool sharded_gradients() const { return stage::shards_gradients(*strategy); }
  bool sharded_weights() const { return stage::shards_weights(*strategy); }
  bool servers() const { return strategy->grad_sync == GradSync::parameter_server; }
  // Gradients travel: to other data ranks, from a single worker to its server, to the host.
  bool communicates() const { return mesh.data > 1 || servers() || offloads_params(); }
  bool keeps_root() const { return stage::keeps_root(policy, *strategy) && training() && !cut; }
  bool materialises() const { return stage::materialises(recipe, *strategy); }
  // In host memory: the optimizer's state; weights and gradients, too.
  bool offloads_optimizer() const { return offloads_params() || strategy->offloads("optimizer"); }
  bool offloads_params() const { return strategy->offloads("params"); }
  // What layers keep for their backward passes goes to host memory and comes back.
  bool offloads_activations() const { return strategy->offloads("activations") && training(); }
  // Ranks that divide each span: ZeRO's shard group, or the servers.
  int parts() const {
    if (servers()) return static_cast<int>(strategy->servers);
    return strategy->sharding == Sharding::none ? 1 : static_cast<int>(strategy->shard_group);
  }
  // The same of a span or unit that one in `expert_ways` data ranks has.
  int parts(int expert_ways) const { return std::max(1, parts() / expert_ways); }
  // Some of its layers have experts that are trained, and other data ranks hold others.
  bool divides_experts() const;
  // Groups of units that each layer has one of: its own parameters, experts that differ from rank
  // to rank, and the same of weights that are read in 8 bits.
  int unit_groups() const { return (divides_experts() ? 2 : 1) * (policy.weights_f8 ? 2 : 1); }
  // Whose unit of a local layer is so many layers behind the layer's own.
  int unit_shift(bool experts, bool f8) const {
    return layers * ((experts ? 1 : 0) + (f8 ? unit_groups() / 2 : 0));
  }
  core::DType reduce_type() const { return stage::reduce_type(*job, recipe); }
};

enum class SegmentKind : std::uint8_t { prologue, layer, epilogue };

// Parameters that are gathered, cast and (under ZeRO-2, 3) reduced together.
struct Unit {
  std::string name;
  std::int64_t offset = 0, elements = 0;  // trained flat space
  std::int64_t partial = 0;               // of elements, the first: Parameter::tensor_partial
  std::int64_t frozen_offset = 0, frozen_elements = 0;
  std::int64_t quantised_bytes = 0, decoding_bytes = 0;  // these among those
  SegmentKind ready = SegmentKind::layer; // whose backward completes its gradient
  int layer = -1;                         // local layer of layer units
  int expert_ways = 1;                    // more: experts, divided over so many data ranks
  bool f8 = false;                        // read in 8 bits
  // Of a unit of experts or of 8-bit weights: the index of the unit that has the other parameters
  // of its layer, or of the epilogue. Else -1.
  int beside = -1;
  UnitSizes sizes() const {
    return {elements, frozen_elements, quantised_bytes, decoding_bytes, layer >= 0,
            expert_ways > 1, f8};
  }
};

struct ParameterPlace {
  bool trained = true;
  bool quantised = false;              // offsets are bytes from the layer's start
  bool f8 = false;                     // read in 8 bits
  int unit = -1;                       // index into units
  int unit_shift = 0;                  // of layers: how far behind the layer's own unit that is
  std::int64_t offset = 0;             // in its flat space; from the layer's start for layers
  std::int64_t unit_offset = 0;        // from the unit's start
};

struct StageLayout {
  // Units: local layers 0..layers-1 first (unit index = local layer), then further groups of theirs
  // (Stage::unit_shift + local layer). The units of the model's ends follow. "final" has the last
  // norm and the head. The epilogue's experts have a unit of their own. "tied" has the table that
  // embeddings and head share, "embeddings" the other embeddings.
  std::vector<Unit> units;
  std::vector<program::Span> spans;
  std::vector<int> span_ready;         // unit whose backward completes the span
  int tied_span = -1;                  // of the tied embedding on first and last stage of several
  // Places by segment and parameter index; of layers by template.
  std::vector<ParameterPlace> prologue, epilogue;
  std::vector<std::vector<ParameterPlace>> templates;
  std::vector<std::int64_t> layer_offset, frozen_layer_offset;
  std::vector<program::PlacedParameter> parameters;
  std::vector<program::QuantisedParameter> quantised;
  std::int64_t trained_elements = 0, frozen_elements = 0, shard_elements = 0, scale_elements = 0;
  // Where weights that are read in 8 bits begin: in the flat space, among the shards of spans.
  std::int64_t f8_offset = 0, f8_shard_offset = 0;
  // Whether a span's weights are: those of a bucket all are, or none.
  bool in_f8(int span) const {
    const auto ready = static_cast<std::size_t>(span_ready[static_cast<std::size_t>(span)]);
    return units[ready].f8;
  }
};

StageLayout lay_out(const Stage& stage);

}  // namespace planner::stage
