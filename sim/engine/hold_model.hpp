#pragma once
// The hold model [hold]: the classic measure of pending-event structures. `pending` events
// wait; each operation takes the first and puts it back an exponentially distributed time later, so
// the number pending stays. Deterministic by seed; the time it takes is the caller's to measure.

#include <cstddef>
#include <cstdint>

#include "sim/engine/event_queue.hpp"

namespace engine {

class HoldModel {
 public:
  // Times are spaced as the actions of a step are: `mean` picoseconds ahead on average.
  HoldModel(std::size_t pending, std::uint64_t seed, double mean = 50e6);

  // Returns a digest of the times popped, so that no work can be left out.
  std::uint64_t run(std::int64_t operations);

  const EventQueue& queue() const { return queue_; }

 private:
  static constexpr std::size_t kDelays = std::size_t{1} << 14;
  EventQueue queue_;
  std::vector<std::int64_t> delays_;   // drawn once: the generator is not what is measured
  std::size_t next_ = 0;
};

}  // namespace engine
