#pragma once
// The clock by which durations are measured. Thread-safe.

#include <chrono>

namespace core {

// Seconds of the steady clock since a moment of its own.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace core
