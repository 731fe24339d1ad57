#pragma once
// A step as Perfetto's own packets [perfetto]: a file is a sequence of TracePacket messages, each
// field 1 of the message Trace. A rank is a process track, a stream a thread track under it, live
// bytes are counter tracks: one of the sum and one of each memory term that the rank has. A slice
// is a TYPE_SLICE_BEGIN and a TYPE_SLICE_END; a message is a flow id at both of its ends. Names,
// categories and arguments are interned: each text is in the file once.
//
// Perfetto keeps process 0 and thread 0 for the idle task, so process ids are rank + 1; the names
// have the rank. The same events give the same bytes. Not thread-safe.

#include <map>
#include <string>
#include <string_view>

#include "core/protobuf.hpp"
#include "sim/program/replay.hpp"
#include "sim/program/trace_event.hpp"

namespace program {

class TracePackets {
 public:
  TracePackets();
  // As TraceText has them.
  void begin_rank(int rank, const RankClass& rank_class);
  void thread(int number, std::string_view name);
  void slice(const TraceSlice& slice);
  void memory(std::int64_t at, const TermBytes& level);

  std::size_t size() const { return file_.size(); }
  std::string finish() { return std::move(file_); }

 private:
  // Numbers texts of one kind from 1 on; a text that is new goes into the packet's interned data.
  struct Texts {
    int field;                         // of InternedData
    std::map<std::string, std::uint64_t, std::less<>> ids{};
  };
  std::uint64_t intern(Texts& texts, std::string_view text);
  std::uint64_t track(int place) const;
  void counter_track(int place, std::string_view name);
  void add_args(core::ProtoMessage& event, const TraceArgs& args);
  void write_descriptor(const core::ProtoMessage& descriptor);
  void write_event(std::int64_t at, const core::ProtoMessage& event);
  void write_packet(const core::ProtoMessage& packet);

  int rank_ = 0;
  std::array<bool, kTerms> has_term_{};
  TermBytes told_{};                   // what the counters of the terms say
  bool told_any_ = false;
  Texts categories_, names_, arg_names_, arg_texts_;
  core::ProtoMessage interned_;        // of the packet that comes next
  MessageIds message_ids_;
  std::string file_;
};

}  // namespace program
