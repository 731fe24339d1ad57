#include "exec/cuda/nccl/communicator.hpp"

#include <chrono>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/check.hpp"
#include "exec/communicator/channels.hpp"

namespace exec::cuda {
namespace {

using program::Algorithm;
using program::Collective;

std::size_t size_in_bytes(std::int64_t n, core::DType type) {
  return static_cast<std::size_t>(core::bytes_of(n, type).value());
}

nccl::Type type_of(core::DType type) {
  switch (type) {
    case core::DType::f64: return nccl::kFloat64;
    case core::DType::f32: return nccl::kFloat32;
    case core::DType::bf16: return nccl::kBfloat16;
    case core::DType::f16: return nccl::kFloat16;
    case core::DType::i32: return nccl::kInt32;
    default: PLANNER_CHECK(false, "a type that is not reduced");
  }
  return nccl::kUint8;
}

nccl::Op op_of(program::ReduceOp op) {
  return op == program::ReduceOp::sum ? nccl::kSum : nccl::kMax;
}

}  // namespace

NcclCommunicator::NcclCommunicator(NcclWorld& world, std::vector<int> group, int index,
                                   int channel, StreamMessages& memory)
    : world_(world), group_(std::move(group)), index_(index), channel_(channel), memory_(memory) {
  for (int i = 0; i < size(); ++i)
    PLANNER_CHECK(earlier_places(group_, i) == 0, "a rank has one place in a group over NCCL");
  world_.add(this);
}

NcclCommunicator::~NcclCommunicator() {
  world_.remove(this);
  for (auto& [key, outlet] : outlets_) world_.api().destroy(outlet->queue.stream);
}

NcclWorld::Key NcclCommunicator::own_key() const {
  if (channel_ < kMessageChannel) return {group_, "collectives"};
  return {group_, fmt::format("messages {}", channel_ - kMessageChannel)};
}

std::vector<NcclWorld::Key> NcclCommunicator::needs() const {
  if (size() == 1) return {};
  if (servers_.workers == 0) return {own_key()};
  std::vector<NcclWorld::Key> all;
  for (int m = 0; m < servers_.servers; ++m)
    for (int w = 0; w < servers_.workers; ++w) {
      const int server = servers_.index_of_server(m);
      if (w == server || (index_ != w && index_ != server)) continue;
      all.push_back(one_way(w, server, "push"));
      all.push_back(one_way(server, w, "reply"));
    }
  return all;
}

// ---- counting

void NcclCommunicator::record(TrafficKey key, std::int64_t calls, core::Bytes payload,
                              const std::function<void()>& body) {
  const core::Bytes before = sent_;
  const auto start = std::chrono::steady_clock::now();
  body();
  const std::chrono::duration<double> busy = std::chrono::steady_clock::now() - start;
  ++calls_;
  if (size() == 1) return;
  statistics_.entries[key] +=
      TrafficTotals{calls, payload, sent_ - before, core::Seconds(busy.count())};
  if (world_.options().ran) record_library(key);
}

// The library tells of a call before it has taken it, and one call is given at a time: all that it
// tells now is of this one.
void NcclCommunicator::record_library(const TrafficKey& key) {
  const bool chunks = key.collective == Collective::all_gather ||
                      key.collective == Collective::reduce_scatter;
  for (const Ran& r : world_.options().ran()) {
    const core::Bytes bytes(r.bytes * (chunks ? size() : 1));
    program::add_calls(statistics_.library[key], {.algorithm = r.algorithm,
                                                  .protocol = r.protocol,
                                                  .channels = r.channels,
                                                  .count = 1,
                                                  .payload = bytes,
                                                  .smallest = bytes,
                                                  .largest = bytes});
  }
}

TrafficKey NcclCommunicator::key_of(Traffic what, Collective collective, Algorithm algorithm,
                                    bool library) const {
  return {what, collective, algorithm, size(), false, library};
}

// What the library moves is not read from it: as the plan's algorithm would.
void NcclCommunicator::count_by_law(Collective collective, Algorithm algorithm, std::int64_t n,
                                    DType type) {
  sent_ += program::wire_bytes(collective, algorithm, size(), index_, n, type);
}

// The others are what the plan is about: nobody else's will do.
bool NcclCommunicator::is_library(Algorithm algorithm) const {
  return !world_.options().own_collectives &&
         (algorithm == Algorithm::ring || algorithm == Algorithm::tree);
}

std::string NcclCommunicator::name_of(const char* call, std::int64_t n, DType type,
                                      Traffic what) {
  return fmt::format("{} of {} {} for {} (group {}, channel {}, call {})", call, n,
                     core::name(type), program::name(what), fmt::join(group_, ","), channel_,
                     calls_);
}

void NcclCommunicator::call(const NcclWorld::Key& key, const std::string& what,
                            StreamHandle stream,
                            const std::function<nccl::Result(nccl::Comm, nccl::Stream)>& body) {
  const nccl::Comm comm = world_.comm(key);
  world_.call(comm, what, stream, [&] { return body(comm, reinterpret_cast<void*>(stream)); });
}

// ---- collectives

void NcclCommunicator::all_reduce(void* buffer, std::int64_t n, DType type, ReduceOp op,
                                  Algorithm algorithm, Traffic what) {
  const bool library = is_library(algorithm);
  doing_ = name_of(library ? "ncclAllReduce" : "all_reduce", n, type, what);
  // The sum of two is the same in any order.
  record(key_of(what, Collective::all_reduce, algorithm, library && size() > 2), 1,
         program::payload_bytes(Collective::all_reduce, algorithm, size(), 1, n, type), [&] {
           if (size() == 1) return;
           if (!library)
             return run_all_reduce(static_cast<std::byte*>(buffer), n, type, op, algorithm);
           call(own_key(), doing_, memory_.queue().stream, [&](nccl::Comm comm, void* stream) {
             return world_.library().all_reduce(buffer, buffer, static_cast<std::size_t>(n),
                                                type_of(type), op_of(op), comm, stream);
           });
           count_by_law(Collective::all_reduce, algorithm, n, type);
         });
}

// The library's chunks are equal: of a vector that is not a multiple of the group a padded copy is
// reduced.
void NcclCommunicator::reduce_scatter(void* buffer, std::int64_t n, void* chunk, DType type,
                                      ReduceOp op, Traffic what) {
  const Chunks chunks(n, size(), type);
  auto* const vector = static_cast<std::byte*>(buffer);
  auto* const out = static_cast<std::byte*>(chunk);
  const bool library = is_library(Algorithm::ring);
  doing_ = name_of(library ? "ncclReduceScatter" : "reduce_scatter", n, type, what);
  record(
      key_of(what, Collective::reduce_scatter, Algorithm::ring, library && size() > 2), 1,
      program::payload_bytes(Collective::reduce_scatter, Algorithm::ring, size(), 0, n, type), [&] {
        if (!library || size() == 1) {
          ring_reduce(vector, chunks, op);
          const std::size_t real = chunks.bytes(index_);
          memory_.copy(out, vector + chunks.offset(index_), real);
          return memory_.zero(out + real, chunks.chunk_bytes() - real);
        }
        const std::byte* from = vector;
        Message whole;
        if (chunks.each * size() != n) {
          const std::size_t bytes = size_in_bytes(n, type);
          const std::size_t all = chunks.chunk_bytes() * static_cast<std::size_t>(size());
          whole = memory_.blank(all);
          memory_.copy(whole.bytes.get(), vector, bytes);
          memory_.zero(whole.bytes.get() + bytes, all - bytes);
          from = whole.bytes.get();
        }
        call(own_key(), doing_, memory_.queue().stream, [&](nccl::Comm comm, void* stream) {
          return world_.library().reduce_scatter(from, out, static_cast<std::size_t>(chunks.each),
                                                 type_of(type), op_of(op), comm, stream);
        });
        memory_.recycle(std::move(whole));
        count_by_law(Collective::reduce_scatter, Algorithm::ring, n, type);
      });
}

void NcclCommunicator::all_gather(const void* chunk, void* full, std::int64_t n, DType type,
                                  Traffic what) {
  const Chunks chunks(n, size(), type);
  const auto* const own = static_cast<const std::byte*>(chunk);
  auto* const vector = static_cast<std::byte*>(full);
  const bool library = is_library(Algorithm::ring);
  doing_ = name_of(library ? "ncclAllGather" : "all_gather", n, type, what);
  record(key_of(what, Collective::all_gather, Algorithm::ring), 1,
         program::payload_bytes(Collective::all_gather, Algorithm::ring, size(), 0, n, type), [&] {
           if (!library || size() == 1) {
             memory_.copy(vector + chunks.offset(index_), own, chunks.bytes(index_));
             return ring_gather(vector, chunks);
           }
           const bool whole = chunks.each * size() == n;
           const std::size_t all = chunks.chunk_bytes() * static_cast<std::size_t>(size());
           Message padded;
           if (!whole) padded = memory_.blank(all);
           std::byte* const into = whole ? vector : padded.bytes.get();
           // What lies past the end of the last chunk may not be this rank's to read.
           std::byte* const place =
               into + static_cast<std::size_t>(index_) * chunks.chunk_bytes();
           const std::size_t real = chunks.bytes(index_);
           memory_.copy(place, own, real);
           memory_.zero(place + real, chunks.chunk_bytes() - real);
           call(own_key(), doing_, memory_.queue().stream, [&](nccl::Comm comm, void* stream) {
             return world_.library().all_gather(place, into, chunks.chunk_bytes(), nccl::kUint8,
                                                comm, stream);
           });
           if (!whole) memory_.copy(vector, into, size_in_bytes(n, type));
           memory_.recycle(std::move(padded));
           count_by_law(Collective::all_gather, Algorithm::ring, n, type);
         });
}

void NcclCommunicator::broadcast(void* buffer, std::int64_t n, DType type, int root,
                                 Traffic what) {
  PLANNER_CHECK(root >= 0 && root < size());
  auto* const vector = static_cast<std::byte*>(buffer);
  const std::size_t bytes = size_in_bytes(n, type);
  const bool library = is_library(Algorithm::ring);
  doing_ = name_of(library ? "ncclBroadcast" : "broadcast", n, type, what);
  record(key_of(what, Collective::broadcast, Algorithm::direct), 1, core::bytes_of(n, type), [&] {
    if (size() == 1) return;
    if (library) {
      call(own_key(), doing_, memory_.queue().stream, [&](nccl::Comm comm, void* stream) {
        return world_.library().broadcast(vector, vector, bytes, nccl::kUint8, root, comm, stream);
      });
      if (index_ == root) sent_ += core::bytes_of(n, type) * (size() - 1);
      return;
    }
    if (index_ != root) return move({}, {{root, vector, bytes}});
    std::vector<Part> out;
    for (int peer = 0; peer < size(); ++peer)
      if (peer != root) out.push_back({peer, vector, bytes});
    move(out, {});
  });
}

void NcclCommunicator::exchange(const void* out, void* in, std::int64_t n, DType type,
                                Traffic what) {
  PLANNER_CHECK(n % size() == 0, "an exchange of equal chunks");
  auto* const from = static_cast<std::byte*>(const_cast<void*>(out));
  auto* const into = static_cast<std::byte*>(in);
  const Chunks chunks(n, size(), type);
  const auto algorithm = Algorithm::pairwise;
  doing_ = name_of("exchange", n, type, what);
  record(key_of(what, Collective::exchange, algorithm), 1,
         program::payload_bytes(Collective::exchange, algorithm, size(), 0, n, type), [&] {
           memory_.copy(into + chunks.offset(index_), from + chunks.offset(index_),
                        chunks.bytes(index_));
           std::vector<Part> sends, receives;
           for (int step = 1; step < size(); ++step) {
             const int to = (index_ + step) % size(), peer = (index_ + size() - step) % size();
             sends.push_back({to, from + chunks.offset(to), chunks.bytes(to)});
             receives.push_back({peer, into + chunks.offset(peer), chunks.bytes(peer)});
           }
           move(sends, receives);
         });
}

void NcclCommunicator::ring_shift(const void* out, void* in, std::int64_t n, DType type,
                                  Traffic what) {
  const int k = size(), i = index_;
  const std::size_t bytes = size_in_bytes(n, type);
  auto* const from = static_cast<std::byte*>(const_cast<void*>(out));
  doing_ = name_of("ring_shift", n, type, what);
  record(key_of(what, Collective::send, Algorithm::ring), 1, core::bytes_of(n, type), [&] {
    if (k == 1) return memory_.copy(static_cast<std::byte*>(in), from, bytes);
    move({{(i + 1) % k, from, bytes}},
         {{(i + k - 1) % k, static_cast<std::byte*>(in), bytes}});
  });
}

void NcclCommunicator::barrier() {
  PLANNER_CHECK(false, "ranks meet in the control world");
}

}  // namespace exec::cuda
