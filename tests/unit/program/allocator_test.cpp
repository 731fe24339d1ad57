#include "sim/program/allocator.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "tests/catch.hpp"

using core::Bytes;
using core::kib;
using core::mib;
using program::Arena;
using program::CachingAllocator;
using program::Place;

static std::int64_t offset(const Place& place) { return place.offset; }

TEST_CASE("the arena rounds to 256 bytes and packs from the bottom") {
  Arena a;
  CHECK(offset(a.allocate(Bytes(1))) == 0);
  CHECK(offset(a.allocate(Bytes(257))) == 256);
  CHECK(offset(a.allocate(Bytes(512))) == 768);  // 256 + 512
  CHECK(a.reserved() == Bytes(1280));
}

TEST_CASE("the arena takes the smallest block that fits, the lowest on ties") {
  Arena a;
  const auto big = a.allocate(Bytes(1024));   // 0
  a.allocate(Bytes(256));                     // 1024
  const auto small = a.allocate(Bytes(512));  // 1280
  a.allocate(Bytes(256));                     // 1792
  const auto twin = a.allocate(Bytes(512));   // 2048
  a.allocate(Bytes(256));                     // 2560
  a.free(big);
  a.free(twin);
  a.free(small);
  CHECK(offset(a.allocate(Bytes(512))) == 1280);
  CHECK(offset(a.allocate(Bytes(512))) == 2048);
  CHECK(offset(a.allocate(Bytes(512))) == 0);
  CHECK(offset(a.allocate(Bytes(512))) == 512);
  CHECK(a.reserved() == Bytes(2816));
}

TEST_CASE("the arena merges a freed block with both neighbours and extends the one at its end") {
  Arena a;
  const auto x = a.allocate(Bytes(256)), y = a.allocate(Bytes(256)), z = a.allocate(Bytes(256));
  a.free(x);
  a.free(z);
  a.free(y);
  CHECK(offset(a.allocate(Bytes(768))) == 0);
  CHECK(a.reserved() == Bytes(768));
  a.free({0, 0});
  CHECK(offset(a.allocate(Bytes(1024))) == 0);  // 768 free at the end grow by 256
  CHECK(a.reserved() == Bytes(1024));
  a.reset();
  CHECK(a.reserved() == Bytes(0));
}

TEST_CASE("the caching allocator rounds to 512 bytes in 2 MiB segments up to 1 MiB") {
  CachingAllocator a;
  CHECK(offset(a.allocate(Bytes(1))) == 0);
  CHECK(offset(a.allocate(Bytes(513))) == 512);
  CHECK(offset(a.allocate(Bytes(512))) == 1536);  // 512 + 1024
  CHECK(a.reserved() == mib(2));
  a.allocate(mib(1));
  CHECK(a.reserved() == mib(2));
  a.allocate(mib(1));  // 1 MiB less 2 KiB are left
  CHECK(a.reserved() == mib(4));
}

TEST_CASE("the caching allocator takes 20 MiB segments below 10 MiB and 2 MiB multiples above") {
  CachingAllocator a;
  a.allocate(mib(1) + Bytes(1));
  CHECK(a.reserved() == mib(20));
  CHECK(offset(a.allocate(mib(9))) == mib(1).value() + 512);  // from the same segment
  CHECK(a.reserved() == mib(20));
  CachingAllocator b;
  b.allocate(mib(10));
  CHECK(b.reserved() == mib(10));
  b.allocate(mib(10) + Bytes(1));  // 10 MiB + 512 B round to 12 MiB
  CHECK(b.reserved() == mib(22));
}

TEST_CASE("a large block is split only when more than 1 MiB remains") {
  CachingAllocator a;
  const auto x = a.allocate(mib(12));
  a.free(x);
  CHECK(a.allocate(mib(11)) == x);  // 1 MiB remains: not split
  a.allocate(mib(1) + Bytes(1));
  CHECK(a.reserved() == mib(32));   // so it needs a new segment of 20 MiB
  CachingAllocator b;
  b.free(b.allocate(mib(12)));
  b.allocate(mib(11) - Bytes(512));  // 1 MiB + 512 B remain: split
  CHECK(offset(b.allocate(mib(1) + Bytes(1))) == mib(11).value() - 512);
  CHECK(b.reserved() == mib(12));
}

TEST_CASE("small and large pools do not lend to each other and segments do not merge") {
  CachingAllocator a;
  const auto large = a.allocate(mib(12));
  a.free(large);
  a.allocate(kib(4));
  CHECK(a.reserved() == mib(14));
  a.free(a.allocate(mib(12)));
  CHECK(a.reserved() == mib(14));
  const auto x = a.allocate(mib(12)), y = a.allocate(mib(12));
  a.free(x);
  a.free(y);
  a.allocate(mib(24));
  CHECK(a.reserved() == mib(14 + 12 + 24));
}

TEST_CASE("segments return to the device only on demand") {
  CachingAllocator a(mib(40));
  const auto x = a.allocate(mib(30));
  a.free(x);
  CHECK(a.reserved() == mib(30));
  CHECK(offset(a.allocate(mib(34))) >= 0);  // does not fit beside: the 30 MiB are returned first
  CHECK(a.reserved() == mib(34));
  CHECK(a.allocate(mib(10)) == CachingAllocator::kOutOfMemory);
  a.empty_cache();
  CHECK(a.reserved() == mib(34));
}

TEST_CASE("an extreme sequence leaves over 30 % of reserved memory unusable (M8)") {
  // Each segment of 20 MiB holds 9 MiB kept, 9 MiB freed again and 2 MiB never used: a hole of
  // 11 MiB that a request of 12 MiB cannot use. 64 x 11 of 64 x 20 + 96 MiB = 51 %.
  CachingAllocator a;
  std::vector<Place> holes;
  Bytes live{};
  for (int i = 0; i < 64; ++i) {
    const auto kept = a.allocate(mib(9));
    CHECK(kept.offset >= 0);
    holes.push_back(a.allocate(mib(9)));
    live += mib(9);
  }
  for (const auto hole : holes) a.free(hole);
  const Bytes before = a.reserved();
  for (int i = 0; i < 8; ++i) a.allocate(mib(12));
  live += mib(96);
  CHECK(a.reserved() == before + mib(96));  // not one of the holes could serve
  CHECK(1.0 - live / a.reserved() > 0.30);
}

namespace {

// Random traffic: no two live blocks may overlap, whatever the model.
template <class Allocator>
void check_disjoint(unsigned seed, int largest) {
  CAPTURE(seed);
  std::mt19937 random(seed);
  Allocator a;
  std::map<std::int64_t, std::pair<std::int64_t, Place>> live;  // bytes by offset
  for (int i = 0; i < 2000; ++i) {
    if (!live.empty() && random() % 5 < 2) {
      auto victim = live.begin();
      std::advance(victim, random() % live.size());
      a.free(victim->second.second);
      live.erase(victim);
      continue;
    }
    const auto bytes = static_cast<std::int64_t>(random() % static_cast<unsigned>(largest)) + 1;
    const Place place = a.allocate(Bytes(bytes));
    const std::int64_t offset = place.offset;
    const auto after = live.lower_bound(offset);
    REQUIRE((after == live.end() || offset + bytes <= after->first));
    if (after != live.begin()) {
      const auto before = std::prev(after);
      REQUIRE(before->first + before->second.first <= offset);
    }
    live.emplace(offset, std::pair(bytes, place));
  }
}

}  // namespace

TEST_CASE("live blocks never overlap") {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    check_disjoint<Arena>(seed, 5000);
    check_disjoint<CachingAllocator>(seed, 5000);
    check_disjoint<CachingAllocator>(seed, 30 << 20);
  }
}

TEST_CASE("the arena places a repeated sequence alike, whatever grew before") {
  // A hole of 3 units and a free end of 2: a request of 2 takes the hole both times, though the end
  // fits it better the first time and is far larger the second.
  Arena a;
  const auto unit = [](std::int64_t n) { return core::Bytes(n * Arena::kAlignment); };
  const auto step = [&] {
    const auto hole = a.allocate(unit(3)), between = a.allocate(unit(1)), end = a.allocate(unit(2));
    a.free(hole);
    a.free(end);
    const auto wanted = a.allocate(unit(2)), large = a.allocate(unit(9));
    for (auto x : {between, wanted, large}) a.free(x);
    return std::vector{hole.offset, between.offset, end.offset, wanted.offset, large.offset};
  };
  const auto first = step();
  const core::Bytes reserved = a.reserved();
  CHECK(first[3] == first[0]);
  CHECK(step() == first);
  CHECK(a.reserved() == reserved);
}

TEST_CASE("the arena merges all that is given back") {
  std::mt19937 random(7);
  Arena a;
  std::vector<Place> live;
  for (int i = 0; i < 500; ++i) live.push_back(a.allocate(Bytes(random() % 4096 + 1)));
  const Bytes full = a.reserved();
  std::shuffle(live.begin(), live.end(), random);
  for (const auto place : live) a.free(place);
  CHECK(offset(a.allocate(full)) == 0);
  CHECK(a.reserved() == full);
}
