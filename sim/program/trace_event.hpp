#pragma once
// What a trace of a step consists of, in whatever format it is written (trace_text.hpp,
// trace_packets.hpp): a process for each rank, in it a thread for the passes of the schedule and
// one for each stream; slices that never overlap in a thread; messages that join a slice of one
// rank to a slice of another; live bytes over time. Value types; the texts that they view must
// outlive them.
//
// Times come as picoseconds from the start of the step and are written as nanoseconds, rounded
// down, because Perfetto has no finer unit. It would round what is finer itself, a slice's start
// apart from its length, and then drop slices that seem to overlap. Rounded down here, slices still
// follow one another; one that is shorter than a nanosecond may have no width.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <variant>

#include "sim/program/program.hpp"

namespace program {

// json: Trace Event Format, read by Perfetto and Chrome. perfetto: Perfetto's own packets, about a
// fifth of the size.
enum class TraceFormat : std::uint8_t { json, perfetto };

// Threads of a rank: its passes, its streams, and beside each stream the kernels that a device
// recorded.
inline constexpr int kPassThread = 0;
inline int stream_thread(Stream stream) { return 1 + static_cast<int>(stream); }
inline int kernel_thread(Stream stream) { return stream_thread(stream) + kStreams; }
inline constexpr int kTraceThreads = 1 + 2 * kStreams;

struct TraceArg {
  std::string_view name;               // empty: no argument
  std::variant<std::int64_t, std::string_view> value{};
};
using TraceArgs = std::array<TraceArg, 3>;

// One end of a message. Both ends have the same parties, tag and number.
struct TraceMessage {
  int from = 0, to = 0;                // ranks
  int tag = 0, number = 0;
  bool sends = false;                  // this is the sender's end
};

// Numbers messages: the same for both ends of one, another for every other. Below 2^53, which a
// browser reads exactly, up to 2^24 messages of each of 2^29 pairs.
class MessageIds {
 public:
  std::uint64_t operator()(const TraceMessage& m) {
    const std::uint64_t next = channels_.size() + 1;
    const std::uint64_t channel =
        channels_.try_emplace({m.from, m.to, m.tag}, next).first->second;
    return (channel << 24) + static_cast<std::uint64_t>(m.number);
  }

 private:
  std::map<std::tuple<int, int, int>, std::uint64_t> channels_;
};

inline constexpr std::int64_t kPicosecondsPerNanosecond = 1000;

struct TraceSlice {
  int thread = 0;
  std::string_view name, category;
  std::int64_t start = 0, finish = 0;
  TraceArgs args{};
  std::optional<TraceMessage> message{};
};

}  // namespace program
