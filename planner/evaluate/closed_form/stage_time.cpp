// The passes of a stage: time, with the messages and buckets between them; what updates move.
#include <algorithm>

#include "planner/evaluate/closed_form/stage_form.hpp"

namespace planner::closed_form {

void StageForm::chunk_time(const Clock& clock, const Passes& passes, ChunkTime& t) const {
  t.forward = passes.forward.time(clock);
  t.last_backward = t.backward = passes.backward.time(clock);
  if (!manner().reduces || s_->replicas[clock.machine].size == 1) return;
  Clock last = clock;
  last.replicas = true;
  t.last_backward = passes.backward.time(last);
}

// The last backward passes of the rank's chunks, the last chunk first, until all buckets are
// reduced. landing: before each but the model's last.
std::int64_t StageForm::last_passes(const Clock& clock, std::int64_t landing,
                                    const Shared& shared) const {
  std::int64_t all = 0, busy = 0;
  for (std::size_t run = runs_.size(); run-- > 0;) {
    const std::int64_t copies = runs_[run].chunk.last ? 0 : landing;
    const Tape& tape = shared.passes_[runs_[run].kind].passes.backward;
    const BucketTime pass = tape.time_with_buckets(units_, clock);
    all += runs_[run].count * (copies + pass.time);
    for (std::int64_t i = 0; i < runs_[run].count; ++i)
      busy = pass.reduced(std::max<std::int64_t>(busy - copies, 0));
  }
  return all + busy;
}

StageTime StageForm::time(const Forms& forms, std::size_t machine, bool lands,
                          Shared& shared) const {
  const bool overlap = s_->strategy->overlap && !split_;
  const Forms::Kernels& kernels = forms.kernels[machine];
  const Clock clock{
      .kernels = manner().reduces ? kernels.divided : kernels.whole, .machine = machine,
      .held = cost::held_share(s_->gradients[machine], *s_->machines[machine])};
  StageTime t;
  t.begin = begin_[machine];
  t.end = update_[machine] + (overlap || manner().reduces ? 0 : reduce_all_[machine]);
  t.joined = joined_[machine];
  const std::int64_t copy = lands ? forms.landing[machine] : 0;
  for (const Run& run : runs_) {
    const stage::ChunkShape& c = run.chunk;
    Shared::Times& known = shared.time_[run.kind * kMachines + machine];
    if (known.at != shared.now_) chunk_time(clock, shared.passes_[run.kind].passes, known.time);
    known.at = shared.now_;
    const ChunkTime& of = known.time;
    const std::int64_t in = c.first ? 0 : copy, back = c.last ? 0 : copy;
    t.forward += run.count * (of.forward + in);
    t.backward += run.count * (of.backward + back);
    t.last_backward += run.count * (of.last_backward + back);
    if (c.first && chunks_.size() > 1) t.embeddings = of.forward + of.backward + back;
  }
  if (reduces_early()) t.last_backward = last_passes(clock, copy, shared);
  for (std::size_t kind = 0; kind < units_.kinds(); ++kind)
    t.weight_gradient += layers_of_[kind] * kernels.whole[slot_of(Piece::weight_gradient, kind)];
  if (t.embeddings > 0) {
    const auto others = static_cast<std::int64_t>(chunks_.size()) - 1;
    t.embeddings =
        std::max<std::int64_t>(0, t.embeddings - (t.period() - t.embeddings) / others);
  }
  t.end += std::max<std::int64_t>(0, tied_early_[machine] - t.weight_gradient);
  return t;
}

std::int64_t StageForm::updated_bytes(bool casts) const {
  const Recipe& r = s_->recipe;
  const Optimizer& o = s_->optimizer;
  const auto bytes = [](std::int64_t n, core::DType type) {
    return core::bytes_of(n, type).value();
  };
  const std::int64_t apart = stage::stores_f8(s_->policy, r) ? sizes_.f8_shard : 0;
  const std::int64_t n = casts ? apart : sizes_.shard - apart;
  const std::int64_t scales =
      apart == 0 ? sizes_.scales : stage::StateSizes::scales_of(n);
  const std::int64_t moments =
      o.quantised ? (o.first_moments + o.second_moments) * (n + 4 * scales)
                  : o.first_moments * bytes(n, r.first_moment) +
                        o.second_moments * bytes(n, r.second_moment);
  const std::int64_t master = r.has_master ? 2 * bytes(n, r.master) : 0;
  const std::int64_t weights = casts ? 0 : 2 * bytes(n, r.weight);
  return weights + bytes(n, r.gradient) + master + 2 * moments;
}

void StageForm::chunk_passes(const Forms& forms, std::size_t machine, bool lands,
                             const Shared& shared, std::vector<PassTimes>& passes) const {
  const Forms::Kernels& kernels = forms.kernels[machine];
  const std::int64_t copy = lands ? forms.landing[machine] : 0;
  passes.clear();
  for (const Run& run : runs_) {
    const stage::ChunkShape& c = run.chunk;
    const ChunkTime& of = shared.time_[run.kind * kMachines + machine].time;
    PassTimes one{of.forward + (c.first ? 0 : copy), of.backward + (c.last ? 0 : copy), 0};
    const KindRows::Kinds& kinds = rows_->kinds(c.kinds);
    for (std::int64_t l = 0; l < c.layers; ++l)
      one.weight_gradient += kernels.whole[slot_of(
          Piece::weight_gradient, kinds.empty() ? 0 : kinds[static_cast<std::size_t>(l)])];
    passes.insert(passes.end(), static_cast<std::size_t>(run.count), one);
  }
}

}  // namespace planner::closed_form
