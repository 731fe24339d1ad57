#include "tests/fake_nccl/sums.hpp"

#include <cstdlib>

#include "exec/communicator/reduce.hpp"

namespace fake_nccl {

using namespace exec::cuda::nccl;

namespace {

core::DType type_of(Type type) {
  switch (type) {
    case kInt32: return core::DType::i32;
    case kFloat16: return core::DType::f16;
    case kFloat32: return core::DType::f32;
    case kFloat64: return core::DType::f64;
    case kBfloat16: return core::DType::bf16;
    case kUint8: return core::DType::u8;
  }
  std::abort();                        // a type that the interface does not have here
}

}  // namespace

std::size_t size_of(Type type) { return static_cast<std::size_t>(core::bits(type_of(type))) / 8; }

void add_into(std::vector<std::byte>& into, const std::vector<std::byte>& from, Type type, Op op) {
  exec::combine(into.data(), from.data(), into.data(),
                static_cast<std::int64_t>(into.size() / size_of(type)), type_of(type),
                op == kSum ? program::ReduceOp::sum : program::ReduceOp::max);
}

}  // namespace fake_nccl
