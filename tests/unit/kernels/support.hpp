#pragma once
// What the kernel tests share: typed buffers that start as NaN, seeded values, exact-size
// workspaces, central differences.

#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory_resource>
#include <random>
#include <vector>

#include "exec/host/convert.hpp"
#include "exec/host/kernels.hpp"
#include "tests/catch.hpp"

namespace kernel_tests {

using namespace exec::host;
using core::DType;
using Values = std::vector<double>;

// Uniform in [-1, 1), the same on every platform.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  double operator()() { return static_cast<double>(engine_() >> 11) * 0x1p-52 - 1.0; }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n));
  }

 private:
  std::mt19937_64 engine_;
};

// n elements of a type, NaN until written; of the default memory resource, which a test of a device
// may set to memory that the device reaches.
class Buffer {
 public:
  using Bytes = std::pmr::vector<std::uint8_t>;
  Buffer(DType type, std::int64_t n)
      : type_(type),
        n_(n),
        bytes_(static_cast<std::size_t>(core::bytes_of(n, type).value()) + kGuard, 0xff) {}
  Buffer(DType type, const Values& values)
      : Buffer(type, static_cast<std::int64_t>(values.size())) {
    set(values);
  }
  View view() { return {bytes_.data(), type_}; }
  operator View() { return view(); }  // NOLINT: a buffer is what kernels take
  std::int64_t size() const { return n_; }
  void set(const Values& values) { store(view(), n_, values.data()); }
  Values values() {
    Values out(static_cast<std::size_t>(n_));
    load(view(), n_, out.data());
    return out;
  }
  double at(std::int64_t i) { return get<double>(view(), i); }
  void put_at(std::int64_t i, double x) { put(view(), i, x); }
  const Bytes& bytes() const { return bytes_; }
  friend bool operator==(const Buffer& a, const Buffer& b) { return a.bytes_ == b.bytes_; }

 private:
  static constexpr std::size_t kGuard = 64;  // compared too: nobody may write there
  DType type_;
  std::int64_t n_;
  Bytes bytes_;
};

inline Buffer random(Random& r, DType type, std::int64_t n, double size = 1.0) {
  Values v(static_cast<std::size_t>(n));
  for (double& x : v) x = size * r();
  return Buffer(type, v);
}

inline Buffer zeros(DType type, std::int64_t n) {
  return Buffer(type, Values(static_cast<std::size_t>(n)));
}

// The same values in another type.
inline Buffer as(DType type, Buffer b) { return Buffer(type, b.values()); }

// Exactly what the kernel asked for, NaN at the start.
class Scratch {
 public:
  explicit Scratch(core::Bytes size) : bytes_(static_cast<std::size_t>(size.value()), 0xff) {}
  operator Workspace() {  // NOLINT: passed as one
    return Workspace(bytes_.data(), core::Bytes(static_cast<std::int64_t>(bytes_.size())));
  }

 private:
  std::vector<std::uint8_t> bytes_;
};

class Tokens {
 public:
  Tokens(Random& r, std::int64_t n, std::int64_t below) : ids(static_cast<std::size_t>(n)) {
    for (auto& t : ids) t = static_cast<std::int32_t>(r.below(below));
  }
  operator View() { return {ids.data(), DType::i32}; }  // NOLINT
  std::pmr::vector<std::int32_t> ids;
};

inline double dot(Buffer& a, Buffer& b) {
  const Values x = a.values(), y = b.values();
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

// gradient[i] must be d loss / d x[i], by central differences of step 1e-5 in f64: their truncation
// error is third derivative x h^2 / 6, about 1e-10 here, and rounding adds 1e-16 |loss| / h =
// 1e-10.
inline void check_gradient(Buffer& x, Buffer& gradient, const std::function<double()>& loss) {
  constexpr double kStep = 1e-5;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const double old = x.at(i);
    x.put_at(i, old + kStep);
    const double above = loss();
    x.put_at(i, old - kStep);
    const double below = loss();
    x.put_at(i, old);
    CAPTURE(i);
    CHECK(gradient.at(i) == Approx((above - below) / (2 * kStep)).epsilon(1e-6).margin(2e-8));
  }
}

// After accumulating on top of `before`.
inline Buffer minus(Buffer after, Buffer before) {
  Values a = after.values();
  const Values b = before.values();
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return Buffer(DType::f64, a);
}

// Unit roundoff: half the distance of 1 to its neighbour.
inline double roundoff(DType t) {
  switch (t) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::bf16: return 0x1p-8;
    case DType::f16: return 0x1p-11;
    default: return 0;
  }
}

constexpr auto f64 = DType::f64;
constexpr auto f32 = DType::f32;

}  // namespace kernel_tests
