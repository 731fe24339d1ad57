// What the twin records of its own work, as a GPU would: when each piece ran, and the number that
// it was given under.
#include <utility>

#include "core/clock.hpp"
#include "exec/cuda/twin/state.hpp"

namespace exec::cuda {
namespace {

thread_local std::vector<std::uint64_t> numbers;  // pushed and not popped

}  // namespace

std::function<void()> Twin::State::recorded(std::function<void()> run, bool of_graph) {
  const DeviceRecord given{doing, of_graph || numbers.empty() ? 0 : numbers.back(), of_graph};
  return [this, run = std::move(run), given] {
    DeviceRecord record = given;
    record.start = core::steady_seconds();
    run();
    record.finish = core::steady_seconds();
    const std::scoped_lock lock(mutex);
    records.all.push_back(std::move(record));
  };
}

class TwinActivity final : public ActivityLibrary {
 public:
  explicit TwinActivity(Twin::State& state) : state_(state) {}
  ~TwinActivity() override { stop(); }

  std::string name() const override { return "the twin"; }
  std::string start() override {
    const std::scoped_lock lock(state_.mutex);
    try {
      state_.called("start_activity");
    } catch (const DeviceFailure& failure) {
      return failure.what();
    }
    state_.recording = true;
    return {};
  }
  void stop() override {
    const std::scoped_lock lock(state_.mutex);
    state_.recording = false;
  }
  void push(std::uint64_t number) override { numbers.push_back(number); }
  void pop() override {
    PLANNER_CHECK(!numbers.empty(), "a number that was not pushed");
    numbers.pop_back();
  }
  DeviceRecords take() override {
    const std::scoped_lock lock(state_.mutex);
    PLANNER_CHECK(!state_.recording, "records are taken while they are made");
    return std::exchange(state_.records, {});
  }

 private:
  Twin::State& state_;
};

OpenedActivity Twin::open_activity() {
  const std::scoped_lock lock(state_->mutex);
  try {
    state_->called("open_activity");
  } catch (const DeviceFailure& failure) {
    return {nullptr, failure.what()};
  }
  return {std::make_unique<TwinActivity>(*state_), {}};
}

}  // namespace exec::cuda
