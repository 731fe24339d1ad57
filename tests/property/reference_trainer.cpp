#include "tests/property/reference_trainer.hpp"

#include <algorithm>
#include <thread>

#include "core/check.hpp"
#include "exec/host/optimizers.hpp"
#include "exec/interpret/initialise.hpp"
#include "tests/property/reference_model.hpp"
#include "tests/property/reference_rules.hpp"
#include "tests/property/reference_slices.hpp"

namespace tests {
namespace {

namespace host = exec::host;
using core::DType;

// The parameters of one pipeline stage, in the flat order that the Program's spans cut; where data
// ranks hold different experts, one for each of these, with everything else alike.
struct Stage {
  const program::RankClass* layout = nullptr;
  int expert_rank = 0;
  Typed weights, master, compute;
  std::vector<Typed> slots, scales, earlier;  // earlier: weights before the latest updates
};

class Trainer {
 public:
  Trainer(const models::ModelSpec& spec, const planner::Job& job, const program::Program& stated,
          const exec::DataSource& data, Division division, std::uint64_t seed)
      : spec_(spec), job_(job), how_(stated.accumulation), ways_(stated.mesh.expert),
        context_(stated.mesh.context), data_(data), division_(division),
        seed_(seed), recipe_(*planner::resolve_recipe(job.recipe, job.precision)),
        ranks_(job.global_batch / division.grad_accum / division.micro_batch * context_),
        passes_(stated.classes.front().schedule) {
    for (const program::RankClass& k : stated.classes)
      if (k.is_worker && k.stage * ways_ == static_cast<int>(stages_.size()))
        for (int e = 0; e < ways_; ++e) stages_.push_back(open_stage(k, e));
  }

  void step(std::int64_t index);
  ReferenceResult finish();

 private:
  using Flats = std::vector<Typed>;    // one per stage and expert rank

  Stage open_stage(const program::RankClass& k, int expert_rank);
  void initialise(Stage& s, const program::PlacedParameter& placed);
  Flats zero_gradients() const;
  // flat_of(stage, divided): where the parameters of stages_[stage] are, those that expert ranks
  // divide or the others.
  template <class FlatOf>
  Views views(FlatOf&& flat_of) const;
  void train(std::int64_t step, std::int64_t micro_batch, std::vector<Flats>& gradients,
             std::vector<double>& losses);
  MicroBatch micro_batch_of(std::int64_t step, std::int64_t rank, std::int64_t micro_batch,
                            std::vector<Flats>& gradients);
  void train_slices(std::int64_t step, std::int64_t first, std::int64_t micro_batch,
                    std::vector<Flats>& gradients, std::vector<double>& losses);
  // Where head and embeddings add to one gradient in passes of their own, these are not one after
  // the other.
  bool adds_head_apart() const {
    return passes_.order == program::Order::v_shape && spec_.tied_embeddings;
  }
  void train_by_passes(std::int64_t step, std::int64_t rank, std::vector<Flats>& gradients,
                       double* loss);
  Typed reduce(const std::vector<Flats>& parts, std::size_t first, std::size_t stage) const;
  Flats ranks_then_micro_batches(std::int64_t step, std::vector<double>& losses);
  Flats micro_batches_then_ranks(std::int64_t step, std::vector<double>& losses);
  Flats over_replicas(std::vector<Flats>& replicas) const;
  void keep_own(const std::vector<Flats>& parts, Flats& total) const;
  void add_tied(Flats& gradients, int expert_rank) const;
  void update(Stage& s, Typed& gradient, std::int64_t step);
  void update_blocks(Stage& s, Typed& gradient, std::int64_t step);

  const models::ModelSpec& spec_;
  const planner::Job& job_;
  const program::Accumulation how_;
  const int ways_;                     // ranks that hold different experts
  const int context_;                  // ranks that divide a sample's tokens
  const exec::DataSource& data_;
  const Division division_;
  const std::uint64_t seed_;
  const planner::Recipe recipe_;
  const std::int64_t ranks_;
  const program::RankSchedule passes_;     // of the rank with the embeddings
  exec::host::LossScaleState loss_scale_{.scale = planner::loss_scale_of(job_).initial};
  std::vector<Stage> stages_;
  std::map<std::string, Typed> frozen_;
  ReferenceResult result_;
};

Stage Trainer::open_stage(const program::RankClass& k, int expert_rank) {
  Stage s;
  s.layout = &k;
  s.expert_rank = expert_rank;
  s.weights = {recipe_.weight, k.trained_elements};
  if (recipe_.has_master) s.master = {recipe_.master, k.trained_elements};
  std::int64_t end = 0;
  for (const program::PlacedParameter& p : k.parameters) {
    initialise(s, p);
    if (!p.trained) continue;
    PLANNER_CHECK(p.offset == end, "trained parameters do not tile their flat space");
    end += p.parameter.elements;
  }
  for (const program::QuantisedParameter& q : k.quantised)
    frozen_[q.placed.path] = rounded_to_codes(spec_, job_, q.placed, seed_);
  PLANNER_CHECK(end == k.trained_elements, "a flat space larger than its parameters");
  open_slots(job_, recipe_, k.trained_elements, s.slots, s.scales);
  return s;
}

void Trainer::initialise(Stage& s, const program::PlacedParameter& placed) {
  const std::int64_t n = placed.parameter.elements, ways = placed.parameter.expert_ways;
  program::PlacedParameter own{describe(spec_, placed.path, n * ways), placed.path};
  const auto put = [&](host::View to) {
    std::vector<double> values =
        exec::initial_values(own, seed_, 0, to.type == DType::f64);
    host::cast(to, {values.data() + (ways > 1 ? s.expert_rank * n : 0), DType::f64}, n);
  };
  if (!placed.trained) {
    Typed& frozen = frozen_[placed.path] = Typed(recipe_.compute, n);
    return put(frozen.at());
  }
  put(s.weights.at(placed.offset));
  if (recipe_.has_master) put(s.master.at(placed.offset));
}

Trainer::Flats Trainer::zero_gradients() const {
  Flats flats;
  for (const Stage& s : stages_) flats.emplace_back(recipe_.gradient, s.layout->trained_elements);
  return flats;
}

// Matrices of experts one by one: "h.0.moe.proj.weight#3".
template <class FlatOf>
Views Trainer::views(FlatOf&& flat_of) const {
  Views views;
  for (std::size_t i = 0; i < stages_.size(); ++i)
    for (const program::PlacedParameter& p : stages_[i].layout->parameters) {
      const bool whole = p.parameter.expert_ways == 1;
      if (!p.trained || (whole && stages_[i].expert_rank > 0)) continue;
      const host::View at = flat_of(i, !whole).at(p.offset);
      views[p.tied_copy ? "lm_head.weight" : p.path] = at;
      if (p.parameter.shape.size() != 3) continue;
      const std::int64_t n = p.parameter.shape[0], first = stages_[i].expert_rank * n;
      for (std::int64_t e = 0; e < n; ++e)
        views[p.path + "#" + std::to_string(first + e)] = at.at(e * (p.parameter.elements / n));
    }
  if (views.count("wte.weight") > 0 && spec_.tied_embeddings)
    views.try_emplace("lm_head.weight", views["wte.weight"]);
  return views;
}

// Data ranks take contiguous pieces of the global batch, micro-batches ascend in it. Gradients of
// experts are added up by the rank of the expert group that holds them, origins ascending.
MicroBatch Trainer::micro_batch_of(std::int64_t step, std::int64_t rank, std::int64_t micro_batch,
                                   std::vector<Flats>& gradients) {
  MicroBatch batch;
  batch.spec = &spec_;
  batch.samples = division_.micro_batch;
  batch.seq_len = job_.seq_len;
  batch.global_batch = job_.global_batch;
  if (planner::scales_loss(job_)) batch.loss_scale = &loss_scale_.scale;
  batch.activation = recipe_.activation;
  batch.statistic = recipe_.statistic;
  batch.lora_rank = job_.lora_rank;
  batch.halves = division_.halves;
  if (job_.precision == core::DType::f8)
    batch.f8 = planner::f8_scaling_from_name(job_.fp8_scaling);
  batch.loss_chunks = division_.loss_chunks;
  batch.stores_scores = job_.attention == "unfused" || job_.attention == "fused_softmax";
  batch.weights = views([&](std::size_t i, bool) -> Typed& { return stages_[i].compute; });
  batch.gradients = views([&](std::size_t i, bool divided) -> Typed& {
    const std::int64_t holder = rank / ways_ * ways_ + stages_[i].expert_rank;
    return gradients[static_cast<std::size_t>(divided ? holder : rank)][i];
  });
  for (auto& [path, frozen] : frozen_) {
    batch.weights[path] = frozen.at();
    if (path == "wte.weight" && spec_.tied_embeddings)
      batch.weights["lm_head.weight"] = frozen.at();
  }
  batch.seed = seed_;
  batch.first_sample =
      step * job_.global_batch +
      (rank / context_ * division_.grad_accum + micro_batch) * division_.micro_batch;
  load(batch, data_, batch.first_sample);
  return batch;
}

// A rank's micro-batches where its first stage has the head, too (the V), and one matrix for both:
// the head's part of a micro-batch is added with chunk 1's backward pass, the rest with chunk 0's.
void Trainer::train_by_passes(std::int64_t step, std::int64_t rank, std::vector<Flats>& gradients,
                              double* loss) {
  double again = 0;
  for (program::Passes passes(passes_); !passes.done(); passes.advance()) {
    const program::Pass pass = passes.pass();
    if (pass.kind != program::PassKind::input_gradient) continue;
    const bool head = pass.chunk == 1;
    MicroBatch batch = micro_batch_of(step, rank, pass.micro_batch, gradients);
    std::erase_if(batch.gradients,
                  [&](const auto& g) { return (g.first == "lm_head.weight") != head; });
    train_micro_batch(batch, head ? loss : &again);
  }
}

// A micro-batch of every rank.
void Trainer::train(std::int64_t step, std::int64_t micro_batch, std::vector<Flats>& gradients,
                    std::vector<double>& losses) {
  for (std::int64_t d = 0; d < ranks_; d += context_) {
    if (context_ > 1) {
      train_slices(step, d, micro_batch, gradients, losses);
      continue;
    }
    MicroBatch batch = micro_batch_of(step, d, micro_batch, gradients);
    train_micro_batch(batch, &losses[static_cast<std::size_t>(d)]);
  }
}

// Of the ranks from `first` on, which divide the tokens of the same samples.
void Trainer::train_slices(std::int64_t step, std::int64_t first, std::int64_t micro_batch,
                           std::vector<Flats>& gradients, std::vector<double>& losses) {
  Slices slices(job_.seq_len, context_, division_.slicing);
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < context_; ++i)
    threads.emplace_back([&, i] {
      MicroBatch batch = micro_batch_of(step, first + i, micro_batch, gradients);
      slices.take(batch, i);
      train_micro_batch(batch, &losses[static_cast<std::size_t>(first + i)]);
    });
  for (std::thread& t : threads) t.join();
}

// One stage's gradients of `group` ranks from `first` on, in the type that travels: of the ranks
// that hold the same experts, or what all have as the first expert rank's.
Typed Trainer::reduce(const std::vector<Flats>& parts, std::size_t first,
                      std::size_t stage) const {
  const program::RankClass& k = *stages_[stage].layout;
  const DType wire = how_.group > 1 ? how_.wire_type : recipe_.gradient;
  const auto expert_rank = static_cast<std::size_t>(stages_[stage].expert_rank);
  std::vector<Typed> travelling, of_experts;
  for (std::size_t i = first; i < first + static_cast<std::size_t>(how_.group); ++i) {
    const auto add = [&](std::vector<Typed>& to, std::size_t from) {
      Typed own = parts[i][from];
      to.emplace_back(wire, k.trained_elements);
      host::cast(to.back().at(), own.at(), k.trained_elements);
    };
    add(travelling, stage - expert_rank);
    if (i % static_cast<std::size_t>(ways_) == expert_rank) add(of_experts, stage);
  }
  Typed sum(wire, k.trained_elements);
  for (const program::Span& s : k.spans)
    fold(s.expert_ways > 1 ? of_experts : travelling, how_.algorithm, s.offset, s.elements, sum);
  return sum;
}

// Experts that one rank alone holds keep what they added up.
void Trainer::keep_own(const std::vector<Flats>& parts, Flats& total) const {
  for (std::size_t i = 0; i < stages_.size() && how_.group == ways_ && ways_ > 1; ++i)
    for (const program::Span& s : stages_[i].layout->spans) {
      if (s.expert_ways == 1) continue;
      Typed own = parts[static_cast<std::size_t>(stages_[i].expert_rank)][i];
      host::copy(total[i].at(s.offset), own.at(s.offset), s.elements);
    }
}

Trainer::Flats Trainer::micro_batches_then_ranks(std::int64_t step, std::vector<double>& losses) {
  std::vector<Flats> of_rank(static_cast<std::size_t>(ranks_), zero_gradients());
  for (std::int64_t m = 0; m < division_.grad_accum && !adds_head_apart(); ++m)
    train(step, m, of_rank, losses);
  for (std::int64_t d = 0; d < ranks_ && adds_head_apart(); ++d)
    train_by_passes(step, d, of_rank, &losses[static_cast<std::size_t>(d)]);
  Flats total = zero_gradients();
  for (std::size_t i = 0; i < stages_.size(); ++i)
    host::cast(total[i].at(), reduce(of_rank, 0, i).at(), total[i].size());
  keep_own(of_rank, total);
  return total;
}

Trainer::Flats Trainer::ranks_then_micro_batches(std::int64_t step, std::vector<double>& losses) {
  std::vector<Flats> replicas(static_cast<std::size_t>(how_.replicas), zero_gradients());
  for (std::int64_t m = 0; m < division_.grad_accum; ++m) {
    std::vector<Flats> of_rank(static_cast<std::size_t>(ranks_), zero_gradients());
    train(step, m, of_rank, losses);
    for (std::size_t r = 0; r < replicas.size(); ++r)
      for (std::size_t i = 0; i < stages_.size(); ++i)
        host::add_into(replicas[r][i].at(),
                       reduce(of_rank, r * static_cast<std::size_t>(how_.group), i).at(),
                       replicas[r][i].size());
  }
  return over_replicas(replicas);
}

// HSDP: a ring over the replicas for each shard of each span.
Trainer::Flats Trainer::over_replicas(std::vector<Flats>& replicas) const {
  if (replicas.size() == 1) return std::move(replicas[0]);
  Flats total = zero_gradients();
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    std::vector<Typed> parts;
    for (Flats& flats : replicas) parts.push_back(std::move(flats[i]));
    fold_shards(parts, *stages_[i].layout, total[i]);
  }
  return total;
}

// Head and embedding on the last and the first stage: one sum of two gradients, on both.
void Trainer::add_tied(Flats& gradients, int expert_rank) const {
  host::View table{}, head{};
  std::int64_t n = 0;
  for (std::size_t i = 0; i < stages_.size(); ++i)
    for (const program::PlacedParameter& p : stages_[i].layout->parameters) {
      const bool other = stages_[i].expert_rank != expert_rank;
      if (other || !p.trained || p.path != "wte.weight") continue;
      (p.tied_copy ? head : table) = gradients[i].at(p.offset);
      n = p.parameter.elements;
    }
  if (!table || !head) return;
  host::reduce_into(table, head, host::ReduceOp::sum, n);
  host::copy(head, table, n);
}

void Trainer::update(Stage& s, Typed& gradient, std::int64_t step) {
  if (job_.optimizer == planner::OptimizerKind::adam8bit) return update_blocks(s, gradient, step);
  for (const program::PlacedParameter& p : s.layout->parameters) {
    if (!p.trained) continue;
    host::Parameters one{s.weights.at(p.offset), {}, gradient.at(p.offset), p.parameter.elements,
                         !is_vector(p.path)};
    if (recipe_.has_master) one.master = s.master.at(p.offset);
    if (planner::scales_loss(job_)) one.loss_scale = &loss_scale_;
    std::vector<host::View> slots;
    for (Typed& slot : s.slots) slots.push_back(slot.at(p.offset));
    host::update(job_.optimizer, exec::default_hyper(job_.optimizer), step + 1, one, slots);
  }
}

// Eight-bit state: blocks of 256 from the start of each shard of each span, without decay.
void Trainer::update_blocks(Stage& s, Typed& gradient, std::int64_t step) {
  std::int64_t block = 0;
  for (const program::Span& span : s.layout->spans)
    for (std::int64_t begin = 0; begin < span.elements; begin += span.shard_elements) {
      const std::int64_t at = span.offset + begin;
      const std::int64_t n = std::min(span.shard_elements, span.elements - begin);
      host::Parameters one{s.weights.at(at), {}, gradient.at(at), n, false};
      if (recipe_.has_master) one.master = s.master.at(at);
      if (planner::scales_loss(job_)) one.loss_scale = &loss_scale_;
      const std::vector<host::View> slots{s.slots[0].at(at), s.slots[1].at(at),
                                          s.scales[0].at(block), s.scales[1].at(block)};
      host::update(job_.optimizer, exec::default_hyper(job_.optimizer), step + 1, one, slots);
      block += program::padded(n, program::kQuantisationBlock) / program::kQuantisationBlock;
    }
}

void Trainer::step(std::int64_t index) {
  for (Stage& s : stages_) {
    s.earlier.push_back(s.weights);
    if (std::ssize(s.earlier) > division_.delay(s.layout->stage) + 1)
      s.earlier.erase(s.earlier.begin());
    s.compute = Typed(recipe_.compute, s.weights.size());
    host::cast(s.compute.at(), s.earlier.front().at(), s.weights.size());
  }
  std::vector<double> losses(static_cast<std::size_t>(ranks_), 0.0);
  Flats gradients = how_.ranks_first ? ranks_then_micro_batches(index, losses)
                                     : micro_batches_then_ranks(index, losses);
  for (int e = 0; e < ways_ && how_.tied_apart; ++e) add_tied(gradients, e);
  if (planner::scales_loss(job_)) loss_scale_ = next_loss_scale(loss_scale_, job_, gradients);
  for (std::size_t i = 0; i < stages_.size(); ++i) update(stages_[i], gradients[i], index);
  double sum = 0;
  for (const double loss : losses) sum += loss;
  result_.losses.push_back(sum);
}

ReferenceResult Trainer::finish() {
  for (Stage& s : stages_)
    for (const program::PlacedParameter& p : s.layout->parameters) {
      if (!p.trained || p.tied_copy) continue;
      if (p.parameter.expert_ways == 1 && s.expert_rank > 0) continue;
      std::vector<double> values(static_cast<std::size_t>(p.parameter.elements));
      host::cast({values.data(), DType::f64}, s.weights.at(p.offset), p.parameter.elements);
      std::vector<double>& all = result_.weights[p.path];
      all.insert(all.end(), values.begin(), values.end());
    }
  return result_;
}

}  // namespace

ReferenceResult train_reference(const models::ModelSpec& spec, const planner::Job& job,
                                const program::Program& stated, const exec::DataSource& data,
                                Division division, std::int64_t steps, std::uint64_t seed) {
  Trainer trainer(spec, job, stated, data, division, seed);
  for (std::int64_t s = 0; s < steps; ++s) trainer.step(s);
  return trainer.finish();
}

}  // namespace tests
