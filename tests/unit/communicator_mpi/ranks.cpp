// One rank of three, under mpirun. Every collective, algorithm and type over MPI against the same
// call between three threads of this process, bit by bit; then MPI's own collectives on whole
// numbers, whose sums are exact in any order. Says what differs and exits 1.

#include <fmt/core.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "core/check.hpp"
#include "exec/communicator/local.hpp"
#include "exec/communicator/mpi/mpi_world.hpp"
#include "exec/communicator/reduce.hpp"

namespace {

using core::DType;
using exec::Communicator;
using program::Algorithm;
using program::ReduceOp;
using program::Traffic;
using Raw = std::vector<std::byte>;

constexpr DType kReduced[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i32};
constexpr Algorithm kAlgorithms[] = {Algorithm::ring, Algorithm::tree, Algorithm::naive_all_reduce,
                                     Algorithm::parameter_server};
// Around a chunk's end, and beyond the length from which messages are of a derived type.
constexpr std::int64_t kSizes[] = {0, 1, 5, 64, 9001};
constexpr std::size_t kLongestPlain = 4096;

std::size_t size_of(std::int64_t n, DType t) {
  return static_cast<std::size_t>(core::bytes_of(n, t).value());
}

// Of rank r; `whole`: small whole numbers, exact in every type and order.
Raw vector_of(int r, std::int64_t n, DType type, bool whole) {
  Raw bytes(size_of(n, type));
  for (std::int64_t i = 0; i < n; ++i) {
    const double exact = static_cast<double>((i * 7 + r * 13) % 11) - 5;
    const double value = whole ? exact : exact / 3 + 1e-3 * static_cast<double>(r);
    const auto f = static_cast<float>(value);
    const auto i32 = static_cast<std::int32_t>(value * 1000);
    const std::uint16_t half =
        type == DType::bf16 ? exec::bf16_from_float(f) : exec::f16_from_float(f);
    std::byte* const at = bytes.data() + size_of(i, type);
    if (type == DType::f64) std::memcpy(at, &value, 8);
    if (type == DType::f32) std::memcpy(at, &f, 4);
    if (type == DType::i32) std::memcpy(at, &i32, 4);
    if (type == DType::bf16 || type == DType::f16) std::memcpy(at, &half, 2);
  }
  return bytes;
}

// What one rank does with its communicator; the bytes that it ends with.
using Body = std::function<Raw(Communicator&)>;

std::vector<int> everyone(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Raw by_threads(int ranks, int rank, const Body& body) {
  exec::LocalWorld world(ranks);
  std::vector<Raw> results(static_cast<std::size_t>(ranks));
  world.run([&](int r) {
    results[static_cast<std::size_t>(r)] = body(*world.communicator(r, everyone(ranks), 0));
  });
  return results[static_cast<std::size_t>(rank)];
}

Body all_reduce(Algorithm algorithm, std::int64_t n, DType type, ReduceOp op, bool whole) {
  return [=](Communicator& c) {
    Raw v = vector_of(c.index(), n, type, whole);
    c.all_reduce(v.data(), n, type, op, algorithm, Traffic::gradients);
    return v;
  };
}

Body scatter_and_gather(std::int64_t n, DType type, bool whole) {
  return [=](Communicator& c) {
    Raw v = vector_of(c.index(), n, type, whole);
    Raw chunk(size_of(program::padded(n, c.size()) / c.size(), type) + 1);
    c.reduce_scatter(v.data(), n, chunk.data(), type, ReduceOp::sum, Traffic::gradients);
    c.all_gather(chunk.data(), v.data(), n, type, Traffic::parameters);
    v.insert(v.end(), chunk.begin(), chunk.end());
    return v;
  };
}

Raw servers(Communicator& c) {
  constexpr std::int64_t n = 1000;
  c.use_servers({c.size(), 2, true});
  Raw v = vector_of(c.index(), n, DType::f32, false);
  Raw chunk(size_of(n / 2, DType::f32));
  for (std::int64_t key = 0; key < 20; ++key) {
    c.push(key, v.data(), n, DType::f32, Traffic::gradients);
    if (c.index() < 2) {
      c.collect(key, chunk.data(), n, DType::f32, ReduceOp::sum, Traffic::gradients);
      c.reply(key, chunk.data(), n, DType::f32, Traffic::parameters);
    }
    c.pull(key, v.data(), n, DType::f32, Traffic::parameters);
  }
  return v;
}

// A long message and short ones behind it on other tags, and in the other order than they are read.
Raw messages(Communicator& c) {
  constexpr std::int64_t n = 100000;
  const int next = (c.index() + 1) % c.size(), before = (c.index() + c.size() - 1) % c.size();
  const Raw mine = vector_of(c.index(), n, DType::f32, false);
  for (std::int64_t tag = 0; tag < 8; ++tag)
    c.send(mine.data(), tag % 2 == 0 ? n : 3, DType::f32, next, tag, Traffic::pipeline);
  Raw v(size_of(n, DType::f32));
  for (std::int64_t tag = 7; tag >= 0; --tag)
    c.recv(v.data(), tag % 2 == 0 ? n : 3, DType::f32, before, tag, Traffic::pipeline);
  Raw root = mine;
  c.broadcast(root.data(), n, DType::f32, 1, Traffic::parameters);
  v.insert(v.end(), root.begin(), root.end());
  c.barrier();
  return v;
}

class Check {
 public:
  explicit Check(exec::MpiWorld& world) : world_(world) {}

  void same(const std::string& what, const Body& body) {
    ++checks_;
    const Raw expected = by_threads(world_.ranks(), world_.rank(), body);
    const auto c = world_.communicator(world_.rank(), everyone(world_.ranks()), channel_);
    world_.opened();
    const Raw found = body(*c);
    if (found == expected) return;
    ++failures_;
    fmt::print(stderr, "rank {}: {} differs from threads\n", world_.rank(), what);
  }
  void next_channel() { ++channel_; }
  int checks() const { return checks_; }
  int failures() const { return failures_; }

 private:
  exec::MpiWorld& world_;
  int channel_ = 0, checks_ = 0, failures_ = 0;
};

void check_reductions(Check& check, bool whole) {
  for (const DType type : kReduced)
    for (const std::int64_t n : kSizes) {
      for (const Algorithm a : kAlgorithms)
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max})
          check.same(fmt::format("all_reduce {} of {} {}", program::name(a), n, core::name(type)),
                     all_reduce(a, n, type, op, whole));
      check.same(fmt::format("scatter and gather of {} {}", n, core::name(type)),
                 scatter_and_gather(n, type, whole));
    }
}

}  // namespace

int main() {
  exec::MpiOptions options;
  options.longest_plain = kLongestPlain;
  exec::MpiWorld world(options);
  PLANNER_CHECK(world.ranks() == 3, "started for three ranks");
  Check check(world);
  check_reductions(check, false);
  check.same("servers", servers);
  check.same("messages", messages);
  check.next_channel();
  world.use_library_collectives();
  check_reductions(check, true);
  PLANNER_CHECK(world.exchange(std::to_string(world.rank())) ==
                std::vector<std::string>({"0", "1", "2"}));
  world.finish();
  if (world.rank() == 0) fmt::print("{} calls compared on each rank\n", check.checks());
  return check.failures() == 0 ? 0 : 1;
}
