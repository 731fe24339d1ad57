#pragma once
// CUPTI as cupti_activity.h states it, played on the host: what is launched is recorded while its
// kind is enabled, with an external record before it where the launching thread has pushed a
// number; records come back in buffers that were asked for. Records are those of the newest header
// that this is compiled with, longer than what is read of them.

#include "exec/cuda/runtime/cupti.hpp"

namespace fake_cupti {

// What it answers; reset() makes it answer as it should.
struct Answers {
  std::uint32_t version = CUPTI_API_VERSION;
  CUptiResult subscribe = CUPTI_SUCCESS;
  CUpti_ActivityKind refused_kind = CUPTI_ACTIVITY_KIND_INVALID;
  CUptiResult refused_with = CUPTI_SUCCESS;
  std::size_t dropped = 0;
  CUptiResult flush = CUPTI_SUCCESS;   // what it says once it has flushed
  bool cuts_last = false;              // a buffer's last record is incomplete
  std::size_t records_per_buffer = 64;
  bool newest_first = false;           // the order in which buffers come back
};
inline Answers answers;
void reset();

exec::cuda::Cupti calls();

// Of the calling thread, now; moments in nanoseconds after the fake's zero().
void launch(const char* mangled, std::uint64_t start, std::uint64_t end, bool of_graph = false);
void copy(std::uint8_t kind, std::uint64_t start, std::uint64_t end);
void fill(std::uint64_t start, std::uint64_t end);

// Seconds of the steady clock, at reset().
double zero();
std::size_t enabled_kinds();
int subscribers();

}  // namespace fake_cupti
