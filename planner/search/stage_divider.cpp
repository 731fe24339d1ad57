#include "planner/search/stage_divider.hpp"

#include <algorithm>
#include <string_view>

#include "core/check.hpp"
#include "planner/evaluate/communicators.hpp"
#include "planner/evaluate/memory.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/lowering/rescale.hpp"
#include "planner/question/quantization.hpp"
#include "planner/strategy/schedules.hpp"
#include "sim/cost/action.hpp"
#include "sim/cost/kernel.hpp"
#include "sim/program/footprint.hpp"

namespace planner {
namespace {

using program::Call;
using program::RankClass;

constexpr std::int64_t kTokens = 1024;  // of a micro-batch whose layers stand for larger ones

// How many micro-batches a probe needs. With expert_overlap, the kernels of one micro-batch hide
// the exchanges of the next, and only those of the first are not hidden.
std::int64_t hidden_beside(const Strategy& s) { return s.expert_overlap ? s.grad_accum : 1; }

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

// Of several kinds of layers that follow each other in runs: two layers of each kind stand for all
// of them.
StageCosts costs_of_kinds(const Question& q, const models::ModelGraph& graph, const Strategy& s,
                          std::int64_t micro_batch, std::span<StageProbe> probes) {
  StageCosts costs;
  std::vector<StageLoad> layers;
  std::vector<std::int64_t> forward;
  for (std::size_t kind = 0; kind < graph.templates.size(); ++kind) {
    const program::Program& p =
        probes[kind].at(q, graph, s, micro_batch, 2, static_cast<int>(kind));
    StageCosts of = costs_of_probe(q, graph, p, micro_batch);
    layers.push_back(of.loads.layers.back());
    forward.push_back(of.forward.back());
    of.loads.working = std::max(of.loads.working, costs.loads.working);
    costs = std::move(of);
  }
  costs.loads.layers.clear();
  costs.forward.clear();
  for (const int kind : graph.layer_template) {
    costs.loads.layers.push_back(layers[static_cast<std::size_t>(kind)]);
    costs.forward.push_back(forward[static_cast<std::size_t>(kind)]);
  }
  return costs;
}

StageCosts costs_of(const Question& q, const models::ModelGraph& graph, const Strategy& s,
                    std::int64_t micro_batch, std::vector<StageProbe>& probes) {
  probes.resize(graph.templates.size());
  const bool varies = StageDivider::varies(graph);
  const auto all = std::ssize(graph.layer_template);
  const auto of_first = [&](std::int64_t layers) {
    return costs_of_probe(q, graph, probes.front().at(q, graph, s, micro_batch, layers),
                          micro_batch);
  };
  // Two layers stand for any number of equal ones.
  StageCosts costs = !varies ? of_first(std::min<std::ptrdiff_t>(all, 2))
                     : models::is_transformer(graph.spec.family) && all > 2
                         ? costs_of_kinds(q, graph, s, micro_batch, probes)
                         : of_first(all);
  std::vector<HeldParameters> of_template;
  for (const models::Segment& layer : graph.templates) of_template.push_back(held(q, layer));
  for (const int t : graph.layer_template) {
    if (!varies && !costs.layers.empty()) break;
    costs.layers.push_back(of_template[static_cast<std::size_t>(t)]);
  }
  if (!varies) {
    costs.loads.layers = {costs.loads.layers.back()};
    costs.loads.repeat = std::ssize(graph.layer_template);
    costs.forward = {costs.forward.back()};
  }
  return costs;
}

// every_k keeps each k-th layer's input and runs the layers between again, k at a time, or one
// layer in k alone, and first_k some layers of each chunk: each layer its mean share. memory_poor
// keeps nothing and runs them ever again: its proportions are those of every_k.
StageLoads recomputed(const StageCosts& costs, const Strategy& s, const stage::Policy& policy) {
  StageLoads loads = costs.loads;
  const std::int64_t chunks = s.pipeline * s.virtual_stages;
  const std::int64_t chunk = std::max<std::int64_t>(1, loads.count() / chunks);
  const auto [again, every, together] = stage::layers_again(policy, s, chunk);
  if (again == 0) return loads;
  const std::int64_t kept = every - again;
  std::int64_t most = 0;
  for (std::size_t l = 0; l < loads.layers.size(); ++l) {
    most = std::max(most, loads.layers[l].kept);
    loads.layers[l].time += costs.forward[l] * again / every;
    loads.layers[l].kept = (costs.boundary + kept * loads.layers[l].kept) / every;
  }
  loads.working += together * most;
  return loads;
}

// Equal layers: all stages between the first and the last as the second, which keeps the most.
StageLimits limits_of(const Question& q, const Strategy& s, bool equal) {
  StageLimits limits;
  limits.stages = s.pipeline;
  program::GroupSet groups;
  for (const program::Group g : {program::Group::tensor, program::Group::data,
                                 program::Group::next, program::Group::previous})
    groups.add(g);
  limits.bytes = (q.profile.gpu.usable - overhead_bytes(mesh_of(s), groups, q.profile)).value();
  limits.in_flight.assign(static_cast<std::size_t>(s.pipeline), 1);
  if (q.job.mode == Mode::inference) return limits;
  const auto set = [&](std::int64_t r) {
    limits.in_flight[static_cast<std::size_t>(r)] =
        schedule_of(s, static_cast<int>(r), s.grad_accum).in_flight();
  };
  if (!equal || s.pipeline < 4) {
    for (std::int64_t r = 0; r < s.pipeline; ++r) set(r);
    return limits;
  }
  set(1);
  std::ranges::fill(limits.in_flight, limits.in_flight[1]);
  set(0);
  set(s.pipeline - 1);
  return limits;
}

// From `from` samples of a micro-batch to `to`.
void scale(StageLoads& loads, std::int64_t from, std::int64_t to) {
  if (from == to) return;
  const auto scaled = [&](std::int64_t& bytes) { bytes = bytes / from * to; };
  scaled(loads.embeddings.kept);
  scaled(loads.head.kept);
  scaled(loads.head.state);
  scaled(loads.working);
  for (StageLoad& layer : loads.layers) scaled(layer.kept);
}

}  // namespace

const program::Program& StageProbe::at(const Question& q, const models::ModelGraph& graph,
                                       const Strategy& s, std::int64_t micro_batch,
                                       std::int64_t layers, std::optional<int> kind) {
  const Strategy one = probe_strategy(s, micro_batch, layers);
  if (program_ && rescale(*program_, one)) return *program_;
  Job job = q.job;
  job.global_batch = micro_batch * one.data * one.grad_accum;
  if (!kind) return program_.emplace(lower(graph, job, one, {}));  // of its layers alone
  models::ModelGraph alike = graph;
  std::ranges::fill(alike.layer_template, *kind);
  return program_.emplace(lower(alike, job, one, {}));
}

StageDivider::StageDivider(const Question& question) : question_(&question) {
  const auto recipe = resolve_recipe(question.job.recipe, question.job.precision);
  if (!recipe) return;  // refused elsewhere, before stages are asked for
  const auto bytes = [](core::DType type) { return core::bits(type) / 8.0; };
  weight_ = bytes(recipe->weight);
  compute_ = bytes(recipe->compute);
  if (question.job.mode == Mode::inference) return;
  gradient_ = bytes(recipe->gradient);
  const Optimizer& o = optimizer(question.job.optimizer);
  slots_ = (recipe->has_master ? bytes(recipe->master) : 0.0) +
           o.first_moments * (o.quantised ? 1.0 : bytes(recipe->first_moment)) +
           o.second_moments * (o.quantised ? 1.0 : bytes(recipe->second_moment));
}

// Ranks that divide the update of a parameter.
static std::int64_t update_parts(const Strategy& s) {
  return s.sharding == Sharding::none ? 1 : s.shard_group;
}

// What parameters hold on one rank, as the sharding divides it.
void StageDivider::add_state(const StageCosts& costs, const Strategy& s, StageLoads& loads) const {
  const auto group = static_cast<double>(update_parts(s));
  const double weights = stage::shards_weights(s) ? group : 1.0;
  const double gradients = s.sharding >= Sharding::zero2 ? group : 1.0;
  double whole = 0, divided = 0;       // bytes of an element: on each rank; over the group
  for (const auto& [bytes, ranks] : {std::pair{weight_, weights}, {gradient_, gradients},
                                     {slots_, group}})
    (ranks > 1 ? divided : whole) += bytes / ranks;
  // Nothing trains at inference: weights are as stored.
  const double frozen =
      (question_->job.mode == Mode::inference ? weight_ : compute_) / weights;
  const auto bytes = [&](const HeldParameters& p) {
    return static_cast<std::int64_t>(p.trained * whole + p.divisible * divided +
                                     p.frozen * frozen + p.codes / weights);
  };
  for (std::size_t l = 0; l < loads.layers.size(); ++l)
    loads.layers[l].state = bytes(costs.layers[l]);
  loads.embeddings.state += bytes(costs.embeddings);
  loads.head.state += bytes(costs.head);
}

// The optimizer reads and writes weights and slots and reads gradients, each rank its share.
void StageDivider::add_update(const StageCosts& costs, const Strategy& s,
                              StageLoads& loads) const {
  const auto group = static_cast<double>(update_parts(s));
  const double moved = (2 * weight_ + gradient_ + 2 * slots_) / group;
  const auto add = [&](StageLoad& load, const HeldParameters& p) {
    const core::Bytes bytes(static_cast<std::int64_t>(p.trained * moved));
    load.time = load.time * s.grad_accum +
                core::to_picoseconds(cost::memory_time(bytes, question_->machine)).value();
  };
  for (std::size_t l = 0; l < loads.layers.size(); ++l) add(loads.layers[l], costs.layers[l]);
  add(loads.embeddings, costs.embeddings);
  add(loads.head, costs.head);
}

// The ranks of a V hold layers from both sides of the model, and the first one both of its ends:
// its layers are divided over ranks, those of a rank in two, the later half the smaller. Empty: a
// rank would have an empty half.
static std::vector<std::int64_t> folded(StageLoads loads, std::int64_t ranks) {
  loads.embeddings.time += loads.head.time;
  loads.head = {};
  const auto held = divide(loads, StageLimits{.stages = ranks});
  std::vector<std::int64_t> stages;
  for (const std::int64_t n : *held) stages.push_back((n + 1) / 2);
  for (std::size_t r = held->size(); r-- > 0;) stages.push_back((*held)[r] / 2);
  const bool whole =
      std::ranges::all_of(stages.begin(), stages.end() - 1, [](auto n) { return n > 0; });
  return whole ? stages : std::vector<std::int64_t>{};
}

std::vector<std::int64_t> StageDivider::stages(const Strategy& s,
                                               const models::ModelGraph& graph) {
  const bool equal = !varies(graph);
  // Layers that are alike keep their proportions from about so many tokens on.
  const std::int64_t tokens = question_->job.seq_len, few = (kTokens + tokens - 1) / tokens;
  const std::int64_t samples = equal ? std::max(s.micro_batch, few) : s.micro_batch;
  const CostsKey key{&graph,        within_layer(s),   samples,
                     s.loss_chunks, s.expert_dispatch, hidden_beside(s)};
  CostsKey at_any = key;
  std::get<2>(at_any) = 0;
  auto known = costs_.find(key);
  if (known == costs_.end())
    known = costs_.emplace(key, costs_of(*question_, graph, s, samples, probes_[at_any])).first;
  StageLoads loads = recomputed(known->second, s, policy_of(*question_));
  if (!equal && question_->job.mode != Mode::inference) add_update(known->second, s, loads);
  if (in_v(s.schedule)) return folded(std::move(loads), s.pipeline);
  // Of unequal layers the update counts, which follows the step's micro-batches and the sharding.
  const FastestKey kept{key, s.checkpoint, s.checkpoint_every, s.pipeline, s.virtual_stages,
                        equal ? 0 : s.grad_accum, equal ? 0 : update_parts(s)};
  std::vector<std::int64_t>& fastest = fastest_[kept];
  if (fastest.empty()) fastest = *divide(loads, StageLimits{.stages = s.pipeline});
  scale(loads, samples, s.micro_batch);
  add_state(known->second, s, loads);
  const StageLimits limits = limits_of(*question_, s, equal);
  if (fits(loads, limits, fastest)) return fastest;
  return divide(loads, limits).value_or(fastest);
}

}  // namespace planner
