#pragma once
// LibraryCollectives: collectives that the carrier of messages has of its own (MPI's), which it
// cuts, orders and routes as it likes: the sum is one of many roundings, and its bytes on the wire
// are not known here. Arguments as in Communicator. Thread-safety: one thread at a time.

#include <cstdint>

#include "core/dtype.hpp"
#include "sim/program/collective.hpp"

namespace exec {

class LibraryCollectives {
 public:
  virtual ~LibraryCollectives() = default;

  virtual void all_reduce(void* buffer, std::int64_t n, core::DType type,
                          program::ReduceOp op) = 0;
  virtual void reduce_scatter(void* buffer, std::int64_t n, void* chunk, core::DType type,
                              program::ReduceOp op) = 0;
  virtual void all_gather(const void* chunk, void* full, std::int64_t n, core::DType type) = 0;
};

}  // namespace exec
