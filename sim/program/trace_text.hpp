#pragma once
// A step as text for Perfetto and Chrome (Trace Event Format): one event a line, times as
// microseconds with three decimals. The same events give the same bytes. Not thread-safe.

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/program/replay.hpp"
#include "sim/program/trace_event.hpp"

namespace program {

class TraceText {
 public:
  // Names a rank and the threads of its streams; what follows is this rank's.
  void begin_rank(int rank, const RankClass& rank_class);
  // Names another thread of it.
  void thread(int number, std::string_view name);
  // A slice that takes no time is left out.
  void slice(const TraceSlice& slice);
  // Live bytes by term, from `at` on; terms that the rank never has are left out.
  void memory(std::int64_t at, const TermBytes& level);

  std::size_t size() const { return text_.size(); }
  std::string finish();                // the whole file; call once

 private:
  void event(std::string_view body);
  void message(const TraceSlice& slice);

  int rank_ = 0;
  std::array<bool, kTerms> has_term_{};
  MessageIds message_ids_;
  std::size_t written_ = 0;
  std::string text_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
};

// "all_reduce gradients", "send pipeline".
std::string transfer_name(const Action& action, const Transfer& transfer);
// That, "forward attention", or the kind alone.
std::string action_name(const RankClass& rank_class, const Action& action);

}  // namespace program
