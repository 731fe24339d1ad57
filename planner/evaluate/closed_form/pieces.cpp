#include "planner/evaluate/closed_form/pieces.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/check.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/stage/f8_weights.hpp"
#include "planner/stage/prologue.hpp"
#include "planner/lowering/rescale.hpp"
#include "sim/cost/action.hpp"
#include "sim/cost/kernel.hpp"
#include "sim/cost/launches.hpp"
#include "sim/cost/link.hpp"
#include "sim/cost/remembered_cost.hpp"

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
  s.expert = shape.expert;             // ranks whose rows are exchanged
  s.data = shape.expert_data_ranks();
  s.expert_tensor = shape.expert_tensor;
  s.expert_dispatch = shape.expert_dispatch;
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
  s.recompute_modules = within_layer(shape).modules;
  s.checkpoint_every = s.checkpoint == Checkpoint::every_k ? kProbeLayers : 0;
  s.micro_batch = samples;
  s.grad_accum = 2;
  return s;
}

// Of layers of one kind, at one sample.
program::Program probe(const models::ModelGraph& graph, const Job& job,
                       const stage::Policy& policy, const Strategy& shape, std::size_t kind,
                       bool ends) {
  constexpr std::int64_t samples = 1;
  const Strategy s = probe_strategy(shape, samples);
  Job one = job;
  one.global_batch = samples * s.grad_accum * s.data;
  return lower(graph, one, s, stage::of_operators(policy),
               LayerProbe{static_cast<int>(kind), ends});
}

// The routine's calls that compute, in order; casts of weights are the stage's affair, and so are
// messages. Of layers alone, where the probe has no ends.
std::vector<Call> computing_calls(const RankClass& k, const program::Routine& routine, bool ends) {
  std::vector<Call> calls;
  for (const Call& call : routine) {
    const std::string_view name = k.blocks[call.block].name;
    const bool is_stage = name == "materialise" || name == "await" || name == "release";
    if (ends ? !is_stage : name.starts_with("layer.")) calls.push_back(call);
  }
  return calls;
}

// A residual layer whose backward pass does not read its output.
bool is_summed(const models::Segment& layer) {
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
  return residual;
}

bool is_summed(const models::ModelGraph& graph) {
  if (graph.options.inference || graph.templates.size() > kMostKinds) return false;
  if (graph.layer_template.size() < static_cast<std::size_t>(kProbeLayers)) return false;
  // An encoder of features is as long as layers: passes that split around it are further from their
  // algebra (11 % on uce-33l over 8 ranks) than those around lookups.
  const models::Segment& prologue = graph.prologue;
  if (prologue.input < 0 || prologue.tensors[static_cast<std::size_t>(prologue.input)].role !=
                                models::TensorRole::tokens)
    return false;
  return num_vertices(graph.prologue.graph) > 0 && num_vertices(graph.epilogue.graph) > 0 &&
         std::ranges::all_of(graph.templates,
                             [](const models::Segment& layer) { return is_summed(layer); });
}

bool is_partial(const models::Parameter& p) { return p.trainable && p.tensor_partial; }

// In the order of the flat space (stage/layout.cpp). use(parameter), or use(parameter, index).
template <class Use>
void each_parameter(const models::Segment& segment, Use&& use) {
  for (const bool first : {true, false})
    for (std::size_t i = segment.parameters.size(); i-- > 0;)
      if (const models::Parameter& p = segment.parameters[i]; is_partial(p) == first) {
        if constexpr (std::is_invocable_v<Use, const models::Parameter&, std::size_t>)
          use(p, i);
        else
          use(p);
      }
}

LayerElements elements_of(const models::Segment& layer, Quantization quantization, bool in_f8) {
  LayerElements of;
  const std::vector<bool> f8 = in_f8 ? stage::read_in_f8(layer) : std::vector<bool>{};
  each_parameter(layer, [&](const models::Parameter& p, std::size_t i) {
    of.exchanges |= p.expert_ways > 1;
    if (is_quantised(quantization, p.trainable, p.shape)) {
      of.quantised += quantised_bytes(quantization, p.shape).value();
      of.decoding += decoding_bytes(quantization, p.shape).value();
      return;
    }
    if (!p.trainable) {
      of.frozen += p.elements;
      return;
    }
    const std::size_t group = group_of(p.data_ways > 1, in_f8 && f8[i]);
    if (group == 0 && is_partial(p)) of.partial += p.elements;
    of.trained[group] += p.elements;
    of.parameters[group].push_back(p.elements);
  });
  return of;
}

}  // namespace

std::optional<Pieces> Pieces::of(const models::ModelGraph& graph, const Job& job,
                                 const stage::Policy& policy, const Strategy& shape,
                                 std::span<const cost::Machine* const> machines) {
  if (job.mode == Mode::inference || !is_summed(graph)) return std::nullopt;
  Pieces p;
  p.machines_ = machines;
  p.ring_ = shape.context_method == ContextMethod::ring;
  p.count_ends(graph);
  const auto quantization = quantization_from_name(job.quantization).value_or(Quantization::none);
  for (std::size_t kind = 0; kind < graph.templates.size(); ++kind) {
    // Where nothing before the first layer trains, its backward pass differs from the others'.
    const bool ends = kind == 0 || !p.prologue_trains;
    std::optional<Probe> probe = probe_of(graph, job, policy, shape, kind, ends);
    if (!probe) return std::nullopt;
    p.probes_.push_back(std::move(*probe));
    p.layers.push_back(elements_of(graph.templates[kind], quantization, stage::gathers_f8(job)));
  }
  const std::int64_t elements = graph.boundary_elements(1);
  const auto recipe = resolve_recipe(job.recipe, job.precision);
  p.boundary_type_ = recipe->activation;
  p.boundary_ = {0, core::bytes_of(elements, recipe->activation).value()};
  return p;
}

std::optional<Pieces::Probe> Pieces::probe_of(const models::ModelGraph& graph, const Job& job,
                                              const stage::Policy& policy, const Strategy& shape,
                                              std::size_t kind, bool ends) {
  Probe p;
  p.program = probe(graph, job, policy, shape, kind, ends);
  if (!read_calls(shape, ends, p) || !read_changes(shape, p)) return std::nullopt;
  return p;
}

bool Pieces::read_calls(const Strategy& shape, bool ends, Probe& p) {
  const RankClass& k = p.program.classes.front();
  std::vector<Call> forward = computing_calls(k, k.forward, ends);
  std::vector<Call> backward = computing_calls(k, k.backward, ends);
  const Call none{program::kNone, 0, 0};
  if (!ends) {                         // stand where the ends would
    forward.insert(forward.begin(), none);
    backward.insert(backward.begin(), none);
  }
  const bool split = splits_backward(shape.schedule);
  const bool keeps = split || drops_within_layers(shape.checkpoint);
  const std::size_t passes = keeps ? 3 : 5;  // epilogue, recomputations, layers
  if (backward.size() == passes) backward.push_back(none);  // frozen embeddings
  if (forward.size() != 3 || backward.size() != passes + 1) return false;
  if (keeps)
    p.calls = {forward[0], forward[1], none, none, none,
               backward[1], backward[2], backward[0], backward[3],
               split ? k.weight_gradient.front() : none};
  else
    p.calls = {forward[0], backward[1], forward[1], forward[2], backward[2],
               backward[3], backward[4], backward[0], backward[5], none};
  return true;
}

// Bytes at one sample and at two: the probe is scaled to two, and back.
bool Pieces::read_changes(const Strategy& shape, Probe& p) {
  const RankClass& k = p.program.classes.front();
  const program::BlockChanges changes = program::block_changes(k);
  const auto each = [&](auto&& use) {
    for (std::size_t i = 0; i < kPieces; ++i) {
      const Call& call = p.calls[i];
      if (call.block == program::kNone) continue;
      std::size_t at = 0;
      for (const program::Change& c : changes.blocks[call.block].changes) {
        const int layer = program::layer_index(c.view, call);
        const std::int64_t bytes = k.buffers[c.view.buffer].instance_bytes(layer).value();
        use(p.changes[i], at++, c.is_alloc ? bytes : -bytes);
      }
    }
  };
  each([](std::vector<Change>& of, std::size_t, std::int64_t one) { of.push_back({one, 0}); });
  if (!rescale(p.program, probe_strategy(shape, 2))) return false;
  each([](std::vector<Change>& of, std::size_t at, std::int64_t two) {
    const std::int64_t one = of[at].fixed;
    of[at] = {2 * one - two, two - one};
  });
  return rescale(p.program, probe_strategy(shape, 1));
}

void Pieces::count_ends(const models::ModelGraph& graph) {
  const std::string tied = stage::tied_table(graph);
  each_parameter(graph.epilogue, [&](const models::Parameter& p) {
    ends.exchanges |= p.expert_ways > 1;
    if (!p.tied_to.empty()) return;
    if (p.trainable && p.data_ways > 1) {
      ends.experts += p.elements;
      epilogue_expert_parameters.push_back(p.elements);
      return;
    }
    if (is_partial(p)) ends.partial_final += p.elements;
    (p.trainable ? ends.final : ends.frozen_epilogue) += p.elements;
    if (p.trainable) epilogue_parameters.push_back(p.elements);
  });
  prologue_trains = false;
  prologue_reads = stage::backward_reads_weights(graph.prologue);
  each_parameter(graph.prologue, [&](const models::Parameter& p) {
    prologue_trains |= p.trainable;
    if (!p.trainable) {
      ends.frozen_prologue += p.elements;
      if (p.name == tied) ends.frozen_tied += p.elements;
    } else if (p.name == tied) {
      ends.tied += p.elements;
    } else {
      ends.embeddings += p.elements;
      if (is_partial(p)) ends.partial_embeddings += p.elements;
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

// Of the pieces of a kind's probe.
void Pieces::add_kernels(const cost::Machine& machine, std::int64_t b, std::size_t kind,
                         Forms::Kernels& kernels) const {
  const Probe& p = probes_[kind];
  const RankClass& k = p.program.classes.front();
  const cost::ActionCost cost(p.program, k, machine, b);
  cost::RememberedCost remembered(cost);
  for (std::size_t i = 0; i < kPieces; ++i) {
    if (p.calls[i].block == program::kNone) continue;
    const std::size_t slot = slot_of(static_cast<Piece>(i), kind);
    const program::Block& block = k.blocks[p.calls[i].block];
    PieceTime time;
    if (ring_) {
      time = ring_time(k, p.calls[i], cost, b, core::to_picoseconds(machine.launch).value());
      kernels.whole[slot] = kernels.divided[slot] = time.kernels + time.transfers;
      continue;
    }
    core::Picoseconds computing{};
    for (std::uint32_t a = block.first; a < block.last; ++a) {
      const program::Action& action = k.actions[a];
      if (action.kind == ActionKind::alloc || action.kind == ActionKind::free) continue;
      const core::Picoseconds took = remembered(action, p.calls[i]);
      const bool transfers = cost::ActionCost::is_transfer(action.kind);
      (transfers ? time.transfers : time.kernels) += took.value();
      if (cost::ActionCost::is_computing(action)) computing += took;
    }
    time.kernels += cost.block_wait(block, computing).time.value();
    time.wide = cost.wide_time(block).value();
    kernels.whole[slot] = time.kernels + time.transfers;
    kernels.divided[slot] = kernels.whole[slot] - time.wide;
  }
}

Forms Pieces::build(std::int64_t b) const {
  Forms forms;
  forms.boundary = boundary_.fixed + boundary_.per_sample * b;
  for (std::size_t kind = 0; kind < probes_.size(); ++kind)
    for (std::size_t i = 0; i < kPieces; ++i) {
      std::int64_t net = 0, peak = 0;
      for (const Change& c : probes_[kind].changes[i])
        peak = std::max(peak, net += c.fixed + c.per_sample * b);
      forms.live[slot_of(static_cast<Piece>(i), kind)] = {net, peak};
    }
  for (const cost::Machine* machine : machines_) {
    Forms::Kernels& kernels = forms.kernels.emplace_back();
    for (std::size_t kind = 0; kind < probes_.size(); ++kind)
      add_kernels(*machine, b, kind, kernels);
    const core::Seconds copy = cost::memory_time(core::Bytes(2 * forms.boundary), *machine);
    forms.landing.push_back(core::to_picoseconds(copy + machine->launch).value());
    forms.message.push_back(message_time(forms.boundary, *machine));
    core::Bytes most = machine->attention_room.always;
    for (const Probe& p : probes_)
      most = std::max(most, cost::workspace_of(p.program.classes.front().operators, b,
                                               machine->attention_room));
    forms.attention.push_back((most - machine->attention_room.always).value());
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
