#pragma once
// Meter: how many bytes of given memory the kernels of an emulated grid read and write. Kernels of
// the target counted_kernels are compiled with a call at every access (counted.cpp); of kernels
// that are compiled without, asynchronous copies alone are counted. One thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace emulate {

// Bytes, each counted once: a byte that is read again, or read after it was written, is taken to
// come from a cache.
struct Traffic {
  std::int64_t read = 0, written = 0;
};

class Meter {
 public:
  struct Memory {
    const std::byte* first = nullptr;
    std::size_t bytes = 0;
  };

  // Counts the accesses of this thread to this memory, from now until it is destroyed.
  explicit Meter(std::vector<Memory> memory);
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  Traffic traffic() const { return traffic_; }
  void read(const void* from, std::size_t bytes) { count(from, bytes, kRead); }
  void write(const void* to, std::size_t bytes) { count(to, bytes, kWritten); }

 private:
  static constexpr std::uint8_t kRead = 1, kWritten = 2;
  static constexpr std::uintptr_t kPage = 4096;
  using Page = std::array<std::uint8_t, kPage>;

  void count(const void* at, std::size_t bytes, std::uint8_t how);

  std::vector<Memory> memory_;
  std::unordered_map<std::uintptr_t, Page> pages_;  // what has been done to each byte
  std::uintptr_t last_ = 0;
  Page* last_page_ = nullptr;
  Traffic traffic_;
};

// Of this thread; null: nobody counts.
inline thread_local Meter* meter = nullptr;

}  // namespace emulate
