#include "planner/evaluate/closed_form/stage_form.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"
#include "sim/cost/kernel.hpp"

namespace planner::closed_form {
namespace {

using program::Algorithm;
using program::Collective;

std::int64_t bytes(std::int64_t elements, core::DType type) {
  return core::bytes_of(elements, type).value();
}

// A kernel that moves these bytes once.
std::int64_t moving(std::int64_t bytes, const cost::Machine& machine) {
  return core::to_picoseconds(cost::memory_time(core::Bytes(bytes), machine) + machine.launch)
      .value();
}

}  // namespace

StageForm::StageForm(const Structure& structure, const Pieces& pieces, std::vector<Chunk> chunks,
                     Shared& shared, std::int64_t versions)
    : s_(&structure), chunks_(std::move(chunks)), versions_(versions) {
  for (const Chunk& c : chunks_) {
    first_ |= c.first;
    last_ |= c.last;
    layers_ += c.layers;
    equal_ &= c.layers == chunks_.front().layers && c.before == chunks_.front().before;
  }
  PLANNER_CHECK(structure.machines.size() <= kMachines);
  const Strategy& s = *structure.strategy;
  // Where the logits are small, the other ranks' bounds count: they must be exact. So they must
  // where the first chunk keeps more than others do: what a norm of the embeddings reads.
  equal_ &= s.loss_chunks == 1 && !(first_ && pieces.prologue_reads);
  const Recipe& r = structure.recipe;
  communicates_ = s.data * s.context > 1;
  copies_ = stage::materialises(r, s);
  ahead_ = stage::gathers_ahead(s);
  units_reduce_ = stage::shards_gradients(s);
  staged_ = communicates_ && stage::reduce_type(*structure.job, r) != r.gradient;
  embeddings_train_ = pieces.prologue_trains;
  split_ = splits_backward(s.schedule);
  offloads_ = s.offloads("optimizer");
  one_in_k_ = structure.policy.one_in_k;
  keeps_root_ = stage::keeps_root(structure.policy, s);
  tail_reads_ = pieces.prologue_reads && embeddings_train_ && !keeps_root_;
  make_units(pieces.units);
  make_spans(pieces);
  sum_persistent(pieces.units);
  time_end();
  time_waits();
  make_runs(shared);
  count_groups();
}

void StageForm::make_runs(Shared& shared) {
  for (const Chunk& c : chunks_) {
    if (runs_.empty() || !(c == runs_.back().chunk)) runs_.push_back({c, shared.kind_of(c)});
    ++runs_.back().count;
    sent_ += !c.first + !c.last;
  }
}

void StageForm::add_trained(Unit& unit, std::int64_t n, bool experts) {
  const Strategy& s = *s_->strategy;
  const Recipe& r = s_->recipe;
  if (n == 0) return;
  const core::DType wire = stage::reduce_type(*s_->job, r);
  unit.weights += copies_ ? bytes(n, r.compute) : 0;
  unit.gradient += units_reduce_ ? bytes(n, r.gradient) : 0;
  unit.staging += staged_ && units_reduce_ ? bytes(n, wire) : 0;
  const std::int64_t k = parts(experts), shard = program::padded(n, k) / k;
  const std::vector<cost::Place>& places = sharers(experts);
  for (std::size_t i = 0; i < s_->machines.size(); ++i) {
    const cost::Machine& m = *s_->machines[i];
    const bool gathers = stage::shards_weights(s);
    const std::int64_t cast_elements = gathers ? shard : n;
    if (r.weight != r.compute)
      unit.cast[i] += moving(bytes(cast_elements, r.weight) + bytes(cast_elements, r.compute), m);
    if (gathers)
      unit.gather[i] += (*s_->transfers)(Collective::all_gather, Algorithm::ring, places[i], n,
                                         r.compute, m);
    std::int64_t reduce = 0;
    if (units_reduce_) {
      reduce = (*s_->transfers)(Collective::reduce_scatter, Algorithm::ring, places[i], n, wire,
                                m) +
               moving(bytes(shard, wire) + 2 * bytes(shard, r.gradient), m);
      if (staged_) reduce += moving(bytes(n, r.gradient) + bytes(n, wire), m);
    }
    unit.reduce[i] += reduce;
    if (units_reduce_ && s_->replicas[i].size > 1)
      unit.replica[i] += (*s_->transfers)(Collective::all_reduce, Algorithm::ring, s_->replicas[i],
                                         shard, r.gradient, m);
  }
}

void StageForm::make_units(const UnitElements& u) {
  layer_.elements = u.layer;
  final_.elements = last_ ? u.final : 0;
  tied_.elements = first_ || last_ ? u.tied : 0;
  embeddings_.elements = first_ ? u.embeddings : 0;
  experts_ = u.experts;
  for (Unit* unit : {&layer_, &final_, &tied_, &embeddings_})
    add_trained(*unit, unit->elements, false);
  add_trained(layer_, experts_, true);
  trained_ = layers_ * (layer_.elements + experts_) + final_.elements + tied_.elements +
             embeddings_.elements;
  add_partial(layer_, u.partial_layer);
  add_partial(final_, u.partial_final);
  add_partial(tied_, 0);
  add_partial(embeddings_, u.partial_embeddings);
  add_frozen(layer_, u.frozen_layer, u.quantised_layer);
  frozen_bytes_ *= layers_;
  if (last_) add_frozen(final_, u.frozen_epilogue, 0);
  if (first_ || last_) add_frozen(tied_, u.frozen_tied, 0);
  if (first_) add_frozen(embeddings_, u.frozen_prologue - u.frozen_tied, 0);
}

// Norms and biases of split rows, one side of adapters (StageLowering::partial_block).
void StageForm::add_partial(Unit& unit, std::int64_t n) {
  if (n == 0 || unit.elements == 0) return;
  for (std::size_t i = 0; i < s_->machines.size(); ++i)
    unit.partial[i] = (*s_->transfers)(Collective::all_reduce, Algorithm::ring, s_->tensor[i], n,
                               s_->recipe.gradient, *s_->machines[i]);
}

// Stored whole in the compute type, or as codes; under ZeRO-3 divided and gathered like the rest.
void StageForm::add_frozen(Unit& unit, std::int64_t n, std::int64_t codes) {
  const core::DType type = s_->recipe.compute;
  if (s_->strategy->sharding != Sharding::zero3) {
    frozen_bytes_ += bytes(n, type) + codes;
    return;
  }
  const std::int64_t k = parts();
  const std::int64_t whole = program::padded(n, k), whole_codes = program::padded(codes, k);
  frozen_bytes_ += bytes(whole / k, type) + whole_codes / k;
  unit.weights += bytes(whole, type) + whole_codes;
  for (std::size_t i = 0; i < s_->machines.size(); ++i)
    for (const auto& [elements, of] : {std::pair{whole, type}, {whole_codes, core::DType::u8}})
      if (elements > 0)
        unit.gather[i] += (*s_->transfers)(Collective::all_gather, Algorithm::ring,
                                           s_->gradients[i], elements, of, *s_->machines[i]);
}

void StageForm::sum_persistent(const UnitElements& units) {
  const Recipe& r = s_->recipe;
  const Optimizer& o = s_->optimizer;
  const Strategy& s = *s_->strategy;
  const stage::Policy& policy = s_->policy;
  const bool weight_shard = stage::shards_weights(s);
  persistent_ = versions_ * bytes(weight_shard ? shard_ : trained_, r.weight) + frozen_bytes_ +
                bytes(units_reduce_ ? shard_ : trained_, r.gradient);
  if (last_) persistent_ += bytes(1, core::DType::f64);  // the loss
  if (stage::keeps_whole_scales(policy, s))
    persistent_ += layers_ * (units.decoding_layer - units.decoding_layer / parts());
  if (policy.stand_ins) {
    const auto other = std::max({final_.elements, tied_.elements, embeddings_.elements});
    persistent_ +=
        bytes(stage::stand_in_elements(layer_.elements, experts_, other, last_), r.compute);
  }
  if (stage::keeps_wide_gradients(policy, s))
    persistent_ += bytes(trained_, core::DType::f32);
  persistent_ += bytes(stage::gradient_copies(policy, s) * trained_, r.weight);
  std::int64_t& home = offloads_ ? host_ : persistent_;
  if (r.has_master) home += bytes(shard_, r.master);
  const core::DType first = o.quantised ? core::DType::u8 : r.first_moment;
  const core::DType second = o.quantised ? core::DType::u8 : r.second_moment;
  home += o.first_moments * bytes(shard_, first) + o.second_moments * bytes(shard_, second);
  if (stage::copies_moments(policy, s, o)) update_copies_ = bytes(shard_, second);
  if (o.quantised)
    home += (o.first_moments + o.second_moments) * bytes(scales_, core::DType::f32);
  // What the host's update reads and writes (StageLowering::declare_offloaded).
  if (offloads_) host_ += bytes(shard_, r.weight) + bytes(shard_, r.gradient);
}

std::int64_t StageForm::update_time(std::int64_t n, std::int64_t parts, double rate,
                                    const cost::Machine& m) const {
  const Recipe& r = s_->recipe;
  std::int64_t time = core::to_picoseconds(m.launch).value() +
                      static_cast<std::int64_t>(rate * static_cast<double>(n));
  const std::int64_t shard = program::padded(n, parts) / parts;
  // An update without master copy starts from a copy of the version before.
  if (versions_ > 1 && !r.has_master) time += moving(2 * bytes(shard, r.weight), m);
  if (!offloads_) return time;
  const auto copy = [&](core::DType type) {
    return cost::host_copy_time(core::bytes_of(shard, type), m).value();
  };
  time += copy(r.gradient) + copy(r.weight);
  return r.has_master ? time : time + copy(r.weight);
}

// What happens once a step: gradients zeroed, buckets reduced, weights updated and gathered.
void StageForm::time_end() {
  const Strategy& s = *s_->strategy;
  const Recipe& r = s_->recipe;
  const Optimizer& o = s_->optimizer;
  const core::DType wire = stage::reduce_type(*s_->job, r);
  const std::int64_t gradients = bytes(units_reduce_ ? shard_ : trained_, r.gradient);
  const std::int64_t moments =
      o.quantised ? (o.first_moments + o.second_moments) * (shard_ + 4 * scales_)
                  : o.first_moments * bytes(shard_, r.first_moment) +
                        o.second_moments * bytes(shard_, r.second_moment);
  const std::int64_t moved = 2 * bytes(shard_, r.weight) + bytes(shard_, r.gradient) +
                             (r.has_master ? 2 * bytes(shard_, r.master) : 0) + 2 * moments;
  const bool scatter = s.sharding == Sharding::zero1;
  const bool gathers = stage::gathers_updates(s);
  for (std::size_t i = 0; i < s_->machines.size(); ++i) {
    const cost::Machine& m = *s_->machines[i];
    begin_[i] = trained_ > 0 ? moving(gradients, m) : 0;
    const core::Seconds moves = offloads_ ? core::Bytes(moved) / m.host_memory
                                          : cost::memory_time(core::Bytes(moved), m);
    const double rate = static_cast<double>(core::to_picoseconds(moves).value()) /
                        static_cast<double>(std::max<std::int64_t>(1, trained_));
    // Gathers follow updates on their own stream.
    std::int64_t update = trained_ > 0 ? core::to_picoseconds(m.host.update).value() : 0;
    std::int64_t gathered = 0;
    for_spans([&](const Spans& spans, bool experts) {
      const cost::Place& place = sharers(experts)[i];
      const bool travels = !experts || place.size > 1;
      std::int64_t all = 0, elements = 0;
      for (const auto& [n, count] : spans) {
        elements += count * n;
        if (communicates_ && !units_reduce_ && travels)
          all += count *
                 ((*s_->transfers)(scatter ? Collective::reduce_scatter : Collective::all_reduce,
                                   scatter ? Algorithm::ring : algorithm_of(s.grad_sync), place, n,
                                   wire, m) +
                  (staged_ ? 2 * moving(bytes(n, wire) + bytes(n, r.gradient), m) : 0));
        const std::int64_t one = update_time(n, parts(experts), rate, m);
        const std::int64_t first = update + one;
        update += count * one;
        if (!gathers || !travels) continue;
        const std::int64_t gather = (*s_->transfers)(Collective::all_gather, Algorithm::ring,
                                                     place, n, r.weight, m);
        gathered = std::max(std::max(gathered, first) + count * gather, update + gather);
      }
      reduce_all_[i] += all;
      double& per_element = (experts ? expert_rate_ : reduce_rate_)[i];
      if (elements > 0) per_element = static_cast<double>(all) / static_cast<double>(elements);
    });
    update = std::max(update, gathered);
    if (!units_reduce_)
      update += layers_ * layer_.partial[i] + final_.partial[i] + embeddings_.partial[i];
    const bool early = split_ && !communicates_;  // beside the last weight gradients
    if (tied_.elements > 0 && s.pipeline > 1)
      (early ? tied_early_[i] : update) +=
          (*s_->transfers)(Collective::all_reduce, Algorithm::ring, s_->embedding[i],
                           (tied_.elements + parts() - 1) / parts(), r.gradient, m);
    update_[i] = update;
  }
}

// What passes wait for, unit by unit.
void StageForm::time_waits() {
  // The root's copies, the final norm's and the tied table's among them, stay from pass to pass.
  for (std::size_t i = 0; i < s_->machines.size(); ++i) {
    const auto reads = [&](const Unit& u) { return u.cast[i] + (ahead_ ? 0 : u.gather[i]); };
    const auto gathers = [&](const Unit& u) { return ahead_ ? u.gather[i] : 0; };
    Waits& w = waits_[i];
    w.layer = reads(layer_);
    w.next = gathers(layer_);
    const std::int64_t final_reads = reads(final_), final_ahead = gathers(final_);
    w.prologue_reads = reads(embeddings_) + reads(tied_) + (keeps_root_ ? final_reads : 0);
    w.prologue_ahead = gathers(embeddings_) + gathers(tied_) + (keeps_root_ ? final_ahead : 0);
    w.epilogue_reads = keeps_root_ ? 0 : final_reads + reads(tied_);
    w.epilogue_ahead = keeps_root_ ? 0 : final_ahead + gathers(tied_);
    w.tail_reads = tail_reads_ ? reads(embeddings_) : 0;
    w.tail_ahead = tail_reads_ ? gathers(embeddings_) : 0;
    const auto share = [&](std::int64_t elements, double rate) {
      return static_cast<std::int64_t>(static_cast<double>(elements) * rate);
    };
    const bool whole = chunks_.back().first;  // the model in one chunk: tied weights go last
    layer_share_[i] =
        share(layer_.elements, reduce_rate_[i]) + share(experts_, expert_rate_[i]);
    head_share_[i] = share(final_.elements + (whole ? 0 : tied_.elements), reduce_rate_[i]);
    embeddings_share_[i] = share(embeddings_.elements + tied_.elements, reduce_rate_[i]);
  }
}

void StageForm::count_groups() {
  const Strategy& s = *s_->strategy;
  const bool wraps = chunks_.size() > 1;  // the last rank sends to the first
  groups_ = (s.tensor > 1) + (s.context > 1) + communicates_ + (s_->replicas.front().size > 1) +
            (wraps || !first_) + (wraps || !last_) + (s.pipeline > 1 && tied_.elements > 0) +
            (s.expert > 1) + (experts_ > 0 && s_->experts.front().size > 1);
}

}  // namespace planner::closed_form
