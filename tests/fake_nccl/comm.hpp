#pragma once
// One rank's end of a communicator of the fake NCCL, and the words that say what goes wrong.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exec/cuda/nccl/abi.hpp"
#include "tests/fake_nccl/board.hpp"

namespace fake_nccl {

// Of PLANNER_FAKE_NCCL (nccl.cpp lists them).
std::int64_t number(const char* name, std::int64_t otherwise);

// A rank of the job, and the order of its calls.
struct Device {
  int rank = 0;
  std::mutex mutex{};
  std::int64_t given = 0;
  // Numbers of calls that are not over, without those that hold up no other.
  std::deque<std::int64_t> under_way{};

  // Whether the words that name a rank name this one, or none.
  bool is_meant() const {
    const std::int64_t named = number("rank", -1);
    return named < 0 || named == rank;
  }
};

}  // namespace fake_nccl

namespace exec::cuda::nccl {

// Kept until the process ends: work may refer to it.
struct CommOf {
  fake_nccl::Board* board = nullptr;   // of all communicators of this rank
  fake_nccl::Device* device = nullptr;
  std::string name;                    // of all its ends
  int rank = 0, ranks = 1;
  int splits = 0;
  int channels = 0;
  std::mutex asking;                   // one at a time asks how far it is
  std::mutex mutex;                    // guards what follows
  Result state = kSuccess;             // as ncclCommGetAsyncError tells
  std::string error;
  std::deque<std::function<Result()>> going;  // steps that are done when it is asked; in progress
  bool aborted = false;
  std::int64_t collectives = 0;
  std::map<int, std::int64_t> sent, received;  // by peer
  std::deque<std::int64_t> calls;      // that are not over: they run in this order on any streams
  bool connected = false;              // for collectives
  std::set<std::pair<int, bool>> peers;  // connected to send, or to receive
  void* tuner = nullptr;               // contexts of plugins
  void* profiler = nullptr;
  std::vector<void*> registered;       // memory that it reaches
  struct Window {
    const std::byte* start;
    std::size_t bytes;
  };
  std::vector<Window> windows;         // symmetric ones
  int windows_made = 0;
  void* memory_of = nullptr;           // the device that the connections' buffers lie on
  std::int64_t buffers = 0;            // bytes of them
};

}  // namespace exec::cuda::nccl

namespace fake_nccl {

// Where memory lies in a symmetric window of this end; -1: in none.
std::int64_t place_in_window(exec::cuda::nccl::CommOf& comm, const void* memory);
// What each end says of itself, and then every end of the others: `goes_on` when all said the same.
// Adds to what is in progress; the caller holds comm's mutex.
void begin_claims(exec::cuda::nccl::Comm comm, const std::string& name, const std::string& claim,
                  const std::string& otherwise);

// An end that is aborted no longer reaches any memory (memory.cpp).
void let_go(exec::cuda::nccl::CommOf& comm);

}  // namespace fake_nccl

#define FAKE_NCCL extern "C" __attribute__((visibility("default")))
