// Every algorithm against a serial fold in the stated order, bit by bit, and its bytes against the
// stated volume.
#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#include "exec/communicator/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/unit/communicator/group.hpp"

using namespace exec;
using core::DType;
using program::Algorithm;
using program::Collective;
using program::ReduceOp;
using program::Traffic;
using Raw = std::vector<std::byte>;

namespace {

constexpr DType kReduced[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i32};
constexpr DType kMoved[] = {DType::f64, DType::f32, DType::bf16, DType::f16,
                            DType::i32, DType::f8,  DType::i8,   DType::u8};
constexpr Algorithm kAlgorithms[] = {Algorithm::ring, Algorithm::tree, Algorithm::naive_all_reduce,
                                     Algorithm::parameter_server};
constexpr std::int64_t kSizes[] = {0, 1, 5, 13, 64, 257};
constexpr unsigned kSeed = 20240607;

std::size_t size_of(std::int64_t n, DType t) {
  return static_cast<std::size_t>(core::bytes_of(n, t).value());
}

// Values whose sums round: the order of additions shows in the last bits.
void put_value(std::byte* at, DType type, double value) {
  const auto f = static_cast<float>(value);
  const std::uint16_t bf16 = bf16_from_float(f), f16 = f16_from_float(f);
  const auto i32 = static_cast<std::int32_t>(value * 1e6);
  switch (type) {
    case DType::f64: std::memcpy(at, &value, 8); break;
    case DType::f32: std::memcpy(at, &f, 4); break;
    case DType::i32: std::memcpy(at, &i32, 4); break;
    case DType::bf16: std::memcpy(at, &bf16, 2); break;
    case DType::f16: std::memcpy(at, &f16, 2); break;
    default: *at = static_cast<std::byte>(i32 & 0xff); break;
  }
}

std::vector<Raw> random_vectors(int ranks, std::int64_t n, DType type, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, 3);
  std::vector<Raw> vectors(static_cast<std::size_t>(ranks), Raw(size_of(n, type)));
  for (Raw& v : vectors) {
    for (std::int64_t i = 0; i < n; ++i) {
      put_value(v.data() + size_of(i, type), type, normal(generator));
    }
  }
  return vectors;
}

// The serial reference: program::reduction_order followed on copies, chunk by chunk.
Raw reduced(const std::vector<Raw>& vectors, std::int64_t n, DType type, ReduceOp op, Algorithm a) {
  const int k = static_cast<int>(vectors.size());
  const std::int64_t each = program::padded(n, k) / k;
  Raw result(size_of(n, type));
  for (int chunk = 0; chunk < k; ++chunk) {
    const std::int64_t first = std::min(n, chunk * each), last = std::min(n, first + each);
    std::vector<Raw> acc = vectors;
    const program::ReductionOrder order = program::reduction_order(a, k, chunk);
    const std::size_t at = size_of(first, type);
    for (const program::ReductionStep& s : order.steps) {
      combine(acc[s.into].data() + at, acc[s.from].data() + at, acc[s.into].data() + at,
              last - first, type, op);
    }
    if (last > first) {
      std::memcpy(result.data() + at, acc[order.result].data() + at, size_of(last - first, type));
    }
  }
  return result;
}

// One rank's only entry, or zeros.
TrafficTotals only_entry(const Communicator& c) {
  const auto& entries = c.statistics().entries;
  if (entries.empty()) return {};
  // Thrown, not CHECKed: Catch2 assertions belong to the main thread.
  if (entries.size() != 1 || entries.begin()->first.group_size != c.size()) {
    throw std::runtime_error("expected one entry, of this group's size");
  }
  return entries.begin()->second;
}

core::Bytes stated_wire(Collective c, Algorithm a, int k, int index, std::int64_t n, DType type) {
  if (a != Algorithm::parameter_server) return program::wire_bytes(c, a, k, index, n, type);
  const auto t = program::server_traffic(k, 1, true, index, n, type, type);
  return index == 0 ? t.push_per_worker + t.reply_per_server : t.push_per_worker;
}

void check_all_reduce(Algorithm a, int k, std::int64_t n, DType type, ReduceOp op) {
  INFO(program::name(a) << " K=" << k << " n=" << n << " " << core::name(type) << " op "
                        << static_cast<int>(op) << " seed " << kSeed);
  std::vector<Raw> data = random_vectors(k, n, type, kSeed);
  const Raw expected = reduced(data, n, type, op, a);
  std::vector<TrafficTotals> moved(data.size());
  run_group(k, [&](Communicator& c) {
    c.all_reduce(data[c.index()].data(), n, type, op, a, Traffic::gradients);
    moved[c.index()] = only_entry(c);
  });
  const auto collective = Collective::all_reduce;
  for (int i = 0; i < k; ++i) {
    CHECK(data[i] == expected);
    CHECK(moved[i].wire == stated_wire(collective, a, k, i, n, type));
    if (k > 1) CHECK(moved[i].payload == program::payload_bytes(collective, a, k, 1, n, type));
    CHECK(moved[i].calls == (k > 1 ? 1 : 0));
  }
}

}  // namespace

TEST_CASE("every all-reduce equals the serial fold in its order bitwise and moves its volume") {
  for (Algorithm a : kAlgorithms) {
    for (int k = 1; k <= 8; ++k) {
      for (std::int64_t n : kSizes) {
        for (DType type : kReduced) check_all_reduce(a, k, n, type, ReduceOp::sum);
      }
    }
  }
}

TEST_CASE("every all-reduce takes the maximum too") {
  for (Algorithm a : kAlgorithms) {
    for (DType type : kReduced) check_all_reduce(a, 5, 13, type, ReduceOp::max);
  }
}

TEST_CASE("the test data tells the orders apart") {
  const auto vectors = random_vectors(5, 257, DType::f32, kSeed);
  const auto by = [&](Algorithm a) { return reduced(vectors, 257, DType::f32, ReduceOp::sum, a); };
  CHECK(by(Algorithm::ring) != by(Algorithm::tree));
  CHECK(by(Algorithm::ring) != by(Algorithm::naive_all_reduce));
  CHECK(by(Algorithm::tree) != by(Algorithm::naive_all_reduce));
  CHECK(by(Algorithm::parameter_server) == by(Algorithm::naive_all_reduce));
}

TEST_CASE("reduce-scatter leaves chunk i at index i, zero past n, and moves its volume") {
  for (int k = 1; k <= 8; ++k) {
    for (std::int64_t n : kSizes) {
      for (DType type : kReduced) {
        INFO("K=" << k << " n=" << n << " " << core::name(type) << " seed " << kSeed);
        std::vector<Raw> data = random_vectors(k, n, type, kSeed);
        Raw expected = reduced(data, n, type, ReduceOp::sum, Algorithm::ring);
        const std::size_t each = size_of(program::padded(n, k) / k, type);
        expected.resize(each * data.size());
        Raw chunks(expected.size(), std::byte{0xee});
        std::vector<TrafficTotals> moved(data.size());
        run_group(k, [&](Communicator& c) {
          c.reduce_scatter(data[c.index()].data(), n, chunks.data() + each * c.index(), type,
                           ReduceOp::sum, Traffic::gradients);
          moved[c.index()] = only_entry(c);
        });
        CHECK(chunks == expected);
        for (int i = 0; i < k; ++i) {
          CHECK(moved[i].wire == program::wire_bytes(Collective::reduce_scatter, Algorithm::ring, k,
                                                     i, n, type));
        }
      }
    }
  }
}

TEST_CASE("all-gather joins the chunks, never writes past n, and moves its volume") {
  constexpr std::size_t kGuard = 32;
  for (int k = 1; k <= 8; ++k) {
    for (std::int64_t n : kSizes) {
      for (DType type : kMoved) {
        INFO("K=" << k << " n=" << n << " " << core::name(type) << " seed " << kSeed);
        Raw whole = random_vectors(1, n, type, kSeed)[0];
        const std::size_t each = size_of(program::padded(n, k) / k, type);
        Raw chunks = whole;
        chunks.resize(each * static_cast<std::size_t>(k), std::byte{0x77});  // pad must not matter
        whole.resize(whole.size() + kGuard, std::byte{0xee});
        std::vector<Raw> full(static_cast<std::size_t>(k), Raw(whole.size(), std::byte{0xee}));
        std::vector<TrafficTotals> moved(full.size());
        run_group(k, [&](Communicator& c) {
          c.all_gather(chunks.data() + each * c.index(), full[c.index()].data(), n, type,
                       Traffic::parameters);
          moved[c.index()] = only_entry(c);
        });
        for (int i = 0; i < k; ++i) {
          CHECK(full[i] == whole);
          CHECK(moved[i].wire ==
                program::wire_bytes(Collective::all_gather, Algorithm::ring, k, i, n, type));
        }
      }
    }
  }
}

TEST_CASE("an exchange brings chunk i of every index to index i and moves its volume") {
  for (int k = 1; k <= 8; ++k)
    for (const std::int64_t each : {0, 1, 5})
      for (DType type : kMoved) {
        const std::int64_t n = each * k;
        INFO("K=" << k << " n=" << n << " " << core::name(type) << " seed " << kSeed);
        const std::vector<Raw> out = random_vectors(k, n, type, kSeed);
        std::vector<Raw> in(out.size(), Raw(size_of(n, type), std::byte{0xee}));
        std::vector<TrafficTotals> moved(out.size());
        run_group(k, [&](Communicator& c) {
          c.exchange(out[c.index()].data(), in[c.index()].data(), n, type, Traffic::expert);
          moved[c.index()] = only_entry(c);
        });
        const std::size_t chunk = size_of(each, type);
        for (std::size_t i = 0; i < out.size(); ++i) {
          for (std::size_t j = 0; j < out.size(); ++j)
            CHECK(std::equal(in[i].begin() + static_cast<std::ptrdiff_t>(j * chunk),
                             in[i].begin() + static_cast<std::ptrdiff_t>((j + 1) * chunk),
                             out[j].begin() + static_cast<std::ptrdiff_t>(i * chunk)));
          CHECK(moved[i].wire == program::wire_bytes(Collective::exchange, Algorithm::pairwise, k,
                                                     static_cast<int>(i), n, type));
        }
      }
}

TEST_CASE("what passes round a ring comes from the index before and moves its volume") {
  for (int k = 1; k <= 8; ++k)
    for (const std::int64_t n : {0, 1, 5})
      for (DType type : kMoved) {
        INFO("K=" << k << " n=" << n << " " << core::name(type) << " seed " << kSeed);
        const std::vector<Raw> out = random_vectors(k, n, type, kSeed);
        std::vector<Raw> in(out.size(), Raw(size_of(n, type), std::byte{0xee}));
        std::vector<TrafficTotals> moved(out.size());
        run_group(k, [&](Communicator& c) {
          c.ring_shift(out[c.index()].data(), in[c.index()].data(), n, type, Traffic::context);
          moved[c.index()] = only_entry(c);
        });
        for (std::size_t i = 0; i < out.size(); ++i) {
          CHECK(in[i] == out[(i + out.size() - 1) % out.size()]);
          CHECK(moved[i].wire == program::wire_bytes(Collective::send, Algorithm::ring, k,
                                                     static_cast<int>(i), n, type));
        }
      }
}

TEST_CASE("all-gather works in place, with the chunk where it belongs") {
  std::vector<std::vector<std::int32_t>> full(3, std::vector<std::int32_t>(5, -1));
  for (int i = 0; i < 5; ++i) full[i / 2][i] = i;
  run_group(3, [&](Communicator& c) {
    std::int32_t* mine = full[c.index()].data();
    c.all_gather(mine + 2 * c.index(), mine, 5, DType::i32, Traffic::parameters);
  });
  for (const auto& v : full) CHECK(v == std::vector<std::int32_t>{0, 1, 2, 3, 4});
}

TEST_CASE("quantised weights are gathered when chunks are whole bytes") {
  // 12 nf4 over 3 ranks: chunks of 4 elements, 2 bytes; wire 2 B * 2 steps
  std::vector<std::uint16_t> full(9);
  std::vector<core::Bytes> wire(3);
  run_group(3, [&](Communicator& c) {
    const auto chunk = static_cast<std::uint16_t>(0x1111 * (c.index() + 1));
    c.all_gather(&chunk, full.data() + 3 * c.index(), 12, DType::nf4, Traffic::parameters);
    wire[c.index()] = only_entry(c).wire;
  });
  CHECK(full == std::vector<std::uint16_t>{0x1111, 0x2222, 0x3333, 0x1111, 0x2222, 0x3333, 0x1111,
                                           0x2222, 0x3333});
  CHECK(wire == std::vector<core::Bytes>(3, core::Bytes(4)));
}

TEST_CASE("broadcast and send move what they state, and a receive is no call") {
  for (int k = 2; k <= 8; ++k) {
    run_group(k, [&](Communicator& c) {
      std::vector<float> buffer(13, static_cast<float>(c.index()));
      c.broadcast(buffer.data(), 13, DType::f32, 0, Traffic::loss);
      if (only_entry(c).wire != program::wire_bytes(Collective::broadcast, Algorithm::direct, k,
                                                    c.index(), 13, DType::f32)) {
        throw std::runtime_error("broadcast moved another volume");
      }
    });
  }
  std::vector<TrafficTotals> moved(2);
  run_group(2, [&](Communicator& c) {
    std::vector<float> buffer(13);
    if (c.index() == 0) c.send(buffer.data(), 13, DType::f32, 1, 0, Traffic::pipeline);
    if (c.index() == 1) c.recv(buffer.data(), 13, DType::f32, 0, 0, Traffic::pipeline);
    moved[c.index()] = only_entry(c);
  });
  CHECK(moved[0].wire == core::Bytes(52));
  CHECK(moved[0].calls == 1);
  CHECK(moved[1].wire == core::Bytes(0));
  CHECK(moved[1].calls == 0);
}

TEST_CASE("statistics keep purposes and algorithms apart and merge") {
  std::vector<CommunicatorStatistics> moved(2);
  run_group(2, [&](Communicator& c) {
    float x = 1;
    for (int i = 0; i < 3; ++i) {
      c.all_reduce(&x, 1, DType::f32, ReduceOp::sum, Algorithm::tree, Traffic::gradients);
    }
    c.all_reduce(&x, 1, DType::f32, ReduceOp::max, Algorithm::tree, Traffic::norm);
    moved[c.index()] = c.statistics();
    moved[c.index()].merge(c.statistics());
    c.reset_statistics();
    if (!c.statistics().entries.empty()) throw std::runtime_error("reset left entries");
  });
  const TrafficKey key{Traffic::gradients, Collective::all_reduce, Algorithm::tree, 2, false};
  CHECK(moved[1].entries.size() == 2);
  CHECK(moved[1].entries.at(key).calls == 6);
  CHECK(moved[1].entries.at(key).wire == core::Bytes(24));  // 6 calls * 4 B up
  CHECK(collective_name(key) == "all_reduce");
}
