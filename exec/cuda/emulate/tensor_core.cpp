#include "exec/cuda/emulate/tensor_core.hpp"

#include <string>

#include "core/check.hpp"
#include "exec/cuda/emulate/meter.hpp"

namespace emulate {
namespace {

void check_shared(const void* p, std::size_t bytes, const char* what) {
  const auto* at = static_cast<const std::byte*>(p);
  const bool inside = at >= shared() && at + bytes <= shared() + shared_bytes();
  PLANNER_CHECK(inside, std::string(kernel_name()) + ": " + what + " beyond shared memory");
  PLANNER_CHECK(reinterpret_cast<std::uintptr_t>(p) % bytes == 0,
                std::string(kernel_name()) + ": " + what + " off its alignment");
}

void carry_out(const Copy& c) {
  if (c.real)
    std::memcpy(c.to, c.from, c.bytes);
  else
    std::memset(c.to, 0, c.bytes);
}

// Eight rows are read at once: each must have its own 16 of the 128 bytes of a bank cycle.
void check_banks(const std::byte* const (&rows)[32], unsigned matrix) {
  unsigned taken = 0;
  for (unsigned i = 0; i < 8; ++i)
    taken |= 1U << reinterpret_cast<std::uintptr_t>(rows[8 * matrix + i]) / 16 % 8;
  PLANNER_CHECK(taken == 0xFF,
                std::string(kernel_name()) + ": rows of a matrix share banks of shared memory");
}

}  // namespace

void load_matrices(Word (&r)[4], const void* row, bool transposed) {
  check_shared(row, 16, "a row of a matrix");
  const std::byte* const all = exchange(&row, sizeof row);
  const std::byte* rows[32];
  for (unsigned lane = 0; lane < 32; ++lane)
    std::memcpy(&rows[lane], all + lane * kLargestExchange, sizeof row);
  const unsigned g = state().lane / 4, t = state().lane % 4;
  for (unsigned m = 0; m < 4; ++m) {
    if (state().lane == 0) check_banks(rows, m);
    std::uint16_t pair[2];
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned from = transposed ? 2 * t + i : g, column = transposed ? g : 2 * t + i;
      std::memcpy(&pair[i], rows[8 * m + from] + 2 * column, 2);
    }
    r[m] = pair[0] | static_cast<Word>(pair[1]) << 16;
  }
}

void copy_async(void* to, const void* from, unsigned bytes, bool real) {
  check_shared(to, bytes, "a copy");
  PLANNER_CHECK(reinterpret_cast<std::uintptr_t>(from) % bytes == 0,
                std::string(kernel_name()) + ": a copy from off its alignment");
  State& s = state();
  if (real && meter != nullptr) meter->read(from, bytes);
  const Copy copy{to, from, bytes, real};
  const unsigned draw =
      (s.thread.x * 2654435761U ^ s.block.x * 40503U ^ s.copies_asked++ * 2246822519U) >> 16;
  if (draw % 2 == 0) return carry_out(copy);
  s.copies.push_back(copy);
}

void await_copies() {
  for (const Copy& c : state().copies) carry_out(c);
  state().copies.clear();
}

}  // namespace emulate
