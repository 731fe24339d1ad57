#include "exec/communicator/mpi/mpi_collectives.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/check.hpp"
#include "exec/communicator/message_communicator.hpp"
#include "exec/communicator/mpi/call.hpp"
#include "exec/communicator/reduce.hpp"

namespace exec {
namespace {

using core::DType;
using mpi::call;
using program::ReduceOp;

MPI_Datatype datatype(DType type) {
  switch (type) {
    case DType::f64: return MPI_DOUBLE;
    case DType::f32: return MPI_FLOAT;
    case DType::i32: return MPI_INT32_T;
    default: break;
  }
  PLANNER_CHECK(core::bits(type) == 16, "a type that is not reduced");
  return MPI_UINT16_T;  // as bits: the operation knows what they mean
}

template <DType T, ReduceOp O>
void combine_for_mpi(void* left, void* right, int* n, MPI_Datatype*) {
  combine(static_cast<const std::byte*>(left), static_cast<const std::byte*>(right),
          static_cast<std::byte*>(right), *n, T, O);
}

template <ReduceOp O>
MPI_User_function* function(DType type) {
  switch (type) {
    case DType::f64: return combine_for_mpi<DType::f64, O>;
    case DType::f32: return combine_for_mpi<DType::f32, O>;
    case DType::i32: return combine_for_mpi<DType::i32, O>;
    case DType::bf16: return combine_for_mpi<DType::bf16, O>;
    case DType::f16: return combine_for_mpi<DType::f16, O>;
    default: break;
  }
  PLANNER_CHECK(false, "a type that is not reduced");
  return nullptr;
}

// On the progress thread alone; made once, for the life of the process.
MPI_Op operation(DType type, ReduceOp op) {
  static std::map<std::pair<DType, ReduceOp>, MPI_Op> made;
  const auto [at, fresh] = made.try_emplace({type, op}, MPI_OP_NULL);
  if (fresh) {
    MPI_User_function* const f =
        op == ReduceOp::sum ? function<ReduceOp::sum>(type) : function<ReduceOp::max>(type);
    call(MPI_Op_create(f, 1, &at->second), "MPI_Op_create");
  }
  return at->second;
}

int count(std::int64_t n) {
  if (n <= std::numeric_limits<int>::max()) return static_cast<int>(n);
  throw std::runtime_error(std::to_string(n) +
                           " elements are more than one call of MPI takes (2147483647); leave out "
                           "--collectives mpi, or use smaller buckets");
}

}  // namespace

void MpiCollectives::all_reduce(void* buffer, std::int64_t n, DType type, ReduceOp op) {
  const int elements = count(n);
  engine_.run([&] {
    MPI_Request request = MPI_REQUEST_NULL;
    call(MPI_Iallreduce(MPI_IN_PLACE, buffer, elements, datatype(type), operation(type, op), comm_,
                        &request),
         "MPI_Iallreduce");
    return request;
  });
}

void MpiCollectives::reduce_scatter(void* buffer, std::int64_t n, void* chunk, DType type,
                                    ReduceOp op) {
  const Chunks chunks(n, size_, type);
  count(n);
  std::vector<int> counts;
  for (int i = 0; i < size_; ++i) counts.push_back(static_cast<int>(chunks.elements(i)));
  const std::size_t own = chunks.bytes(index_);
  std::vector<std::byte> sum(own + 1);  // chunk may be a place of buffer
  engine_.run([&] {
    MPI_Request request = MPI_REQUEST_NULL;
    call(MPI_Ireduce_scatter(buffer, sum.data(), counts.data(), datatype(type),
                             operation(type, op), comm_, &request),
         "MPI_Ireduce_scatter");
    return request;
  });
  auto* out = static_cast<std::byte*>(chunk);
  std::copy_n(sum.data(), own, out);
  std::fill_n(out + own, chunks.chunk_bytes() - own, std::byte{0});
}

void MpiCollectives::all_gather(const void* chunk, void* full, std::int64_t n, DType type) {
  const Chunks chunks(n, size_, type);
  count(core::bytes_of(n, type).value());
  std::vector<int> counts, places;
  for (int i = 0; i < size_; ++i) {
    counts.push_back(static_cast<int>(chunks.bytes(i)));
    places.push_back(static_cast<int>(chunks.offset(i)));
  }
  auto* vector = static_cast<std::byte*>(full);
  std::memmove(vector + chunks.offset(index_), chunk, chunks.bytes(index_));
  engine_.run([&] {
    MPI_Request request = MPI_REQUEST_NULL;
    call(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, vector, counts.data(), places.data(), MPI_BYTE,
                         comm_, &request),
         "MPI_Iallgatherv");
    return request;
  });
}

}  // namespace exec
