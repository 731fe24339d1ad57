#pragma once
// Calls of every collective, algorithm and type, as functions of a communicator that give back the
// bytes they end with: what a carrier between processes does is compared with threads, bit by bit.

#include <fmt/core.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "exec/communicator/local.hpp"
#include "exec/communicator/reduce.hpp"

namespace calls {

using core::DType;
using exec::Communicator;
using program::Algorithm;
using program::ReduceOp;
using program::Traffic;
using Raw = std::vector<std::byte>;

inline constexpr DType kReduced[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i32};
inline constexpr Algorithm kAlgorithms[] = {Algorithm::ring, Algorithm::tree,
                                            Algorithm::naive_all_reduce,
                                            Algorithm::parameter_server};
// Around a chunk's end, and longer than 4096 bytes.
inline constexpr std::int64_t kSizes[] = {0, 1, 5, 64, 9001};

inline std::size_t size_of(std::int64_t n, DType t) {
  return static_cast<std::size_t>(core::bytes_of(n, t).value());
}

// Of rank r; `whole`: small whole numbers, exact in every type and order.
inline Raw vector_of(int r, std::int64_t n, DType type, bool whole) {
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

inline std::vector<int> everyone(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

inline Raw by_threads(int ranks, int rank, const Body& body) {
  exec::LocalWorld world(ranks);
  std::vector<Raw> results(static_cast<std::size_t>(ranks));
  world.run([&](int r) {
    results[static_cast<std::size_t>(r)] = body(*world.communicator(r, everyone(ranks), 0));
  });
  return results[static_cast<std::size_t>(rank)];
}

inline Body all_reduce(Algorithm algorithm, std::int64_t n, DType type, ReduceOp op, bool whole) {
  return [=](Communicator& c) {
    Raw v = vector_of(c.index(), n, type, whole);
    c.all_reduce(v.data(), n, type, op, algorithm, Traffic::gradients);
    return v;
  };
}

inline Body scatter_and_gather(std::int64_t n, DType type, bool whole) {
  return [=](Communicator& c) {
    Raw v = vector_of(c.index(), n, type, whole);
    Raw chunk(size_of(program::padded(n, c.size()) / c.size(), type) + 1);
    c.reduce_scatter(v.data(), n, chunk.data(), type, ReduceOp::sum, Traffic::gradients);
    c.all_gather(chunk.data(), v.data(), n, type, Traffic::parameters);
    v.insert(v.end(), chunk.begin(), chunk.end());
    return v;
  };
}

inline Raw servers(Communicator& c) {
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
inline Raw messages(Communicator& c) {
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

// Every reduction; each is named.
inline void each_reduction(bool whole,
                           const std::function<void(const std::string&, const Body&)>& check) {
  for (const DType type : kReduced)
    for (const std::int64_t n : kSizes) {
      for (const Algorithm a : kAlgorithms)
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max})
          check(fmt::format("all_reduce {} of {} {}", program::name(a), n, core::name(type)),
                all_reduce(a, n, type, op, whole));
      check(fmt::format("scatter and gather of {} {}", n, core::name(type)),
            scatter_and_gather(n, type, whole));
    }
}

}  // namespace calls
