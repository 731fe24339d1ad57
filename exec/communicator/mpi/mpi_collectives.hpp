#pragma once
// MPI's own collectives over one group, for a rank of it. Sums and maxima are this program's
// (combine() of reduce.hpp as an MPI operation), so that 16-bit floats and NaN mean the same; only
// their order is the library's. The progress thread runs them without blocking.
// Thread-safety: one thread at a time per group; groups are independent.

#include <mpi.h>

#include "exec/communicator/library_collectives.hpp"
#include "exec/communicator/mpi/engine.hpp"

namespace exec {

class MpiCollectives final : public LibraryCollectives {
 public:
  // comm's ranks are the group's indices.
  MpiCollectives(Engine& engine, MPI_Comm comm, int size, int index)
      : engine_(engine), comm_(comm), size_(size), index_(index) {}

  void all_reduce(void* buffer, std::int64_t n, core::DType type, program::ReduceOp op) override;
  void reduce_scatter(void* buffer, std::int64_t n, void* chunk, core::DType type,
                      program::ReduceOp op) override;
  void all_gather(const void* chunk, void* full, std::int64_t n, core::DType type) override;

 private:
  Engine& engine_;
  MPI_Comm comm_;
  int size_, index_;
};

}  // namespace exec
