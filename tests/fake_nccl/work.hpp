#pragma once
// What a call of the fake NCCL does when its stream has come to it: it writes what it sends to the
// board, waits until all others have done so, and moves what they sent. As a meeting of a twin
// (exec/cuda/twin/meeting.hpp) it is called by one thread at a time.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "exec/cuda/nccl/abi.hpp"

namespace fake_nccl {

// A part of a call, as the caller gave it.
struct Part {
  enum class Kind : int { all_reduce, reduce_scatter, all_gather, broadcast, send, recv } kind{};
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  exec::cuda::nccl::Type type{};
  exec::cuda::nccl::Op op{};
  int peer = 0;                        // or root
};

// The work of one communicator on one stream.
class Work {
 public:
  Work(exec::cuda::nccl::Comm comm, std::vector<Part> parts)
      : comm_(comm), parts_(std::move(parts)) {}
  // It is the next call of this rank and of its communicator. Once, before anything below.
  void give();
  // The same call, not given.
  Work* again() const { return new Work(comm_, parts_); }

  bool may_begin();
  void begin();
  bool is_over();
  void finish();
  std::uint64_t board_now() const;
  void stuck(std::uint64_t then);

 private:
  bool aborted();
  bool has_failed();
  bool is_held();
  std::size_t contributes(const Part& p) const;
  std::string part_name(std::size_t i, int rank) const;
  bool is_point_to_point(std::size_t i) const;
  bool has_come(std::size_t i) const;
  bool claims_agree();
  void complete(std::size_t i);
  std::string text() const;
  void fail(exec::cuda::nccl::Result result, const std::string& text);

  exec::cuda::nccl::Comm comm_;
  std::vector<Part> parts_;
  std::vector<std::string> names_;     // of files, by part
  std::int64_t call_ = 0;              // which of this rank's calls it is, from 1
  bool held_ = false;                  // when it was last asked: a test may let it go at any moment
};

}  // namespace fake_nccl
