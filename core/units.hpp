#pragma once
// Units as types: bytes, durations, floating-point operations and their rates. Each is 8 bytes,
// explicitly constructed; adding Bytes to Seconds does not compile, GiB and GB are different
// functions, and algorithm bandwidth is not bus bandwidth (nccl-tests doc/PERFORMANCE.md).
// A raw number appears only at a file, print or library border, with its unit in the name.

#include <compare>
#include <cstdint>

namespace core {

template <class Tag, class Rep>
class Quantity {
 public:
  using rep = Rep;
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }

  constexpr Quantity& operator+=(Quantity b) { value_ += b.value_; return *this; }
  constexpr Quantity& operator-=(Quantity b) { value_ -= b.value_; return *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.value_ * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(a.value_ * k); }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return Quantity(a.value_ / k); }
  // The ratio of two like quantities has no unit.
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value_) / static_cast<double>(b.value_);
  }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  Rep value_{};
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Picoseconds = Quantity<struct PicosecondsTag, std::int64_t>;  // the clock of every evaluator
using Seconds = Quantity<struct SecondsTag, double>;                // files and people
using Flops = Quantity<struct FlopsTag, double>;                    // multiply and add count two
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;      // a link or a memory
using AlgorithmBandwidth = Quantity<struct AlgorithmBandwidthTag, double>;  // payload / time, B/s
using BusBandwidth = Quantity<struct BusBandwidthTag, double>;              // algbw x factor, B/s

constexpr Bytes kib(std::int64_t n) { return Bytes(n << 10); }
constexpr Bytes mib(std::int64_t n) { return Bytes(n << 20); }
constexpr Bytes gib(std::int64_t n) { return Bytes(n << 30); }
constexpr Bytes gigabytes(std::int64_t n) { return Bytes(n * 1'000'000'000); }

constexpr Seconds operator/(Bytes b, BytesPerSecond r) {
  return Seconds(static_cast<double>(b.value()) / r.value());
}
constexpr Seconds operator/(Flops f, FlopsPerSecond r) { return Seconds(f.value() / r.value()); }
constexpr Seconds to_seconds(Picoseconds p) {
  return Seconds(static_cast<double>(p.value()) * 1e-12);
}
// Rounds to the nearest picosecond. REQUIRES: 0 <= s < 9.2e6 (106 days).
constexpr Picoseconds to_picoseconds(Seconds s) {
  return Picoseconds(static_cast<std::int64_t>(s.value() * 1e12 + 0.5));
}

static_assert(sizeof(Bytes) == 8 && sizeof(Seconds) == 8 && sizeof(Picoseconds) == 8);

}  // namespace core
