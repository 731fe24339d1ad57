#include "planner/search/stage_costs.hpp"

#include <algorithm>
#include <span>
#include <string_view>

#include "planner/evaluate/memory.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/lowering/rescale.hpp"
#include "planner/question/quantization.hpp"
#include "sim/cost/action.hpp"
#include "sim/program/footprint.hpp"

namespace planner {
namespace {

using program::Call;
using program::RankClass;

// The first layers of the model on one rank (of a group that exchanges rows), one micro-batch.
Strategy probe_strategy(const Strategy& s, std::int64_t micro_batch, std::int64_t layers) {
  Strategy one;
  one.tensor = s.tensor;
  one.sequence_parallel = s.sequence_parallel;
  one.expert = s.expert;
  one.expert_tensor = s.expert_tensor;
  one.expert_dispatch = s.expert_dispatch;
  one.expert_overlap = s.expert_overlap;
  one.grad_accum = hidden_beside(s);
  one.data = s.expert_data_ranks();
  one.overlap = false;
  one.micro_batch = micro_batch;
  one.grad_sync = GradSync::ring;
  one.loss_chunks = s.loss_chunks;
  one.stages = {layers};
  if (drops_within_layers(s.checkpoint)) one.checkpoint = s.checkpoint;
  one.recompute_modules = within_layer(s).modules;
  return one;
}

// What the calls of a class cost, by the part of the model that they belong to.
class Reader {
 public:
  Reader(const program::Program& p, const cost::Machine& machine)
      : class_(p.classes.front()), cost_(p, class_, machine),
        changes_(program::block_changes(class_)), times_(class_.blocks.size(), -1) {}

  void read(const program::Routine& routine, bool forward, StageCosts& costs) {
    StageLoads& loads = costs.loads;
    for (const Call& call : routine) {
      const std::string_view block = class_.blocks[call.block].name;
      if (block == "materialise" || block == "release") continue;
      const bool head = block.starts_with("epilogue"), front = block.starts_with("prologue");
      const bool experts = call.layer >= loads.layers.size() &&
                           call.layer < class_.layer_offset.size();
      const std::size_t own = experts ? call.layer - loads.layers.size() : call.layer;
      const std::size_t l = std::min(own, loads.layers.size() - 1);
      StageLoad& load = front ? loads.embeddings : head ? loads.head : loads.layers[l];
      const auto [net, peak] = bytes(call);
      load.time += time(call);
      if (forward) load.kept += net;
      if (forward && !front && !head) costs.forward[l] += time(call);
      if (head) load.state += peak;    // logits and what they need, at the last stage alone
      else loads.working = std::max(loads.working, peak);
    }
  }

 private:
  std::int64_t time(const Call& call) {
    std::int64_t& known = times_[call.block];
    if (known >= 0) return known;
    known = 0;
    const program::Block& block = class_.blocks[call.block];
    for (std::uint32_t i = block.first; i < block.last; ++i)
      known += cost_(class_.actions[i], call).value();
    return known;
  }

  std::pair<std::int64_t, std::int64_t> bytes(const Call& call) const {
    std::int64_t net = 0, peak = 0;
    for (const program::Change& c : changes_.blocks[call.block].changes) {
      const program::Buffer& b = class_.buffers[c.view.buffer];
      const std::int64_t n = b.instance_bytes(program::layer_index(c.view, call)).value();
      net += c.is_alloc ? n : -n;
      peak = std::max(peak, net);
    }
    return {net, peak};
  }

  const RankClass& class_;
  const cost::ActionCost cost_;
  const program::BlockChanges changes_;
  std::vector<std::int64_t> times_;    // by block: layers that share one cost the same
};

HeldParameters held(const Question& q, const models::Segment& segment) {
  const auto kind = quantization_from_name(q.job.quantization).value_or(Quantization::none);
  HeldParameters sum;
  for (const models::Parameter& p : segment.parameters) {
    if (is_quantised(kind, p.trainable, p.shape))
      sum.codes += static_cast<double>(quantised_bytes(kind, p.shape).value());
    else
      (p.trainable ? sum.trained : sum.frozen) += static_cast<double>(p.elements);
    if (p.trainable) sum.divisible += static_cast<double>(p.elements * p.expert_ways);
  }
  return sum;
}

// As the probe was lowered.
StageCosts costs_of_probe(const Question& q, const models::ModelGraph& graph,
                          const program::Program& p, std::int64_t micro_batch) {
  const RankClass& k = p.classes.front();
  StageCosts costs;
  costs.loads.layers.resize(static_cast<std::size_t>(k.layers));
  costs.forward.resize(costs.loads.layers.size());
  Reader reader(p, q.machine);
  reader.read(k.forward, true, costs);
  reader.read(k.last_backward, false, costs);
  for (int l = 0; l <= k.layers; ++l)
    costs.boundary = std::max(costs.boundary,
                              core::bytes_of(graph.boundary_elements(l) * micro_batch,
                                             resolve_recipe(q.job.recipe, q.job.precision)
                                                 ->activation).value());
  costs.embeddings = held(q, graph.prologue);
  costs.head = held(q, graph.epilogue);
  return costs;
}

std::vector<HeldParameters> held_by_template(const Question& q, const models::ModelGraph& graph) {
  std::vector<HeldParameters> all;
  for (const models::Segment& layer : graph.templates) all.push_back(held(q, layer));
  return all;
}

// Of several kinds of layers that follow each other in runs: two layers of each kind stand for all
// of them.
StageCosts costs_of_kinds(const Question& q, const models::ModelGraph& graph, const Strategy& s,
                          std::int64_t micro_batch, std::span<StageProbe> probes) {
  StageCosts costs;
  std::vector<StageLoad> layers;
  std::vector<std::int64_t> forward;
  for (std::size_t kind = 0; kind < graph.templates.size(); ++kind) {
    const program::Program& p =
        probes[kind].at(q, graph, s, micro_batch, 2, LayerProbe{static_cast<int>(kind)});
    StageCosts of = costs_of_probe(q, graph, p, micro_batch);
    layers.push_back(of.loads.layers.back());
    forward.push_back(of.forward.back());
    of.loads.working = std::max(of.loads.working, costs.loads.working);
    costs = std::move(of);
  }
  costs.loads.layers = std::move(layers);
  costs.forward = std::move(forward);
  return costs;
}

}  // namespace

std::int64_t hidden_beside(const Strategy& s) { return s.expert_overlap ? s.grad_accum : 1; }

const program::Program& StageProbe::at(const Question& q, const models::ModelGraph& graph,
                                       const Strategy& s, std::int64_t micro_batch,
                                       std::int64_t layers, std::optional<LayerProbe> probe) {
  const Strategy one = probe_strategy(s, micro_batch, layers);
  if (program_ && rescale(*program_, one)) return *program_;
  Job job = q.job;
  job.global_batch = micro_batch * one.data * one.grad_accum;
  const stage::Policy policy = stage::policy_of(q.job, q.profile.framework);
  return program_.emplace(lower(graph, job, one, stage::of_operators(policy), probe));
}

StageCosts costs_of_pieces(const Question& q, const models::ModelGraph& graph,
                           const closed_form::Forms& forms) {
  using stage::Piece;
  const auto slot = [](Piece piece, std::size_t kind = 0) {
    return closed_form::slot_of(piece, kind);
  };
  const auto& times = forms.kernels.front().whole;
  StageCosts costs;
  StageLoads& loads = costs.loads;
  const std::int64_t library = forms.attention.front();
  const auto works = [&](std::size_t at) {
    loads.working = std::max(loads.working, forms.live[at].peak + library);
    return times[at];
  };
  for (std::size_t kind = 0; kind < graph.templates.size(); ++kind) {
    const std::size_t forward = slot(Piece::layer_keep, kind);
    costs.forward.push_back(works(forward));
    loads.layers.push_back({.time = costs.forward.back() + works(slot(Piece::backward, kind)),
                            .kept = forms.live[forward].net});
  }
  const std::size_t prologue = slot(Piece::prologue), epilogue = slot(Piece::epilogue);
  loads.embeddings.time = works(prologue) + works(slot(Piece::prologue_backward));
  loads.embeddings.kept = forms.live[prologue].net;
  loads.head.time = times[epilogue];
  loads.head.state = forms.live[epilogue].peak;  // logits and what they need, there alone
  costs.boundary = forms.boundary;
  costs.layers = held_by_template(q, graph);
  costs.embeddings = held(q, graph.prologue);
  costs.head = held(q, graph.epilogue);
  if (graph.templates.size() > 1) costs.entries = graph.layer_template;
  else loads.repeat = std::ssize(graph.layer_template);
  return costs;
}

StageCosts costs_of(const Question& q, const models::ModelGraph& graph, const Strategy& s,
                    std::int64_t micro_batch, std::vector<StageProbe>& probes) {
  probes.resize(graph.templates.size());
  const bool varies = graph.templates.size() > 1;
  const auto all = std::ssize(graph.layer_template);
  const auto of_first = [&](std::int64_t layers) {
    return costs_of_probe(q, graph, probes.front().at(q, graph, s, micro_batch, layers),
                          micro_batch);
  };
  // Two layers stand for any number of equal ones.
  const bool by_kind = varies && models::is_transformer(graph.spec.family) && all > 2;
  StageCosts costs = !varies    ? of_first(std::min<std::ptrdiff_t>(all, 2))
                     : by_kind ? costs_of_kinds(q, graph, s, micro_batch, probes)
                               : of_first(all);
  std::vector<HeldParameters> of_template = held_by_template(q, graph);
  if (by_kind) {
    costs.layers = std::move(of_template);
    costs.entries = graph.layer_template;
    return costs;
  }
  for (const int t : graph.layer_template) {
    if (varies) costs.entries.push_back(static_cast<int>(std::ssize(costs.layers)));
    costs.layers.push_back(of_template[static_cast<std::size_t>(t)]);
    if (!varies) break;
  }
  if (!varies) {
    costs.loads.layers = {costs.loads.layers.back()};
    costs.loads.repeat = std::ssize(graph.layer_template);
    costs.forward = {costs.forward.back()};
  }
  return costs;
}

}  // namespace planner
