#include "exec/communicator/mpi/call.hpp"

namespace exec::mpi {

// Beyond that: one element of a type made of blocks and the rest behind them.
Bytes::Bytes(std::size_t size, std::size_t longest_plain) : count_(1) {
  if (size <= longest_plain) {
    count_ = static_cast<int>(size);
    return;
  }
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  MPI_Datatype block = MPI_DATATYPE_NULL;
  call(MPI_Type_contiguous(static_cast<int>(kBlock), MPI_BYTE, &block), "MPI_Type_contiguous");
  std::array<int, 2> counts{static_cast<int>(size / kBlock), static_cast<int>(size % kBlock)};
  std::array<MPI_Aint, 2> at{0, static_cast<MPI_Aint>(size / kBlock * kBlock)};
  std::array<MPI_Datatype, 2> types{block, MPI_BYTE};
  call(MPI_Type_create_struct(2, counts.data(), at.data(), types.data(), &type_),
       "MPI_Type_create_struct");
  call(MPI_Type_commit(&type_), "MPI_Type_commit");
  MPI_Type_free(&block);
}

// MPI keeps it until the messages that use it are through.
Bytes::~Bytes() {
  if (type_ != MPI_BYTE) MPI_Type_free(&type_);
}

}  // namespace exec::mpi
