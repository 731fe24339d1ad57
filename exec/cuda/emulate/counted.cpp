// The calls that the compiler places at every access for a thread sanitizer (-fsanitize=thread),
// taken by the meter. Only the kernels of counted_kernels are compiled so, and no sanitizer is
// linked. Their names and arguments are those of LLVM's compiler-rt, tsan_interface.h, which GCC
// shares.
#include <utility>

#include "exec/cuda/emulate/meter.hpp"

namespace {

// What counting itself calls may be compiled so, too.
void read(const void* at, std::size_t bytes) {
  emulate::Meter* const taken = std::exchange(emulate::meter, nullptr);
  if (taken == nullptr) return;
  taken->read(at, bytes);
  emulate::meter = taken;
}
void write(const void* at, std::size_t bytes) {
  emulate::Meter* const taken = std::exchange(emulate::meter, nullptr);
  if (taken == nullptr) return;
  taken->write(at, bytes);
  emulate::meter = taken;
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
#define PLANNER_ACCESSES(bytes)                                            \
  void __tsan_read##bytes(const void* at) { read(at, bytes); }             \
  void __tsan_write##bytes(const void* at) { write(at, bytes); }           \
  void __tsan_unaligned_read##bytes(const void* at) { read(at, bytes); }   \
  void __tsan_unaligned_write##bytes(const void* at) { write(at, bytes); }

#pragma GCC visibility push(default)
extern "C" {

void __tsan_init() {}
void __tsan_func_entry(const void*) {}
void __tsan_func_exit() {}
PLANNER_ACCESSES(1)
PLANNER_ACCESSES(2)
PLANNER_ACCESSES(4)
PLANNER_ACCESSES(8)
PLANNER_ACCESSES(16)
void __tsan_read_range(const void* at, std::size_t bytes) { read(at, bytes); }
void __tsan_write_range(const void* at, std::size_t bytes) { write(at, bytes); }

}
#pragma GCC visibility pop
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
