#pragma once
// Sums and maxima of the fake NCCL, element by element, rounded once to the type as NCCL's kernels
// do. Pure functions; thread-safe.

#include <cstddef>
#include <vector>

#include "exec/cuda/nccl/abi.hpp"

namespace fake_nccl {

std::size_t size_of(exec::cuda::nccl::Type type);  // bytes of an element
// into = into op from. REQUIRES: equal sizes.
void add_into(std::vector<std::byte>& into, const std::vector<std::byte>& from,
              exec::cuda::nccl::Type type, exec::cuda::nccl::Op op);

}  // namespace fake_nccl
