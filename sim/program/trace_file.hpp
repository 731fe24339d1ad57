#pragma once
// A trace in the format that is wanted, up to a size: once it is larger, what comes is left out and
// full() says so. Not thread-safe.

#include <limits>
#include <string>
#include <variant>

#include "sim/program/trace_packets.hpp"
#include "sim/program/trace_text.hpp"

namespace program {

inline constexpr std::size_t kAnySize = std::numeric_limits<std::size_t>::max();

class TraceFile {
 public:
  explicit TraceFile(TraceFormat format, std::size_t most_bytes = kAnySize)
      : most_bytes_(most_bytes) {
    if (format == TraceFormat::perfetto) writer_.emplace<TracePackets>();
  }

  // As TraceText has them.
  void begin_rank(int rank, const RankClass& rank_class) {
    write([&](auto& w) { w.begin_rank(rank, rank_class); });
  }
  void thread(int number, std::string_view name) {
    write([&](auto& w) { w.thread(number, name); });
  }
  void slice(const TraceSlice& slice) {
    write([&](auto& w) { w.slice(slice); });
  }
  void memory(std::int64_t at, const TermBytes& level) {
    write([&](auto& w) { w.memory(at, level); });
  }

  bool full() const { return full_; }
  std::string finish() {
    return std::visit([](auto& w) { return w.finish(); }, writer_);
  }

 private:
  template <class Write>
  void write(const Write& what) {
    if (full_) return;
    std::visit(what, writer_);
    full_ = std::visit([](const auto& w) { return w.size(); }, writer_) > most_bytes_;
  }

  std::variant<TraceText, TracePackets> writer_;
  std::size_t most_bytes_;
  bool full_ = false;
};

}  // namespace program
