#pragma once
// DeviceRecorder: what the device itself records of the steps that are looked into, told apart by
// rank, stream and entry of the step's log. Ranks share it: the library records from the first rank
// that begins until the last that ends. Where there is no library, or it refuses, times are those
// of events alone, and text() says why. Thread-safe.

#include <mutex>

#include "exec/cuda/api/api.hpp"
#include "exec/interpret/step_log.hpp"

namespace exec::cuda {

class DeviceRecorder {
 public:
  // asked: whether anything is recorded at all. api outlives it.
  DeviceRecorder(Api& api, bool asked);

  // Of each rank, around its step; what it gave is done when it ends.
  void begin();
  void end();
  // Of the calling thread: what it gives until leave() belongs to that entry.
  void enter(int rank, program::Stream stream, std::uint32_t entry);
  void leave();

  // Once all ranks have ended: the kernels of one, by their start; nothing where none are recorded.
  std::optional<std::vector<LoggedKernel>> kernels(int rank);
  // The record's line.
  std::string text() const;

 private:
  bool records() const { return opened_.library != nullptr && why_not_.empty(); }
  void take();

  OpenedActivity opened_;
  mutable std::mutex mutex_;
  std::string why_not_;                // the library refused; written before it records
  int ranks_ = 0;                      // that are within a step
  bool began_ = false, taken_ = false;
  DeviceRecords records_;
};

}  // namespace exec::cuda
