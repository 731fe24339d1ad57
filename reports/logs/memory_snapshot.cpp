#include "reports/logs/memory_snapshot.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "reports/logs/pickle.hpp"

namespace reports::logs {
namespace {

using Value = Pickle::Value;

// c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize. What is left of a block of the large pool is
// split off from 1 MiB on alone, so a block can be larger than this by less than that.
constexpr std::int64_t kRounding = 512;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

// Of one GPU, bytes; in double, as a damaged file may hold more than 2^63 (its peaks are checked).
struct Device {
  double allocated = 0, reserved = 0;  // at the moment of the snapshot
  double allocated_peak = 0, reserved_peak = 0;
  std::size_t events = 0;
  // Of the last time that memory ran out: what was asked for, and what the GPU had left.
  std::optional<core::Bytes> lacked, left;
};

class SnapshotReader {
 public:
  SnapshotReader(const Pickle& pickle, const std::string& name) : pickle_(pickle), name_(name) {}

  core::Result<TrainingLog> read() {
    const Value segments = pickle_.find(pickle_.root(), "segments");
    if (segments.kind() != Pickle::Kind::list)
      return core::Problem{name_, "a snapshot of torch.cuda.memory", "another pickle",
                           "dump it with torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")"};
    pickle_.each(segments, [&](Value segment) {
      Device& device = devices_[pickle_.integer(pickle_.find(segment, "device")).value_or(0)];
      device.reserved += size(segment, "total_size");
      device.allocated += size(segment, "allocated_size");
    });
    std::int64_t number = 0;
    pickle_.each(pickle_.find(pickle_.root(), "device_traces"), [&](Value trace) {
      const auto device = devices_.find(number++);
      if (device != devices_.end()) follow(trace, device->second);
    });
    if (problem_) return *problem_;
    const auto most = std::ranges::max_element(devices_, {}, [](const auto& each) {
      return std::max(each.second.reserved, each.second.reserved_peak);
    });
    if (most == devices_.end() || !(most->second.reserved > 0))
      return core::Problem{name_, "memory of a GPU that was reserved", "none",
                           "dump the snapshot in the process that trains, before it ends"};
    return log_of(most->first, most->second);
  }

 private:
  double size(Value holder, std::string_view key) {
    const std::optional<std::int64_t> bytes = pickle_.integer(pickle_.find(holder, key));
    if (bytes && *bytes >= 0 && *bytes <= kMostBytes) return static_cast<double>(*bytes);
    if (!problem_)
      problem_ = core::Problem{fmt::format("{} {}", name_, key), "bytes",
                               bytes ? std::to_string(*bytes) : "none",
                               "dump the snapshot again"};
    return 0;
  }

  // Events tell what changed, and the snapshot what there was at last: what there was before the
  // first of them follows.
  void follow(Value events, Device& device) {
    double allocated = 0, reserved = 0, most_allocated = 0, most_reserved = 0;
    pickle_.each(events, [&](Value event) {
      ++device.events;
      const std::string_view action = pickle_.text(pickle_.find(event, "action"));
      const bool gives = action == "alloc", takes = action == "free_requested",
                 grows = action == "segment_alloc" || action == "segment_map",
                 shrinks = action == "segment_free" || action == "segment_unmap";
      if (action == "oom") {
        device.lacked = core::Bytes(std::llround(size(event, "size")));
        device.left = core::Bytes(std::llround(size(event, "device_free")));
      }
      if (gives || takes) {
        const double bytes = std::ceil(size(event, "size") / kRounding) * kRounding;
        allocated += gives ? bytes : -bytes;
      } else if (grows || shrinks) {
        const double bytes = size(event, "size");
        reserved += grows ? bytes : -bytes;
      }
      most_allocated = std::max(most_allocated, allocated);
      most_reserved = std::max(most_reserved, reserved);
    });
    device.allocated_peak = device.allocated - allocated + most_allocated;
    device.reserved_peak = device.reserved - reserved + most_reserved;
  }

  core::Result<TrainingLog> log_of(std::int64_t number, const Device& device) const {
    TrainingLog log;
    log.format = kSnapshot;
    log.source = "PyTorch 2.15, torch/cuda/memory.py: _snapshot, _dump_snapshot";
    if (std::max(device.reserved_peak, device.allocated_peak) > static_cast<double>(kMostBytes))
      return core::Problem{name_, fmt::format("peaks of at most {} bytes", kMostBytes), "more",
                           "dump the snapshot again"};
    if (devices_.size() > 1)
      log.notes.push_back(fmt::format(
          "The snapshot has {} GPUs; this is GPU {}, which has the most memory.", devices_.size(),
          number));
    if (device.events > 0) {
      log.allocated = core::Bytes(std::llround(device.allocated_peak));
      log.reserved = core::Bytes(std::llround(device.reserved_peak));
      log.notes.push_back(fmt::format(
          "Peaks are those of the {} events that the snapshot holds. What came before them is not "
          "in it.",
          device.events));
    } else {
      log.reserved = core::Bytes(std::llround(device.reserved));
      log.notes.push_back(fmt::format(
          "It holds no history, so it tells no peak: {} were allocated at its moment. For peaks "
          "call torch.cuda.memory._record_memory_history(context=None) before the steps.",
          core::to_text(core::Bytes(std::llround(device.allocated)))));
    }
    if (device.lacked)
      log.notes.push_back(fmt::format("Memory ran out: {} were asked for, and the GPU had {} left.",
                                      core::to_text(*device.lacked), core::to_text(*device.left)));
    return log;
  }

  const Pickle& pickle_;
  const std::string& name_;
  std::map<std::int64_t, Device> devices_;
  std::optional<core::Problem> problem_;
};

}  // namespace

core::Result<TrainingLog> read_snapshot(std::string_view text, const std::string& name) {
  const core::Result<Pickle> pickle = Pickle::read(text, name);
  if (!pickle.ok()) return pickle.problems();
  return SnapshotReader(*pickle, name).read();
}

}  // namespace reports::logs
