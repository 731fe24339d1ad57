#include "planner/evaluate/closed_form/stage_form.hpp"

#include <algorithm>
#include <utility>

#include "core/check.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/stage/norm.hpp"
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

StageForm::StageForm(const Structure& structure, const Pieces& pieces, const KindRows& rows,
                     std::vector<stage::ChunkShape> chunks, Shared& shared,
                     std::int64_t versions)
    : s_(&structure), rows_(&rows), chunks_(std::move(chunks)), versions_(versions) {
  for (const stage::ChunkShape& c : chunks_) {
    first_ |= c.first;
    last_ |= c.last;
    layers_ += c.layers;
    equal_ &= c.layers == chunks_.front().layers && c.before == chunks_.front().before &&
              c.kinds == chunks_.front().kinds;
  }
  PLANNER_CHECK(structure.machines.size() <= kMachines);
  const Strategy& s = *structure.strategy;
  // Where the logits are small, the other ranks' bounds count: they must be exact. So they must
  // where the first chunk keeps more than others do, what a norm of the embeddings reads, and where
  // chunks of other ranks keep more: of other kinds of layers.
  equal_ &= s.loss_chunks == 1 && !(first_ && pieces.prologue_reads) && !rows.several();
  const Recipe& r = structure.recipe;
  communicates_ = s.data * s.context > 1;
  units_.manner = {.overlaps = s.overlap,
                   .gathers_ahead = stage::gathers_ahead(s),
                   .gathers_at_end = stage::gathers_at_end(structure.policy, s),
                   .gathers = stage::shards_weights(s),
                   .reduces = stage::shards_gradients(s),
                   .copies = stage::materialises(r, s),
                   .keeps_root = stage::keeps_root(structure.policy, s)};
  staged_ = communicates_ && stage::reduce_type(*structure.job, r) != r.gradient;
  embeddings_train_ = pieces.prologue_trains;
  split_ = splits_backward(s.schedule);
  offloads_ = s.offloads("optimizer");
  embeddings_read_ = pieces.prologue_reads;
  count_layers();
  make_units(pieces);
  make_spans(pieces);
  sum_state(pieces);
  time_end();
  share_buckets();
  make_runs(shared);
  count_groups();
}

void StageForm::make_runs(Shared& shared) {
  for (const stage::ChunkShape& c : chunks_) {
    if (runs_.empty() || !(c == runs_.back().chunk)) runs_.push_back({c, shared.kind_of(c)});
    ++runs_.back().count;
    sent_ += !c.first + !c.last;
  }
}

void StageForm::add_trained(Unit& unit, std::int64_t n, UnitGroup group) {
  const Strategy& s = *s_->strategy;
  const Recipe& r = s_->recipe;
  if (n == 0) return;
  unit.trains = true;
  const core::DType wire = stage::reduce_type(*s_->job, r);
  const core::DType read = stage::read_type(r, group.f8);
  const core::DType stored = stage::stored_type(s_->policy, r, group.f8);
  unit.weights += manner().copies ? bytes(n, read) : 0;
  unit.gradient += manner().reduces ? bytes(n, r.gradient) : 0;
  unit.staging += staged_ && manner().reduces ? bytes(n, wire) : 0;
  const std::int64_t k = parts(group.experts), shard = program::padded(n, k) / k;
  const std::vector<cost::Place>& places = sharers(group.experts);
  for (std::size_t i = 0; i < s_->machines.size(); ++i) {
    const cost::Machine& m = *s_->machines[i];
    const bool gathers = stage::shards_weights(s);
    const std::int64_t cast_elements = gathers ? shard : n;
    if (manner().copies && stored != read)
      unit.cast[i] += moving(bytes(cast_elements, stored) + bytes(cast_elements, read), m);
    if (gathers)
      unit.gather[i] += (*s_->transfers)(Collective::all_gather, Algorithm::ring, places[i], n,
                                         read, m);
    std::int64_t reduce = 0;
    if (manner().reduces) {
      unit.open[i] += moving(bytes(n, r.gradient), m);
      reduce = (*s_->transfers)(Collective::reduce_scatter, Algorithm::ring, places[i], n, wire,
                                m) +
               moving(bytes(shard, wire) + 2 * bytes(shard, r.gradient), m);
      if (staged_) reduce += moving(bytes(n, r.gradient) + bytes(n, wire), m);
    }
    unit.reduce[i] += reduce;
    if (manner().reduces && s_->replicas[i].size > 1)
      unit.replica[i] += (*s_->transfers)(Collective::all_reduce, Algorithm::ring, s_->replicas[i],
                                         shard, r.gradient, m);
  }
}

void StageForm::count_layers() {
  each_run([&](std::size_t kind, std::int64_t layers) { layers_of_[kind] += layers; });
}

void StageForm::make_units(const Pieces& pieces) {
  const EndElements& ends = pieces.ends;
  Unit& head = units_.of(UnitKind::final);
  Unit& tied = units_.of(UnitKind::tied);
  Unit& embeddings = units_.of(UnitKind::embeddings);
  units_.count = stage::kUnitKinds + pieces.layers.size() - 1;
  head.elements = last_ ? ends.final : 0;
  tied.elements = first_ || last_ ? ends.tied : 0;
  embeddings.elements = first_ ? ends.embeddings : 0;
  for (Unit* unit : {&head, &tied, &embeddings}) add_trained(*unit, unit->elements, {});
  final_experts_ = last_ ? ends.experts : 0;
  experts_ += final_experts_;
  exchanges_ |= last_ && ends.exchanges;
  add_trained(head, final_experts_, {.experts = true});
  for (std::size_t kind = 0; kind < pieces.layers.size(); ++kind) {
    const LayerElements& of = pieces.layers[kind];
    Unit& layer = units_.of(UnitKind::layer, kind);
    layer.elements = of.trained.front();
    layer_elements_[kind] = of.trained;
    experts_ += of.experts() * layers_of_[kind];
    exchanges_ |= of.exchanges && layers_of_[kind] > 0;
    for (std::size_t g = 0; g < kUnitGroups.size(); ++g)
      add_trained(layer, of.trained[g], kUnitGroups[g]);
    add_partial(layer, of.partial);
    add_frozen(layer, of.frozen, of.quantised);
  }
  add_partial(head, ends.partial_final);
  add_partial(embeddings, ends.partial_embeddings);
  if (last_) add_frozen(head, ends.frozen_epilogue, 0);
  if (first_ || last_) add_frozen(tied, ends.frozen_tied, 0);
  if (first_) add_frozen(embeddings, ends.frozen_prologue - ends.frozen_tied, 0);
}

// Norms and biases of split rows, one side of adapters (StageLowering::partial_block).
void StageForm::add_partial(Unit& unit, std::int64_t n) {
  if (n == 0 || unit.elements == 0) return;
  for (std::size_t i = 0; i < s_->machines.size(); ++i)
    unit.partial[i] = (*s_->transfers)(Collective::all_reduce, Algorithm::ring, s_->tensor[i], n,
                               s_->recipe.gradient, *s_->machines[i]);
}

// Frozen parameters under ZeRO-3 are gathered like the rest, codes as they are.
void StageForm::add_frozen(Unit& unit, std::int64_t n, std::int64_t codes) {
  if (!stage::shards_weights(*s_->strategy)) return;
  const core::DType type = s_->recipe.compute;
  const std::int64_t k = parts();
  const std::int64_t whole = program::padded(n, k), whole_codes = program::padded(codes, k);
  unit.weights += bytes(whole, type) + whole_codes;
  for (std::size_t i = 0; i < s_->machines.size(); ++i)
    for (const auto& [elements, of] : {std::pair{whole, type}, {whole_codes, core::DType::u8}})
      if (elements > 0)
        unit.gather[i] += (*s_->transfers)(Collective::all_gather, Algorithm::ring,
                                           s_->gradients[i], elements, of, *s_->machines[i]);
}

void StageForm::sum_state(const Pieces& pieces) {
  const EndElements& ends = pieces.ends;
  const Strategy& s = *s_->strategy;
  const std::int64_t divided = stage::shards_weights(s) ? parts() : 1;
  for (std::size_t kind = 0; kind < pieces.layers.size(); ++kind) {
    const LayerElements& of = pieces.layers[kind];
    sizes_.add_unit({.frozen = of.frozen, .quantised = of.quantised, .decoding = of.decoding},
                    divided, layers_of_[kind]);
    for (std::size_t g = 0; g < kUnitGroups.size(); ++g)
      sizes_.add_unit({.elements = of.trained[g], .experts = kUnitGroups[g].experts,
                       .f8 = kUnitGroups[g].f8},
                      divided, layers_of_[kind]);
  }
  const auto add = [&](const Unit& unit, std::int64_t frozen) {
    sizes_.add_unit({.elements = unit.elements, .frozen = frozen, .of_layer = false}, divided);
  };
  if (last_) add(unit(UnitKind::final), ends.frozen_epilogue);
  sizes_.add_unit({.elements = final_experts_, .of_layer = false, .experts = true}, divided);
  if (first_ || last_) add(unit(UnitKind::tied), ends.frozen_tied);
  if (first_) add(unit(UnitKind::embeddings), ends.frozen_prologue - ends.frozen_tied);
  const stage::State state = state_of(stage::StateQuestion{
      .policy = s_->policy, .recipe = s_->recipe, .optimizer = s_->optimizer, .strategy = s,
      .reduce = stage::reduce_type(*s_->job, s_->recipe), .sizes = sizes_, .layers = layers_,
      .last = last_, .norm = takes_norm(*s_->job), .scales_loss = scales_loss(*s_->job)});
  persistent_ = state.bytes(false, versions_);
  host_ = state.bytes(true, versions_);
  if (stage::copies_moments(s_->policy, s, s_->optimizer))
    update_copies_ = bytes(sizes_.shard, s_->recipe.second_moment);
}

std::int64_t StageForm::update_time(std::int64_t n, std::int64_t parts, double rate, bool casts,
                                    const cost::Machine& m) const {
  const Recipe& r = s_->recipe;
  std::int64_t time = core::to_picoseconds(m.launch).value() +
                      static_cast<std::int64_t>(rate * static_cast<double>(n));
  const std::int64_t shard = program::padded(n, parts) / parts;
  if (casts) time += moving(bytes(shard, r.master) + bytes(shard, core::DType::f8), m);
  // An update without master copy starts from a copy of the version before.
  if (versions_ > 1 && !r.has_master) time += moving(2 * bytes(shard, r.weight), m);
  if (!offloads_) return time;
  const auto copy = [&](core::DType type) {
    return cost::host_copy_time(core::bytes_of(shard, type), m).value();
  };
  time += copy(r.gradient) + copy(r.weight);
  return r.has_master ? time : time + copy(r.weight);
}

// The square of the norm of all gradients (StageLowering::build_norm).
std::int64_t StageForm::norm_time(std::size_t i) const {
  const cost::Machine& m = *s_->machines[i];
  std::int64_t time = moving(bytes(1, core::DType::f64), m);
  if (scales_loss(*s_->job))
    time += moving(bytes(LossScale::kElements, core::DType::f64), m);
  for_spans([&](const Spans& spans, UnitGroup group) {
    const std::int64_t k = parts(group.experts);
    for (const auto& [n, count] : spans)
      time += count * moving(bytes(stage::shard_of(n, k), s_->recipe.gradient), m);
  });
  for (const program::Group group : stage::norm_groups(*s_->strategy, experts_ > 0)) {
    const cost::Place& place = group == program::Group::tensor     ? s_->tensor[i]
                               : group == program::Group::pipeline ? s_->pipeline[i]
                                                                   : s_->gradients[i];
    time +=
        (*s_->transfers)(Collective::all_reduce, Algorithm::ring, place, 1, core::DType::f64, m);
  }
  return time;
}

// What happens once a step: gradients zeroed, buckets reduced, weights updated and gathered.
void StageForm::time_end() {
  const Unit& tied = unit(UnitKind::tied);
  const Strategy& s = *s_->strategy;
  const Recipe& r = s_->recipe;
  const core::DType wire = stage::reduce_type(*s_->job, r);
  const std::int64_t gradients =
      bytes(manner().reduces ? sizes_.shard : sizes_.trained, r.gradient);
  const bool scatter = s.sharding == Sharding::zero1;
  const bool gathers = stage::gathers_updates(s);
  const int gpus = static_cast<int>(s.workers());
  for (std::size_t i = 0; i < s_->machines.size(); ++i) {
    const cost::Machine& m = *s_->machines[i];
    begin_[i] = sizes_.trained > 0 ? moving(gradients, m) : 0;
    // Per element of the spans that are cast from their master copy, or of the others.
    const auto rate_of = [&](bool casts) {
      const core::Bytes moved(updated_bytes(casts));
      const core::Seconds moves = offloads_ ? cost::offloaded_update_time(moved, gpus, m)
                                            : cost::memory_time(moved, m);
      const std::int64_t apart = stage::stores_f8(s_->policy, r) ? sizes_.f8 : 0;
      const std::int64_t elements = casts ? apart : sizes_.trained - apart;
      return static_cast<double>(core::to_picoseconds(moves).value()) /
             static_cast<double>(std::max<std::int64_t>(1, elements));
    };
    // Gathers follow updates on their own stream.
    std::int64_t update = sizes_.trained > 0 ? core::to_picoseconds(m.host.update).value() : 0;
    std::int64_t gathered = 0;
    for_spans([&](const Spans& spans, UnitGroup group) {
      const cost::Place& place = sharers(group.experts)[i];
      const bool travels = !group.experts || place.size > 1;
      const bool casts = group.f8 && stage::stores_f8(s_->policy, r);
      const double rate = rate_of(casts);
      const core::DType stored = stage::stored_type(s_->policy, r, group.f8);
      std::int64_t all = 0, elements = 0;
      for (const auto& [n, count] : spans) {
        elements += count * n;
        if (communicates_ && !manner().reduces && travels)
          all += count *
                 ((*s_->transfers)(scatter ? Collective::reduce_scatter : Collective::all_reduce,
                                   scatter ? Algorithm::ring : algorithm_of(s.grad_sync), place, n,
                                   wire, m) +
                  (staged_ ? 2 * moving(bytes(n, wire) + bytes(n, r.gradient), m) : 0));
        const std::int64_t one = update_time(n, parts(group.experts), rate, casts, m);
        const std::int64_t first = update + one;
        update += count * one;
        if (!gathers || !travels) continue;
        const std::int64_t gather = (*s_->transfers)(Collective::all_gather, Algorithm::ring,
                                                     place, n, stored, m);
        gathered = std::max(std::max(gathered, first) + count * gather, update + gather);
      }
      reduce_all_[i] += all;
      double& per_element = reduce_rate_[group_of(group.experts, group.f8)][i];
      if (elements > 0) per_element = static_cast<double>(all) / static_cast<double>(elements);
    });
    update = std::max(update, gathered);
    if (takes_norm(*s_->job)) joined_[i] = update += norm_time(i);
    if (!manner().reduces) {
      for (std::size_t kind = 0; kind < units_.kinds(); ++kind)
        update += layers_of_[kind] * units_.of(UnitKind::layer, kind).partial[i];
      update += unit(UnitKind::final).partial[i] + unit(UnitKind::embeddings).partial[i];
    }
    const bool early = split_ && !communicates_;  // beside the last weight gradients
    if (tied.elements > 0 && s.pipeline > 1)
      (early ? tied_early_[i] : update) +=
          (*s_->transfers)(Collective::all_reduce, Algorithm::ring, s_->embedding[i],
                           (tied.elements + parts() - 1) / parts(), r.gradient, m);
    update_[i] = update;
  }
}

// What a unit's gradients take of the time of all buckets, and of their staging at the most.
void StageForm::share_buckets() {
  units_.of(UnitKind::final).bucket = head_staging_;
  units_.of(UnitKind::tied).bucket = first_ ? largest_staging_ : head_staging_;
  units_.of(UnitKind::embeddings).bucket = largest_staging_;
  const auto share = [](std::int64_t elements, double rate) {
    return static_cast<std::int64_t>(static_cast<double>(elements) * rate);
  };
  for (std::size_t i = 0; i < s_->machines.size(); ++i)
    for (std::size_t u = 0; u < units_.count; ++u)
      units_.units[u].share[i] = share(units_.units[u].elements, reduce_rate_.front()[i]);
  for (std::size_t i = 0; i < s_->machines.size(); ++i)
    units_.of(UnitKind::final).share[i] += share(final_experts_, reduce_rate_[kExperts][i]);
  for (std::size_t kind = 0; kind < units_.kinds(); ++kind) {
    Unit& layer = units_.of(UnitKind::layer, kind);
    layer.bucket = row_staging_;
    for (std::size_t i = 0; i < s_->machines.size(); ++i)
      for (std::size_t g = 1; g < kUnitGroups.size(); ++g)
        layer.share[i] += share(layer_elements_[kind][g], reduce_rate_[g][i]);
  }
  units_.manner.stages_buckets = stages_early();
  units_.sum(s_->machines.size());
}

void StageForm::record_passes(Shared& shared) {
  const std::size_t machines = s_->machines.size();
  const auto outlines = [&](const stage::ChunkShape& c, bool stages) -> const auto& {
    Manner of = manner();
    of.stages_buckets = stages;
    return shared.outlines_.of(
        {.policy = s_->policy, .strategy = *s_->strategy, .both_ends = c.first && c.last,
         .keeps_root = manner().keeps_root, .embeddings_train = embeddings_train_,
         .embeddings_read = embeddings_read_},
        c, *rows_, units_.trained(), of);
  };
  const auto record = [&](Tape& tape, const Outline* outline, bool anew) {
    if (anew || tape.outline() != outline) tape.record(*outline, units_, machines);
  };
  last_backward_.resize(stages_early() ? runs_.size() : 0);
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const stage::ChunkShape& c = runs_[i].chunk;
    if (stages_early()) record(last_backward_[i], outlines(c, true).backward, false);
    Shared::Recorded& known = shared.passes_[runs_[i].kind];
    if (known.at == shared.latest_) continue;
    known.at = shared.latest_;
    const bool anew = std::exchange(known.structure, shared.structure_) != shared.structure_;
    const Outlines::Passes& of = outlines(c, false);
    record(known.passes.forward, of.forward, anew);
    record(known.passes.backward, of.backward, anew);
  }
}

void StageForm::count_groups() {
  const Strategy& s = *s_->strategy;
  const bool wraps = chunks_.size() > 1;  // the last rank sends to the first
  const auto add = [&](program::Group group, bool talks) {
    if (talks) groups_.add(group);
  };
  const bool replicated = s_->replicas.front().size > 1;
  add(program::Group::tensor, s.tensor > 1);
  add(program::Group::context, s.context > 1);
  add(replicated ? program::Group::shard : program::Group::data, communicates_);
  add(program::Group::replica, replicated);
  add(program::Group::previous, wraps || !first_);
  add(program::Group::next, wraps || !last_);
  add(program::Group::embedding, s.pipeline > 1 && unit(UnitKind::tied).elements > 0);
  add(program::Group::pipeline, takes_norm(*s_->job) && s.pipeline > 1);  // of stage::norm_groups()
  add(program::Group::expert, exchanges_);
  add(program::Group::expert_data, experts_ > 0 && s_->experts.front().size > 1);
}

}  // namespace planner::closed_form
