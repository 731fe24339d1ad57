#pragma once
// Meetings: work of a twin's stream that is over only when other processes have come to their part
// of it, as a kernel of a communication library is. The twin's binary exports planner_twin_meet();
// a fake of the library finds it there (tests/fake_nccl). A meeting that waits does not hold up the
// other streams. Where all that every device has left are meetings that wait, none will ever be
// over: each device says that it is stuck, and the fake, which sees all of them, names the circle.

#include <cstdint>
#include <memory>

extern "C" {

// What the fake does; `self` is its own. Called by whichever thread waits for the device, one at a
// time per device.
struct planner_twin_meeting {
  void* self;
  int (*may_begin)(void* self);             // else it waits for earlier ones of this device
  void (*begin)(void* self);                // its stream has come to it: reads what it sends
  int (*is_over)(void* self);               // all others have come, or it was ended
  void (*finish)(void* self);               // writes what it received
  std::uint64_t (*board_now)(void* self);   // how often anything has changed among all processes
  // Nothing can run here, and could not when the board was `then`.
  void (*stuck)(void* self, std::uint64_t then);
  void (*release)(void* self);              // it is over, or forgotten
  // Of a meeting that is kept: one more of the same call, as `self` of its own.
  void* (*again)(void* self);
};

// Whether what this stream is given is kept as a graph: a meeting is then never held itself, but
// each launch of the graph makes one of it, in the order in which they were kept.
__attribute__((visibility("default"))) int planner_twin_keeps(void* stream);
// Gives it to a stream of a twin of this process.
__attribute__((visibility("default"))) void planner_twin_meet(void* stream,
                                                              const planner_twin_meeting* meeting);
// The fake takes memory of the stream's device; returns the device, which it gives it back to.
__attribute__((visibility("default"))) void* planner_twin_take(void* stream, std::int64_t bytes);
__attribute__((visibility("default"))) void planner_twin_give_back(void* device,
                                                                   std::int64_t bytes);
// Memory of the device that the calling thread has bound, which the fake gives its caller.
__attribute__((visibility("default"))) void* planner_twin_allocate(std::int64_t bytes);
__attribute__((visibility("default"))) void planner_twin_release(void* memory);
}

namespace exec::cuda {

// A meeting that was given to a stream.
class Meeting {
 public:
  explicit Meeting(const planner_twin_meeting& calls) : calls_(calls) {}
  std::unique_ptr<Meeting> again() const {
    planner_twin_meeting calls = calls_;
    calls.self = calls_.again(calls_.self);
    return std::make_unique<Meeting>(calls);
  }
  ~Meeting() { calls_.release(calls_.self); }
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  bool may_begin() const { return calls_.may_begin(calls_.self) != 0; }
  void begin() {
    begun = true;
    calls_.begin(calls_.self);
  }
  bool is_over() const { return calls_.is_over(calls_.self) != 0; }
  void finish() const { calls_.finish(calls_.self); }
  std::uint64_t board_now() const { return calls_.board_now(calls_.self); }
  void stuck(std::uint64_t then) const { calls_.stuck(calls_.self, then); }

  bool begun = false;

 private:
  planner_twin_meeting calls_;
};

}  // namespace exec::cuda
