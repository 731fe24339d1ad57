// The passes of a stage: its routines walked use by use, for memory and for time.
#include <algorithm>

#include "planner/closed_form/stage_form.hpp"

namespace planner::closed_form {

using program::LiveFootprint;

static LiveFootprint change(std::int64_t bytes) {
  return {bytes, std::max<std::int64_t>(bytes, 0)};
}

std::int64_t StageForm::weights_of(const Use& use) const {
  switch (use.place) {
    case Place::layer: return layer_.weights;
    case Place::embeddings: return embeddings_.weights + tied_.weights;
    case Place::head: return final_.weights + tied_.weights;
    case Place::nothing: return 0;
  }
  return 0;
}

// Gradients of units come to be at their first writer: tied weights' at the head.
std::int64_t StageForm::opened_by(const Use& use) const {
  if (!use.completes) return 0;
  if (use.place == Place::layer) return layer_.gradient;
  if (use.place == Place::head) return final_.gradient + tied_.gradient;
  return embeddings_.gradient + (last_ ? 0 : tied_.gradient);
}

template <class F>
void StageForm::for_completed(const Use& use, F&& f) const {
  const auto one = [&](const Unit& unit) {
    if (unit.elements > 0) f(unit);
  };
  if (use.place == Place::layer) return one(layer_);
  if (use.place == Place::head) {
    one(final_);
    if (!first_) one(tied_);
  } else {
    one(embeddings_);
    one(tied_);
  }
}

std::int64_t StageForm::read_time(const Use& use, std::size_t machine, bool cast) const {
  const auto of = [&](const Unit& u) { return (cast ? u.cast : u.gather)[machine]; };
  switch (use.place) {
    case Place::layer: return of(layer_);
    case Place::embeddings: return of(embeddings_) + of(tied_);
    case Place::head: return of(final_) + of(tied_);
    case Place::nothing: return 0;
  }
  return 0;
}

Pass StageForm::pass(bool backward) const {
  const Strategy& s = *s_->strategy;
  return {.backward = backward,
          .first = first_,
          .last = last_,
          .embeddings_train = embeddings_train_,
          .layers = layers_,
          .every = s.checkpoint == Checkpoint::every_k ? s.checkpoint_every : 0};
}

// ---- Memory.

struct StageForm::LiveVisitor {
  const StageForm& stage;
  const Forms& forms;
  LiveFootprint all{}, marked{};
  std::int64_t open = 0;               // gradient and staging of the unit that is being reduced

  void add(std::int64_t bytes) { all = program::then(all, change(bytes)); }
  void mark() {
    marked = all;
    all = {};
  }
  void repeat(std::int64_t times) {
    all = program::then(marked, program::repeat(all, times + 1));
  }

  void step(const Use* previous, const Use& use, const Use* next) {
    const bool shares_last = previous != nullptr && use.reads_same(*previous);
    const bool shares_next = next != nullptr && use.reads_same(*next);
    if (stage.ahead_) {
      if (previous == nullptr) add(stage.weights_of(use));
      if (next != nullptr && !shares_next) add(stage.weights_of(*next));
    } else if (stage.copies_ && !shares_last) {
      add(stage.weights_of(use));
    }
    if (stage.units_reduce_) add(stage.opened_by(use));
    all = program::then(all, forms.live[index(use.piece)]);
    if (stage.copies_ && !shares_next) add(-stage.weights_of(use));
    if (!use.completes || !stage.units_reduce_) return;
    stage.for_completed(use, [&](const Unit& unit) {
      add(-open);
      add(unit.staging);
      open = unit.gradient + unit.staging;
      if (!stage.s_->strategy->overlap) close();
    });
  }
  void close() {
    add(-open);
    open = 0;
  }
};

program::RoutineFootprints<LiveFootprint> StageForm::live(const Forms& forms,
                                                          std::int64_t micro_batches) const {
  const std::int64_t x = forms.boundary;
  const auto run = [&](bool backward) {
    LiveVisitor visitor{*this, forms};
    if (backward ? !last_ : !first_) visitor.add(x);  // received
    walk(pass(backward), visitor);
    visitor.close();
    return visitor.all;
  };
  const LiveFootprint forward = run(false), backward = run(true);
  // What was sent goes when the next pass of its kind begins.
  const auto after_send = [&](const LiveFootprint& f, bool sends) {
    return sends ? program::then(change(-x), f) : f;
  };
  program::RoutineFootprints<LiveFootprint> r;
  r.first_forward = forward;
  r.forward = after_send(forward, !last_);
  r.first_backward = backward;
  r.backward = after_send(backward, !first_);
  r.last_backward = micro_batches == 1 ? r.first_backward : r.backward;
  r.last_backward.peak += s_->strategy->overlap ? largest_staging_ : 0;
  if (!first_) r.end = program::then(r.end, change(-x));
  if (!last_) r.end = program::then(r.end, change(-x));
  if (!s_->strategy->overlap) {
    r.end = program::then(r.end, change(largest_staging_));
    r.end = program::then(r.end, change(-largest_staging_));
  }
  return r;
}

// ---- Time.

struct StageForm::TimeVisitor {
  const StageForm& stage;
  const std::array<PieceTime, kPieces>& times;
  std::size_t machine;
  bool reduces_buckets, replicas;
  std::int64_t compute = 0, gradient = 0, parameter = 0;
  std::int64_t arrived = 0, arriving = 0;  // when the copies for this use and the next are there
  std::int64_t reduced = 0;                // when the open unit is
  std::array<std::int64_t, 6> marked{};

  std::array<std::int64_t*, 6> clocks() {
    return {&compute, &gradient, &parameter, &arrived, &arriving, &reduced};
  }
  void mark() {
    std::size_t i = 0;
    for (const std::int64_t* clock : clocks()) marked[i++] = *clock;
  }
  void repeat(std::int64_t times_more) {
    std::size_t i = 0;
    for (std::int64_t* clock : clocks()) *clock += times_more * (*clock - marked[i++]);
  }

  void request(const Use& use) {
    compute += stage.read_time(use, machine, true);
    parameter = std::max(parameter, compute) + stage.read_time(use, machine, false);
    arriving = parameter;
  }
  void step(const Use* previous, const Use& use, const Use* next) {
    const bool shares_last = previous != nullptr && use.reads_same(*previous);
    const bool shares_next = next != nullptr && use.reads_same(*next);
    if (stage.ahead_) {
      if (previous == nullptr) request(use);
      arrived = arriving;
      if (next != nullptr && !shares_next) request(*next);
      compute = std::max(compute, arrived);
    } else if (stage.copies_ && !shares_last) {
      compute += stage.read_time(use, machine, true) + stage.read_time(use, machine, false);
    }
    const PieceTime& piece = times[index(use.piece)];
    compute += piece.kernels + piece.transfers;
    if (use.completes) complete(use);
  }
  void complete(const Use& use) {
    stage.for_completed(use, [&](const Unit& unit) {
      if (stage.units_reduce_) {
        compute = std::max(compute, reduced);
        gradient = std::max(gradient, compute) + unit.reduce[machine];
        reduced = gradient;
        if (replicas) gradient += unit.replica[machine];
        if (!stage.s_->strategy->overlap) compute = std::max(compute, reduced);
      } else if (reduces_buckets) {
        const double share = static_cast<double>(unit.elements) * stage.reduce_rate_[machine];
        gradient = std::max(gradient, compute) + static_cast<std::int64_t>(share);
      }
    });
  }
};

StageTime StageForm::time(const Forms& forms, std::size_t machine) const {
  const bool overlap = s_->strategy->overlap;
  const auto run = [&](bool backward, bool last_micro_batch) {
    TimeVisitor visitor{.stage = *this,
                        .times = forms.time[machine],
                        .machine = machine,
                        .reduces_buckets = last_micro_batch && overlap,
                        .replicas = last_micro_batch};
    walk(pass(backward), visitor);
    visitor.compute = std::max(visitor.compute, visitor.reduced);
    return visitor;
  };
  StageTime t;
  t.begin = begin_[machine];
  t.forward = run(false, false).compute;
  t.backward = run(true, false).compute;
  const TimeVisitor last = run(true, true);
  t.last_backward = std::max(last.compute, last.gradient);
  t.end = update_[machine] + (overlap || units_reduce_ ? 0 : reduce_all_[machine]);
  return t;
}

}  // namespace planner::closed_form
