// Live bytes over interleaved passes. Between two passes that are told apart (the first and the
// last micro-batch of a chunk) a run takes the same chunks round by round, so that the level
// before each round is an arithmetic progression: its peak lies at one of the ends.
#include <algorithm>

#include "core/check.hpp"
#include "sim/program/footprint.hpp"

namespace program {
namespace {

// Which chunk the next pass of one kind takes, and how many of the same are ahead.
class Pointer {
 public:
  Pointer(const RankSchedule& s, bool descends)
      : ranks_(s.ranks), chunks_(s.chunks), descends_(descends), left_(s.ranks),
        last_group_(s.micro_batches / s.ranks - 1) {}

  std::size_t chunk() const {
    return static_cast<std::size_t>(descends_ ? chunks_ - 1 - at_ : at_);
  }
  bool first() const { return group_ == 0 && left_ == ranks_; }
  bool last() const { return group_ == last_group_ && left_ == 1; }
  // Passes ahead of the same chunk that are neither the first nor the last micro-batch's; at least
  // the next one.
  std::int64_t alike() const {
    return first() || last() ? 1 : left_ - (group_ == last_group_ ? 1 : 0);
  }
  std::int64_t groups() const { return group_; }
  void advance(std::int64_t passes) {
    left_ -= passes;
    if (left_ > 0) return;
    left_ = ranks_;
    if (++at_ == chunks_) at_ = 0, ++group_;
  }
  void skip(std::int64_t groups) { group_ += groups; }

 private:
  std::int64_t ranks_, chunks_;
  bool descends_;
  std::int64_t left_, last_group_, at_ = 0, group_ = 0;
};

class Levels {
 public:
  void join(const LiveFootprint& f, std::int64_t rounds) {
    const std::int64_t last = level_ + (rounds - 1) * f.net;
    peak_ = std::max(peak_, std::max(level_, last) + f.peak);
    level_ = last + f.net;
  }
  LiveFootprint whole() const { return {level_, peak_}; }

 private:
  std::int64_t level_ = 0, peak_ = 0;
};

}  // namespace

LiveFootprint over_interleaved(const RoutineFootprints<LiveFootprint>& r, const RankSchedule& s) {
  PLANNER_CHECK(s.micro_batches % s.ranks == 0 && !s.split);
  const std::int64_t all = s.micro_batches * s.chunks, period = std::int64_t{s.ranks} * s.chunks;
  const std::int64_t ahead = std::min(s.warm_up, all);
  Pointer f(s, false), b(s, true);
  const auto forward = [&]() -> const LiveFootprint& {
    const auto& c = r.chunks[f.chunk()];
    return f.first() ? c.first_forward : c.forward;
  };
  const auto backward = [&]() -> const LiveFootprint& {
    const auto& c = r.chunks[b.chunk()];
    return b.last() ? c.last_backward : b.first() ? c.first_backward : c.backward;
  };
  Levels levels;
  levels.join(r.begin, 1);
  for (std::int64_t left = ahead; left > 0;) {
    const std::int64_t run = std::min(left, f.alike());
    levels.join(forward(), run);
    f.advance(run);
    left -= run;
  }
  bool returns = true;                 // a period without first passes ends where it began
  for (const auto& c : r.chunks) returns &= c.forward.net + c.backward.net == 0;
  for (std::int64_t left = all - ahead; left > 0;) {
    // One period stands for all, so that one is left to be walked.
    if (returns && b.groups() >= 1 && left >= 2 * period) {
      const std::int64_t periods = left / period - 1;
      f.skip(periods);
      b.skip(periods);
      left -= periods * period;
    }
    const std::int64_t run = std::min({left, f.alike(), b.alike()});
    levels.join(then(forward(), backward()), run);
    f.advance(run);
    b.advance(run);
    left -= run;
  }
  for (std::int64_t left = ahead; left > 0;) {
    const std::int64_t run = std::min(left, b.alike());
    levels.join(backward(), run);
    b.advance(run);
    left -= run;
  }
  levels.join(r.end, 1);
  return levels.whole();
}

}  // namespace program
