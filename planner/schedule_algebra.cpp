#include "planner/schedule_algebra.hpp"

#include <array>

#include "core/check.hpp"
#include "planner/lower.hpp"

namespace planner {
namespace {

using program::PassKind;

// One rank as it goes through its passes.
struct Player {
  program::Passes passes;
  std::int64_t now = 0, began = -1;
};

class Play {
 public:
  Play(const std::vector<program::Schedule>& ranks, const PassTimes& chunk)
      : ranks_(ranks), chunk_(chunk), p_(static_cast<int>(ranks.size())),
        m_(ranks.front().micro_batches) {
    for (const program::Schedule& s : ranks) players_.push_back({program::Passes(s)});
    const auto places = static_cast<std::size_t>(p_) * static_cast<std::size_t>(chunks());
    for (auto& ends : ends_) ends.assign(places * static_cast<std::size_t>(m_), kNever);
  }

  Idle run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int r = 0; r < p_; ++r)
        while (step(r)) moved = true;
    }
    Idle idle;
    const std::int64_t busy = m_ * chunks() * chunk_.sum();
    for (const Player& player : players_) {
      PLANNER_CHECK(player.passes.done(), "a schedule that waits for itself");
      idle.makespan = std::max(idle.makespan, player.now - busy);
      idle.period = std::max(idle.period, player.now - player.began - busy);
    }
    return idle;
  }

 private:
  static constexpr std::int64_t kNever = -1;

  int chunks() const { return ranks_.front().chunks; }
  int place(int rank, int chunk) const {
    const bool up = ranks_.front().order == program::Order::v_shape && chunk == 1;
    return up ? 2 * p_ - 1 - rank : chunk * p_ + rank;
  }
  std::int64_t& end(PassKind kind, int place, std::int64_t micro_batch) {
    const std::size_t i = kind == PassKind::forward ? 0 : 1;
    return ends_[i][static_cast<std::size_t>(place * m_ + micro_batch)];
  }
  std::int64_t duration(PassKind kind) const {
    switch (kind) {
      case PassKind::forward: return chunk_.forward;
      case PassKind::input_gradient: return chunk_.input_gradient;
      case PassKind::weight_gradient: return chunk_.weight_gradient;
      default: return chunk_.input_gradient + chunk_.weight_gradient;
    }
  }
  // When the pass's input is there, kNever: not yet. Weight gradients follow on their own rank.
  std::int64_t ready(const program::Pass& pass, int at) {
    if (pass.kind == PassKind::weight_gradient) return 0;
    if (pass.kind == PassKind::forward)
      return at == 0 ? 0 : end(PassKind::forward, at - 1, pass.micro_batch);
    const bool last = at == p_ * chunks() - 1;
    return last ? 0 : end(PassKind::backward, at + 1, pass.micro_batch);
  }

  bool step(int r) {
    Player& player = players_[static_cast<std::size_t>(r)];
    if (player.passes.done()) return false;
    const program::Pass pass = player.passes.pass();
    const int at = place(r, pass.chunk);
    const std::int64_t from = ready(pass, at);
    if (from == kNever) return false;
    player.now = std::max(player.now, from);
    if (player.began < 0) player.began = player.now;
    player.now += duration(pass.kind);
    if (pass.kind != PassKind::weight_gradient) end(pass.kind, at, pass.micro_batch) = player.now;
    player.passes.advance();
    return true;
  }

  const std::vector<program::Schedule>& ranks_;
  const PassTimes chunk_;
  const int p_;
  const std::int64_t m_;
  std::vector<Player> players_;
  std::array<std::vector<std::int64_t>, 2> ends_;  // of forward and of backward passes
};

}  // namespace

Idle played_idle(const std::vector<program::Schedule>& ranks, const PassTimes& chunk) {
  return Play(ranks, chunk).run();
}

PassTimes mean_of_others(const PassTimes& all, const PassTimes& own, std::int64_t p) {
  return {(all.forward - own.forward) / (p - 1),
          (all.input_gradient - own.input_gradient) / (p - 1),
          (all.weight_gradient - own.weight_gradient) / (p - 1)};
}

Messages messages_over(std::span<const std::int64_t> links, std::int64_t chunks) {
  const std::size_t p = links.size();
  Messages m;
  for (std::size_t r = 0; r < p; ++r) {
    const bool wraps = r + 1 == p;
    if (wraps && chunks == 1) break;
    m.all += (wraps ? chunks - 1 : chunks) * links[r];
    m.slowest = std::max(m.slowest, links[r]);
    if (r > 0) m.busiest = std::max(m.busiest, links[r - 1] + links[r]);
  }
  if (chunks > 1 && p > 2) m.busiest = std::max(m.busiest, links[p - 1] + links[0]);
  if (p == 2) m.busiest = m.all / chunks;
  return m;
}

std::int64_t message_waits(const Strategy& s, const PassTimes& t, const Messages& messages) {
  const std::int64_t p = s.pipeline, m = s.grad_accum;
  const std::int64_t there_and_back = 2 * messages.all;
  const auto beyond = [](std::int64_t least, std::int64_t own) {
    return std::max<std::int64_t>(least - own, 0);
  };
  if (s.schedule == Schedule::gpipe)
    return there_and_back + (m - 1) * (beyond(messages.slowest, t.forward) +
                                       beyond(messages.slowest, t.sum() - t.forward));
  if (s.schedule == Schedule::interleaved) {
    const std::int64_t v = s.virtual_stages, slots = m * v - (v * p + p - 1);
    return there_and_back +
           std::max<std::int64_t>(slots, 0) * beyond(messages.busiest, t.sum() / v);
  }
  // Slots of rank 0 from a forward pass to its backward pass, both counted as one, and what lies
  // between on all ranks.
  const std::int64_t ahead = s.schedule == Schedule::zb_h2 ? 2 * p - 1 : p;
  const bool split = s.schedule == Schedule::zb_h1 || s.schedule == Schedule::zb_h2;
  const std::int64_t path = p * t.sum() - (split ? (p - 1) * t.weight_gradient : 0);
  const std::int64_t round = (path + there_and_back) / ahead;
  return there_and_back + std::max<std::int64_t>(m - ahead, 0) *
                              beyond(std::max(round, messages.busiest), t.sum());
}

std::int64_t bubble(const Strategy& s, const PassTimes& t, bool joined_at_end) {
  const std::int64_t behind = s.pipeline - 1;
  switch (s.schedule) {
    case Schedule::interleaved:
      return behind * t.sum() / s.virtual_stages;
    case Schedule::zb_h1:
      return behind *
             (t.forward + std::max<std::int64_t>(t.input_gradient - t.weight_gradient, 0));
    case Schedule::zb_h2: {
      const std::int64_t idle = behind * (t.forward + t.input_gradient - 2 * t.weight_gradient);
      return std::max<std::int64_t>(idle, joined_at_end ? behind * t.forward : 0);
    }
    case Schedule::zb_v: {
      std::vector<program::Schedule> ranks;
      const std::int64_t m = std::min(s.grad_accum, 2 * s.pipeline + 1);
      for (int r = 0; r < static_cast<int>(s.pipeline); ++r) ranks.push_back(schedule_of(s, r, m));
      return played_idle(ranks, {t.forward / 2, t.input_gradient / 2, t.weight_gradient / 2})
          .period;
    }
    default:
      return behind * t.sum();
  }
}

}  // namespace planner
