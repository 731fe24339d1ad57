// The simulation of goodput.hpp.
#include <algorithm>
#include <functional>
#include <queue>

#include "core/check.hpp"
#include "core/random.hpp"
#include "sim/engine/goodput.hpp"
#include "sim/engine/goodput_cycle.hpp"

namespace engine {
namespace {

// Streams of the seed: when failures come, of which part, and whether a second one hits the node
// that has the copy.
constexpr std::uint64_t kWhen = 0x6661696c, kWhich = 0x70617274, kPeer = 0x70656572;

class FailureRun {
 public:
  FailureRun(const FailureModel& m, std::int64_t interval, double horizon, std::uint64_t seed)
      : m_(m), cycle_(m, interval), horizon_(horizon), mean_(m.between().value()),
        per_stored_(static_cast<double>(checkpoints_per_stored(m, interval))),
        when_(seed, kWhen), which_(seed, kWhich), peer_(seed, kPeer) {
    run_.of_kind.resize(m.parts.size());
  }

  GoodputRun play() {
    double left = next_failure();      // of running until a failure
    while (now_ < horizon_) {
      const double wanted = std::max(1.0, 1 + std::ceil((horizon_ - now_ - cycle_.first) /
                                                        cycle_.next));
      if (left >= cycle_.time_of(wanted)) {
        keep(wanted);
        now_ += cycle_.time_of(wanted);
        break;
      }
      work_until(left);
      left = recover();
    }
    return finished();
  }

 private:
  double next_failure() {
    return -mean_ * core::portable_log(1 - when_.uniform(failures_++));
  }

  void keep(double checkpoints) {
    run_.saves += static_cast<std::int64_t>(checkpoints);
    kept_ += checkpoints * static_cast<double>(cycle_.steps);
  }

  // Runs from a restart until a failure.
  void work_until(double failure) {
    const double complete = cycle_.complete(failure), before = kept_;
    keep(complete);
    run_.lost_steps += static_cast<std::int64_t>(
        std::max(0.0, cycle_.done(failure) - complete * static_cast<double>(cycle_.steps)));
    now_ += failure;
    if (m_.saving != Saving::memory) return;
    // Every so many checkpoints from the first on one is written to storage.
    const double since = failure - cycle_.first - m_.stored.value();
    if (since < 0) return;
    const double last = 1 + per_stored_ * std::floor(since / (per_stored_ * cycle_.next));
    stored_ = before + last * static_cast<double>(cycle_.steps);
  }

  // From a failure until steps run again; then how long until the next one.
  double recover() {
    bool single = false;               // a node is lost whose copy nobody has made again
    bool from_storage = false;
    while (true) {
      const FailingParts& part = note_failure();
      from_storage = from_storage || part.nodes >= 2 || (single && part.nodes > 0 && hits_copy());
      single = single || part.nodes > 0;
      wait_for_nodes(part);
      const double restart =
          (m_.saving == Saving::memory && from_storage ? m_.restart_stored : m_.restart).value();
      const double left = next_failure();
      if (left >= restart || now_ >= horizon_) {
        now_ += restart;
        restarting_ += restart;
        if (m_.saving == Saving::memory && from_storage) fall_back();
        return std::max(0.0, left - restart);
      }
      now_ += left;
      restarting_ += left;
    }
  }

  const FailingParts& note_failure() {
    double at = which_.uniform(static_cast<std::uint64_t>(run_.failures)) / mean_;
    std::size_t k = 0;
    while (k + 1 < m_.parts.size()) {
      const double rate = m_.parts[k].parts / m_.parts[k].between.value();
      if (at < rate) break;
      at -= rate;
      ++k;
    }
    ++run_.failures;
    ++run_.of_kind[k];
    return m_.parts[k];
  }

  bool hits_copy() {
    const double others = std::max<double>(1, static_cast<double>(m_.nodes) - 1);
    return peer_.uniform(static_cast<std::uint64_t>(run_.failures)) * others < 1;
  }

  void wait_for_nodes(const FailingParts& part) {
    if (!m_.spares) return;
    for (int n = 0; n < part.nodes; ++n) returns_.push(now_ + part.repair.value());
    while (!returns_.empty() && returns_.top() <= now_) returns_.pop();
    const double began = now_;
    while (std::ssize(returns_) > *m_.spares) {
      now_ = std::max(now_, returns_.top());
      returns_.pop();
    }
    waiting_ += now_ - began;
  }

  void fall_back() {
    ++run_.memory_lost;
    run_.lost_steps += static_cast<std::int64_t>(kept_ - stored_);
    kept_ = stored_;
  }

  GoodputRun finished() {
    run_.steps = static_cast<std::int64_t>(kept_);
    run_.all = core::Seconds(now_);
    run_.goodput = kept_ * cycle_.step / now_;
    run_.restarting = restarting_ / now_;
    run_.waiting = waiting_ / now_;
    // Of the checkpoints that count; those of steps that were lost went with them.
    const double kept = kept_ / static_cast<double>(cycle_.steps);
    run_.saving = kept * (cycle_.next - cycle_.work) / now_;
    run_.repeated = std::max(
        0.0, 1 - run_.goodput - run_.saving - run_.restarting - run_.waiting);
    return std::move(run_);
  }

  const FailureModel& m_;
  const CheckpointCycle cycle_;
  const double horizon_, mean_, per_stored_;
  const core::Random when_, which_, peer_;
  std::uint64_t failures_ = 0;         // drawn
  GoodputRun run_;
  double now_ = 0, kept_ = 0, stored_ = 0;  // seconds; steps in memory or storage, and in storage
  double restarting_ = 0, waiting_ = 0;
  // When nodes that are away come back, the soonest on top.
  std::priority_queue<double, std::vector<double>, std::greater<>> returns_;
};

}  // namespace

GoodputRun play_failures(const FailureModel& m, std::int64_t interval, core::Seconds horizon,
                         std::uint64_t seed) {
  PLANNER_CHECK(interval >= 1 && m.step.value() > 0 && !m.parts.empty());
  return FailureRun(m, interval, horizon.value(), seed).play();
}

}  // namespace engine
