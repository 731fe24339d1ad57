#include "core/units.hpp"

#include <type_traits>

#include "core/dtype.hpp"
#include "tests/catch.hpp"

using namespace core;

template <class A, class B>
concept Addable = requires(A a, B b) { a + b; };

static_assert(Addable<Bytes, Bytes>);
static_assert(!Addable<Bytes, Seconds>);
static_assert(!Addable<AlgorithmBandwidth, BusBandwidth>);
static_assert(!std::is_convertible_v<int, Bytes>);
static_assert(gib(1) != gigabytes(1));

TEST_CASE("bytes over a bandwidth are seconds") {
  CHECK((gigabytes(3) / BytesPerSecond(1.5e9)).value() == 2.0);
  CHECK(to_picoseconds(Seconds(1e-6)) == Picoseconds(1'000'000));
}

TEST_CASE("bytes of sub-byte types round up to whole bytes") {
  CHECK(bytes_of(3, DType::nf4) == Bytes(2));
  CHECK(bytes_of(3, DType::bf16) == Bytes(6));
}
