#pragma once
// ActivityLibrary: what the device itself records of the work that it does, through a library that
// is opened while running (CUPTI). Work that is given between push() and pop() carries that number;
// work of a graph carries none. One at a time of a process; push() and pop() from any thread, the
// rest from one at a time.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace exec::cuda {

// A kernel, a copy or a fill. Moments are seconds of the steady clock.
struct DeviceRecord {
  std::string name;
  std::uint64_t giver = 0;             // the number that it was given under; 0: under none
  bool of_graph = false;
  double start = 0, finish = 0;
};

struct DeviceRecords {
  std::vector<DeviceRecord> all;       // in no order
  std::uint64_t lost = 0;              // that were dropped, or came without their moments
  std::string failed;                  // why more may be missing; empty: nothing failed
};

class ActivityLibrary {
 public:
  virtual ~ActivityLibrary() = default;

  virtual std::string name() const = 0;  // "CUPTI 13.0"
  // Records work that is given from now on, until stop(). The text says why it cannot, and is empty
  // where it can.
  virtual std::string start() = 0;
  virtual void stop() = 0;
  // Of the calling thread. number: not 0.
  virtual void push(std::uint64_t number) = 0;
  virtual void pop() = 0;
  // What was recorded since the last call. REQUIRES: stopped, and all that was given is done.
  virtual DeviceRecords take() = 0;
};

struct OpenedActivity {
  std::unique_ptr<ActivityLibrary> library;
  std::string absent;                  // why there is none, and what to do about it
};

}  // namespace exec::cuda
