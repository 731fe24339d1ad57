#pragma once
// A step as text for Perfetto and Chrome (Trace Event Format): what a simulated trace and a
// measured one have in common, so that both open beside each other. A rank is a process; its passes
// are the first thread, its streams follow. Times in picoseconds, written exactly as microseconds.
// Not thread-safe.

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/program/program.hpp"
#include "sim/program/replay.hpp"

namespace program {

class TraceText {
 public:
  static constexpr int kPassThread = 0;
  static int thread_of(Stream stream) { return 1 + static_cast<int>(stream); }
  static std::string microseconds(std::int64_t picoseconds);

  // Names a rank and its threads; what follows is this rank's.
  void begin_rank(int rank, const RankClass& rank_class);
  // Names another thread of it, with a number above its streams'.
  void thread(int number, std::string_view name);
  // args: members of a JSON object. One that takes no time is left out.
  void slice(int thread, std::string_view name, std::string_view category, std::int64_t start,
             std::int64_t finish, std::string_view args);
  // Live bytes by term, from `at` on.
  void memory(std::int64_t at, const TermBytes& level);
  // Any other event: the members of its object.
  void event(std::string_view body);

  std::string finish();                // the whole file; call once

 private:
  int rank_ = 0;
  std::size_t written_ = 0;
  std::string text_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
};

// "all_reduce gradients", "send pipeline".
std::string transfer_name(const Action& action, const Transfer& transfer);
// That, "forward attention", or the kind alone.
std::string action_name(const RankClass& rank_class, const Action& action);

}  // namespace program
