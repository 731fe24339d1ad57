#include "planner/evaluate/closed_form/pieces.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "core/check.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/stage/prologue.hpp"
#include "planner/lowering/rescale.hpp"
#include "sim/cost/action.hpp"
#include "sim/cost/kernel.hpp"
#include "sim/cost/link.hpp"

namespace planner::closed_form {
namespace {

using program::ActionKind;
using program::Call;
using program::RankClass;

constexpr std::int64_t kProbeLayers = 2;

// One stage of two layers under one checkpoint: forward holds layer 0 and drops layer 1, backward
// recomputes both. Its routines call every piece; layer_keep is the first recomputation.
// Where one layer in k is computed again too: of the same pieces.
// Checkpoints within layers and split backward passes keep every layer, and have pieces of their
// own.
Strategy probe_strategy(const Strategy& shape, std::int64_t samples) {
  Strategy s;
  s.tensor = shape.tensor;
  s.sequence_parallel = shape.sequence_parallel;
  s.data = s.expert = shape.expert;    // whose rows are exchanged
  s.context = shape.context;
  s.context_method = shape.context_method;
  s.mesh_order = shape.mesh_order;
  s.loss_chunks = shape.loss_chunks;
  s.grad_sync = GradSync::ring;
  s.stages = {kProbeLayers};
  const bool split = splits_backward(shape.schedule);
  if (split) s.schedule = shape.schedule;
  s.checkpoint = drops_within_layers(shape.checkpoint) ? shape.checkpoint
                 : split                               ? Checkpoint::none
                                                       : Checkpoint::every_k;
  s.checkpoint_every = s.checkpoint == Checkpoint::every_k ? kProbeLayers : 0;
  s.micro_batch = samples;
  s.grad_accum = 2;
  return s;
}

program::Program probe(const models::ModelGraph& graph, const Job& job, const Strategy& shape,
                       std::int64_t samples) {
  const Strategy s = probe_strategy(shape, samples);
  Job one = job;
  one.global_batch = samples * s.grad_accum * s.data;
  return lower(graph, one, s, {});     // of pieces that no framework's state touches
}

// The routine's calls that compute, in order; casts of weights are the stage's affair.
std::vector<Call> computing_calls(const RankClass& k, const program::Routine& routine) {
  std::vector<Call> calls;
  for (const Call& call : routine) {
    const std::string_view name = k.blocks[call.block].name;
    if (name != "materialise" && name != "await" && name != "release") calls.push_back(call);
  }
  return calls;
}

bool homogeneous(const models::ModelGraph& graph) {
  if (graph.options.inference || graph.templates.size() != 1) return false;
  if (graph.layer_template.size() < static_cast<std::size_t>(kProbeLayers)) return false;
  // An encoder of features is as long as layers: passes that split around it are further from their
  // algebra (11 % on uce-33l over 8 ranks) than those around lookups.
  const models::Segment& prologue = graph.prologue;
  if (prologue.input < 0 || prologue.tensors[static_cast<std::size_t>(prologue.input)].role !=
                                models::TensorRole::tokens)
    return false;
  const models::Segment& layer = graph.templates.front();
  bool residual = false;
  for (auto v : topological_order(layer)) {
    const models::Operator& op = layer.graph[v];
    residual |= op.kind == models::OpKind::add && op.inputs[0] == layer.input;
    for (models::TensorIndex t : op.saved) {
      while (t >= 0 && t != layer.output)
        t = layer.tensors[static_cast<std::size_t>(t)].in_place_of;
      if (t == layer.output) return false;
    }
  }
  return residual && num_vertices(graph.prologue.graph) > 0 &&
         num_vertices(graph.epilogue.graph) > 0;
}

}  // namespace

std::optional<Pieces> Pieces::of(const models::ModelGraph& graph, const Job& job,
                                 const Strategy& shape,
                                 std::span<const cost::Machine* const> machines) {
  if (job.mode == Mode::inference || !homogeneous(graph)) return std::nullopt;
  Pieces p;
  p.machines_ = machines;
  p.ring_ = shape.context_method == ContextMethod::ring;
  p.probe_ = probe(graph, job, shape, 1);
  const RankClass& k = p.probe_.classes.front();
  const std::vector<Call> forward = computing_calls(k, k.forward);
  std::vector<Call> backward = computing_calls(k, k.backward);
  const Call none{program::kNone, 0, 0};
  const bool split = splits_backward(shape.schedule);
  const bool keeps = split || drops_within_layers(shape.checkpoint);
  const std::size_t passes = keeps ? 3 : 5;  // epilogue, recomputations, layers
  if (backward.size() == passes) backward.push_back(none);  // frozen embeddings
  if (forward.size() != 3 || backward.size() != passes + 1) return std::nullopt;
  if (keeps)
    p.calls_ = {forward[0], forward[1], none, none, none,
                backward[1], backward[2], backward[0], backward[3],
                split ? k.weight_gradient.front() : none};
  else
    p.calls_ = {forward[0], backward[1], forward[1], forward[2], backward[2],
                backward[3], backward[4], backward[0], backward[5], none};

  if (!p.read_changes(shape)) return std::nullopt;
  const std::int64_t elements = graph.boundary_elements(1);
  const auto recipe = resolve_recipe(job.recipe, job.precision);
  p.boundary_type_ = recipe->activation;
  p.boundary_ = {0, core::bytes_of(elements, recipe->activation).value()};
  p.count_units(graph, quantization_from_name(job.quantization).value_or(Quantization::none));
  return p;
}

// Bytes at one sample and at two: the probe is scaled to two, and back.
bool Pieces::read_changes(const Strategy& shape) {
  const RankClass& k = probe_.classes.front();
  const program::BlockChanges changes = program::block_changes(k);
  const auto each = [&](auto&& use) {
    for (std::size_t i = 0; i < kPieces; ++i) {
      const Call& call = calls_[i];
      if (call.block == program::kNone) continue;
      std::size_t at = 0;
      for (const program::Change& c : changes.blocks[call.block].changes) {
        const int layer = program::layer_index(c.view, call);
        const std::int64_t bytes = k.buffers[c.view.buffer].instance_bytes(layer).value();
        use(changes_[i], at++, c.is_alloc ? bytes : -bytes);
      }
    }
  };
  each([](std::vector<Change>& of, std::size_t, std::int64_t one) { of.push_back({one, 0}); });
  if (!rescale(probe_, probe_strategy(shape, 2))) return false;
  each([](std::vector<Change>& of, std::size_t at, std::int64_t two) {
    const std::int64_t one = of[at].fixed;
    of[at] = {2 * one - two, two - one};
  });
  return rescale(probe_, probe_strategy(shape, 1));
}

static bool is_partial(const models::Parameter& p) { return p.trainable && p.tensor_partial; }

void Pieces::count_units(const models::ModelGraph& graph, Quantization quantization) {
  std::string tied;
  for (const models::Parameter& p : graph.epilogue.parameters)
    if (!p.tied_to.empty()) tied = p.tied_to;
  const auto each = [](const models::Segment& segment, auto&& use) {
    for (const bool first : {true, false})
      for (std::size_t i = segment.parameters.size(); i-- > 0;)
        if (is_partial(segment.parameters[i]) == first) use(segment.parameters[i]);
  };
  each(graph.epilogue, [&](const models::Parameter& p) {
    if (!p.tied_to.empty()) return;
    if (is_partial(p)) units.partial_final += p.elements;
    (p.trainable ? units.final : units.frozen_epilogue) += p.elements;
    if (p.trainable) epilogue_parameters.push_back(p.elements);
  });
  each(graph.templates.front(), [&](const models::Parameter& p) {
    if (is_quantised(quantization, p.trainable, p.shape)) {
      units.quantised_layer += quantised_bytes(quantization, p.shape).value();
      units.decoding_layer += decoding_bytes(quantization, p.shape).value();
      return;
    }
    if (p.trainable && p.expert_ways > 1) {
      units.experts += p.elements;
      expert_parameters.push_back(p.elements);
      return;
    }
    if (is_partial(p)) units.partial_layer += p.elements;
    (p.trainable ? units.layer : units.frozen_layer) += p.elements;
    if (p.trainable) layer_parameters.push_back(p.elements);
  });
  prologue_trains = false;
  prologue_reads = stage::backward_reads_weights(graph.prologue);
  each(graph.prologue, [&](const models::Parameter& p) {
    prologue_trains |= p.trainable;
    if (!p.trainable) {
      units.frozen_prologue += p.elements;
      if (p.name == tied) units.frozen_tied += p.elements;
    } else if (p.name == tied) {
      units.tied += p.elements;
    } else {
      units.embeddings += p.elements;
      if (is_partial(p)) units.partial_embeddings += p.elements;
      prologue_parameters.push_back(p.elements);
    }
  });
}

MessageTime Pieces::message_time(std::int64_t bytes, const cost::Machine& machine) const {
  const auto over = [&](const cost::Place& place) {
    const core::Seconds time = cost::collective_time(
        program::Collective::send, program::Algorithm::direct, place,
        bytes * 8 / core::bits(boundary_type_), boundary_type_, machine);
    return core::to_picoseconds(time).value();
  };
  return {.inside = over({.size = 2, .nodes = 1, .per_node = 2}),
          .paired = over({.size = 2, .nodes = 1, .per_node = 2, .paired = true}),
          .across = over({.size = 2, .nodes = 2, .per_node = 1})};
}

// A block in which keys pass round beside the attention: streams in order, waits for what the block
// itself signals. Gradients of keys that are on their way are stated for one sample.
static PieceTime ring_time(const RankClass& k, const Call& call, const cost::ActionCost& cost,
                           std::int64_t samples, std::int64_t launch) {
  std::array<std::int64_t, program::kStreams> streams{};
  std::map<std::pair<std::uint16_t, int>, std::int64_t> events;
  const auto instance = [&](const program::EventRef& ref) {
    return std::pair{ref.event, program::instance_of(k.events[ref.event], ref, call)};
  };
  PieceTime time;
  const program::Block& block = k.blocks[call.block];
  for (std::uint32_t i = block.first; i < block.last; ++i) {
    const program::Action& a = k.actions[i];
    std::int64_t took = cost(a, call).value();
    if (a.kind == ActionKind::accumulate) took = launch + (took - launch) * samples;
    std::int64_t& stream = streams[static_cast<std::size_t>(a.stream)];
    for (std::uint32_t w = a.first_wait; w < a.first_wait + a.wait_count; ++w) {
      const auto signalled = events.find(instance(k.waits[w].on));
      if (signalled != events.end()) stream = std::max(stream, signalled->second);
    }
    stream += took;
    if (!cost::ActionCost::is_transfer(a.kind)) time.kernels += took;
    if (a.signal != program::kNone) events[instance(k.signals[a.signal])] = stream;
  }
  time.transfers = streams[static_cast<std::size_t>(program::Stream::compute)] - time.kernels;
  return time;
}

Forms Pieces::build(std::int64_t b) const {
  Forms forms;
  const RankClass& k = probe_.classes.front();
  forms.boundary = boundary_.fixed + boundary_.per_sample * b;
  for (std::size_t i = 0; i < kPieces; ++i) {
    std::int64_t net = 0, peak = 0;
    for (const Change& c : changes_[i]) peak = std::max(peak, net += c.fixed + c.per_sample * b);
    forms.live[i] = {net, peak};
  }
  for (const cost::Machine* machine : machines_) {
    const cost::ActionCost cost(probe_, k, *machine, b);
    std::array<PieceTime, kPieces> times{};
    for (std::size_t i = 0; i < kPieces; ++i) {
      if (calls_[i].block == program::kNone) continue;
      const program::Block& block = k.blocks[calls_[i].block];
      if (ring_) {
        times[i] = ring_time(k, calls_[i], cost, b, core::to_picoseconds(machine->launch).value());
        continue;
      }
      for (std::uint32_t a = block.first; a < block.last; ++a) {
        const ActionKind kind = k.actions[a].kind;
        const std::int64_t time = cost(k.actions[a], calls_[i]).value();
        (cost::ActionCost::is_transfer(kind) ? times[i].transfers : times[i].kernels) += time;
      }
      times[i].kernels += cost.block_wait(block, calls_[i]).time.value();
      times[i].wide = cost.wide_time(block).value();
    }
    Forms::Kernels& kernels = forms.kernels.emplace_back();
    for (std::size_t i = 0; i < kPieces; ++i) {
      kernels.whole[i] = times[i].kernels + times[i].transfers;
      kernels.divided[i] = kernels.whole[i] - times[i].wide;
    }
    const core::Seconds copy = cost::memory_time(core::Bytes(2 * forms.boundary), *machine);
    forms.landing.push_back(core::to_picoseconds(copy + machine->launch).value());
    forms.message.push_back(message_time(forms.boundary, *machine));
  }
  return forms;
}

const Forms& Pieces::at(std::int64_t micro_batch) {
  const auto known = std::ranges::find(micro_batches_, micro_batch);
  const auto at = static_cast<std::size_t>(known - micro_batches_.begin());
  if (known != micro_batches_.end()) return *forms_[at];
  micro_batches_.push_back(micro_batch);
  return *forms_.emplace_back(std::make_unique<Forms>(build(micro_batch)));
}

}  // namespace planner::closed_form
