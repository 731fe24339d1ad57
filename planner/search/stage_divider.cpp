#include "planner/search/stage_divider.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "hw_profiles/mixed.hpp"
#include "planner/evaluate/communicators.hpp"
#include "planner/evaluate/stage_kinds.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"
#include "sim/cost/kernel.hpp"
#include "sim/cost/mixed.hpp"

namespace planner {
namespace {

constexpr std::int64_t kTokens = 1024;  // of a micro-batch whose layers stand for larger ones

// every_k keeps each k-th layer's input and runs the layers between again, k at a time, or one
// layer in k alone, and first_k some layers of each chunk: each layer its mean share. memory_poor
// keeps nothing and runs them ever again: its proportions are those of every_k.
StageLoads recomputed(const StageCosts& costs, const Strategy& s, const stage::Policy& policy) {
  StageLoads loads = costs.loads;
  if (!costs.entries.empty()) loads.entries = &costs.entries;
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

// What a GPU of the profile has for a stage.
std::int64_t bytes_for_stage(const hw_profiles::Profile& profile, const Strategy& s) {
  program::GroupSet groups;
  for (const program::Group g : {program::Group::tensor, program::Group::data,
                                 program::Group::next, program::Group::previous})
    groups.add(g);
  return (profile.gpu.usable - overhead_bytes(mesh_of(s), groups, profile)).value();
}

// Micro-batches that each stage keeps at once. Equal layers: all stages between the first and the
// last as the second, which keeps the most.
std::vector<std::int64_t> in_flight_of(const Strategy& s, bool equal) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(s.pipeline), 1);
  const auto set = [&](std::int64_t r) {
    all[static_cast<std::size_t>(r)] =
        schedule_of(s, static_cast<int>(r), s.grad_accum).in_flight();
  };
  if (!equal || s.pipeline < 4) {
    for (std::int64_t r = 0; r < s.pipeline; ++r) set(r);
    return all;
  }
  set(1);
  std::ranges::fill(all, all[1]);
  set(0);
  set(s.pipeline - 1);
  return all;
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

StageDivider::StageDivider(const Question& question, closed_form::Evaluator& evaluator)
    : question_(&question), evaluator_(&evaluator) {
  for (std::size_t k = 0; question.machine.mixed && k < question.machine.mixed->kinds.size(); ++k) {
    Question& of_kind = kinds_.emplace_back(question);
    of_kind.machine = question.machine.mixed->kinds[k];
    of_kind.profile = hw_profiles::profile_of_kind(question.profile, k);
  }
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

StageLimits StageDivider::limits_of(const Strategy& s, bool equal) {
  const Degrees degrees{s.tensor,        s.data,     s.context,     s.expert,  s.split,
                        s.expert_tensor, s.pipeline, s.shard_group, s.separate_servers(),
                        s.mesh_order};
  if (degrees_ != degrees) {
    degrees_ = degrees;
    bytes_ = bytes_for_stage(question_->profile, s);
  }
  StageLimits limits{.stages = s.pipeline, .bytes = bytes_};
  if (question_->job.mode == Mode::inference) return limits;
  std::vector<std::int64_t>& in_flight =
      in_flight_[{s.schedule, s.pipeline, s.virtual_stages, s.grad_accum}];
  if (in_flight.empty()) in_flight = in_flight_of(s, equal);
  limits.in_flight = in_flight;
  return limits;
}

// Ranks that divide the update of a parameter.
static std::int64_t update_parts(const Strategy& s) {
  return s.sharding == Sharding::none ? 1 : s.shard_group;
}

// Ranks that divide the casts of weights for a micro-batch; 0: nothing is cast.
static std::int64_t cast_parts(const Strategy& s, double weight, double compute) {
  if (weight == compute) return 0;
  return stage::shards_weights(s) ? s.shard_group : 1;
}

// Weights are cast for each use: of a layer by both passes.
void StageDivider::add_casts(const StageCosts& costs, const Strategy& s,
                             StageLoads& loads) const {
  const std::int64_t parts = cast_parts(s, weight_, compute_);
  if (parts == 0) return;
  const double moved = (weight_ + compute_) / static_cast<double>(parts);
  const auto add = [&](StageLoad& load, const HeldParameters& p, std::int64_t uses) {
    const core::Bytes bytes(static_cast<std::int64_t>(p.trained * moved));
    load.time += uses * core::to_picoseconds(cost::memory_time(bytes, question_->machine)).value();
  };
  for (std::size_t l = 0; l < loads.layers.size(); ++l) add(loads.layers[l], costs.layers[l], 2);
  add(loads.embeddings, costs.embeddings, 1);
  add(loads.head, costs.head, 1);
}

// What parameters hold on one rank, as the sharding divides it, and the copies of the largest layer
// that are used or come next.
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
  if (!stage::shards_weights(s) && weight_ == compute_) return;
  double largest = 0;
  for (const HeldParameters& p : costs.layers)
    largest = std::max(largest, p.trained * compute_ +
                                    (stage::shards_weights(s) ? p.frozen * compute_ + p.codes : 0));
  loads.working += static_cast<std::int64_t>(largest * (stage::gathers_ahead(s) ? 2 : 1));
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

std::vector<StagePace> StageDivider::paces(const CostsKey& key, const Strategy& s,
                                           const models::ModelGraph& graph) {
  std::vector<double>& slowness = slowness_[key];
  for (std::size_t k = slowness.size(); k < kinds_.size(); ++k) {
    std::vector<StageProbe> probes;
    const StageCosts costs = costs_of(kinds_[k], graph, s, std::get<2>(key), probes);
    double time = 0;
    StageLoads loads = costs.loads;
    if (!costs.entries.empty()) loads.entries = &costs.entries;
    for (std::int64_t l = 0; l < std::max<std::int64_t>(1, loads.count() / loads.repeat); ++l)
      time += static_cast<double>(loads.layer(static_cast<std::size_t>(l)).time);
    slowness.push_back(time);
  }
  std::vector<StagePace> all;
  for (std::int64_t r = 0; r < s.pipeline; ++r) {
    const std::size_t kind = kinds_of_stage(*question_, s, r).slowest;
    all.push_back({slowness[kind] / slowness.front(), bytes_for_stage(kinds_[kind].profile, s)});
  }
  return all;
}

// Of GPUs of several kinds, pieces are priced by kind.
StageCosts StageDivider::costs(const Strategy& s, const models::ModelGraph& graph,
                               const CostsKey& key) {
  const std::int64_t samples = std::get<2>(key);
  if (kinds_.empty()) {
    Strategy whole = resolve(question_->model, question_->job, s);
    if (splits_backward(s.schedule)) whole.schedule = Schedule::one_f_one_b;
    if (const closed_form::Forms* forms = evaluator_->forms(whole, graph, samples))
      return costs_of_pieces(*question_, graph, *forms);
  }
  CostsKey at_any = key;
  std::get<2>(at_any) = 0;
  return costs_of(*question_, graph, s, samples, probes_[at_any]);
}

std::vector<std::int64_t> StageDivider::stages(const Strategy& s,
                                               const models::ModelGraph& graph) {
  const bool equal = graph.templates.size() == 1;
  // Layers that are alike keep their proportions from about so many tokens on.
  const std::int64_t tokens = question_->job.seq_len, few = (kTokens + tokens - 1) / tokens;
  const std::int64_t samples = equal ? std::max(s.micro_batch, few) : s.micro_batch;
  const CostsKey key{&graph,        within_layer(s),   samples,
                     s.loss_chunks, s.expert_dispatch, hidden_beside(s)};
  auto known = costs_.find(key);
  if (known == costs_.end()) known = costs_.emplace(key, costs(s, graph, key)).first;
  StageLoads loads = recomputed(known->second, s, policy_of(*question_));
  add_casts(known->second, s, loads);
  if (!equal && question_->job.mode != Mode::inference) add_update(known->second, s, loads);
  if (in_v(s.schedule)) return folded(std::move(loads), s.pipeline);
  // Of unequal layers the update counts, which follows the step's micro-batches and the sharding.
  if (!kinds_.empty()) {
    scale(loads, samples, s.micro_batch);
    add_state(known->second, s, loads);
    StageLimits limits = limits_of(s, false);
    limits.paces = paces(key, s, graph);
    if (auto within = divide(loads, limits)) return *within;
    for (StagePace& pace : limits.paces) pace.bytes = INT64_MAX;
    return *divide(loads, limits);
  }
  const FastestKey kept{key, s.checkpoint, s.checkpoint_every, s.pipeline, s.virtual_stages,
                        equal ? 0 : s.grad_accum,
                        equal ? cast_parts(s, weight_, compute_) : update_parts(s)};
  std::vector<std::int64_t>& fastest = fastest_[kept];
  if (fastest.empty()) {
    std::vector<std::int64_t>& latest = latest_[s.pipeline];
    fastest = *divide(loads, StageLimits{.stages = s.pipeline,
                                         .known = latest.empty() ? nullptr : &latest});
    latest = fastest;
  }
  scale(loads, samples, s.micro_batch);
  add_state(known->second, s, loads);
  return divide(loads, limits_of(s, equal), &fastest).value_or(fastest);
}

}  // namespace planner
