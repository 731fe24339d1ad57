#include "exec/cuda/backend/device_records.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/check.hpp"

namespace exec::cuda {
namespace {

// Rank, stream and entry in one number that is not 0.
constexpr int kStreamBits = 8, kEntryBits = 32;
static_assert(program::kStreams <= 1 << kStreamBits);

std::uint64_t giver_of(int rank, program::Stream stream, std::uint32_t entry) {
  const auto lane = (static_cast<std::uint64_t>(rank) + 1) << kStreamBits |
                    static_cast<std::uint64_t>(stream);
  return lane << kEntryBits | entry;
}

int rank_of(std::uint64_t giver) {
  return static_cast<int>(giver >> (kEntryBits + kStreamBits)) - 1;
}

LoggedKernel logged(const DeviceRecord& r) {
  const auto stream = (r.giver >> kEntryBits) & ((1U << kStreamBits) - 1);
  return {static_cast<program::Stream>(stream), static_cast<std::uint32_t>(r.giver), r.name,
          r.start, r.finish};
}

}  // namespace

DeviceRecorder::DeviceRecorder(Api& api, bool asked) {
  if (asked) opened_ = api.open_activity();
}

void DeviceRecorder::begin() {
  const std::scoped_lock lock(mutex_);
  if (!records() || ++ranks_ > 1) return;
  why_not_ = opened_.library->start();
  began_ = began_ || why_not_.empty();
}

void DeviceRecorder::end() {
  const std::scoped_lock lock(mutex_);
  if (records() && --ranks_ == 0) opened_.library->stop();
}

void DeviceRecorder::enter(int rank, program::Stream stream, std::uint32_t entry) {
  if (records()) opened_.library->push(giver_of(rank, stream, entry));
}

void DeviceRecorder::leave() {
  if (records()) opened_.library->pop();
}

void DeviceRecorder::take() {
  if (taken_) return;
  PLANNER_CHECK(ranks_ == 0, "a rank's step is recorded still");
  records_ = opened_.library->take();
  std::ranges::sort(records_.all, {}, &DeviceRecord::start);
  taken_ = true;
}

std::optional<std::vector<LoggedKernel>> DeviceRecorder::kernels(int rank) {
  const std::scoped_lock lock(mutex_);
  if (!records() || !began_) return std::nullopt;
  take();
  std::vector<LoggedKernel> own;
  for (const DeviceRecord& r : records_.all)
    if (!r.of_graph && r.giver != 0 && rank_of(r.giver) == rank) own.push_back(logged(r));
  return own;
}

std::string DeviceRecorder::text() const {
  const std::scoped_lock lock(mutex_);
  const std::string& why = opened_.absent.empty() ? why_not_ : opened_.absent;
  if (!why.empty()) return "events alone: " + why;
  if (!taken_) return "events";
  const auto& all = records_.all;
  const auto graphs = std::ranges::count_if(all, &DeviceRecord::of_graph);
  const auto outside = std::ranges::count_if(
      all, [](const DeviceRecord& r) { return !r.of_graph && r.giver == 0; });
  return fmt::format("{}: {} kernels, copies and fills of actions, {} of graphs, {} of neither, {} "
                     "lost{}{}",
                     opened_.library->name(), std::ssize(all) - graphs - outside, graphs, outside,
                     records_.lost, records_.failed.empty() ? "" : "; ", records_.failed);
}

}  // namespace exec::cuda
