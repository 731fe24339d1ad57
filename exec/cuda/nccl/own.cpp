// Reductions of NcclCommunicator over the library's send and receive, by this program's kernels,
// in program::reduction_order: bit for bit those of the other carriers. K = size, i = index.

#include <fmt/format.h>

#include "core/check.hpp"
#include "exec/cuda/nccl/communicator.hpp"

namespace exec::cuda {

// One kernel of the library: sends and receives of a group do not wait for each other.
void NcclCommunicator::move(const std::vector<Part>& out, const std::vector<Part>& in) {
  const CollectiveLibrary& l = world_.library();
  if (out.empty() && in.empty()) return;
  call(own_key(), doing_, memory_.queue().stream, [&](nccl::Comm comm, void* stream) {
    nccl::Result result = l.group_start();
    const auto good = [&] { return result == nccl::kSuccess || result == nccl::kInProgress; };
    for (const Part& p : out)
      if (good()) result = l.send(p.data, p.bytes, nccl::kUint8, p.peer, comm, stream);
    for (const Part& p : in)
      if (good()) result = l.recv(p.data, p.bytes, nccl::kUint8, p.peer, comm, stream);
    const nccl::Result ended = l.group_end();
    return good() ? ended : result;
  });
  for (const Part& p : out) sent_ += core::Bytes(static_cast<std::int64_t>(p.bytes));
}

// A chunk with the zeros that lie past the vector's end.
Message NcclCommunicator::padded_copy(const std::byte* vector, const Chunks& chunks, int chunk) {
  Message copy = memory_.blank(chunks.chunk_bytes());
  const std::size_t real = chunks.bytes(chunk);
  memory_.copy(copy.bytes.get(), vector + chunks.offset(chunk), real);
  memory_.zero(copy.bytes.get() + real, chunks.chunk_bytes() - real);
  return copy;
}

void NcclCommunicator::run_all_reduce(std::byte* vector, std::int64_t n, DType type, ReduceOp op,
                                      program::Algorithm algorithm) {
  switch (algorithm) {
    case program::Algorithm::ring: {
      const Chunks chunks(n, size(), type);
      ring_reduce(vector, chunks, op);
      return ring_gather(vector, chunks);
    }
    case program::Algorithm::tree: return tree_all_reduce(vector, n, type, op);
    case program::Algorithm::naive_all_reduce: return naive_all_reduce(vector, n, type, op);
    case program::Algorithm::parameter_server: return server_all_reduce(vector, n, type, op);
    default: PLANNER_CHECK(false, "direct and pairwise transfers reduce nothing");
  }
}

// In step s index i passes on chunk i-1-s and folds chunk i-2-s.
void NcclCommunicator::ring_reduce(std::byte* vector, const Chunks& chunks, ReduceOp op) {
  const int k = size(), i = index_;
  for (int s = 0; s + 1 < k; ++s) {
    Message out = padded_copy(vector, chunks, (i - 1 - s + 2 * k) % k);
    Message in = memory_.blank(chunks.chunk_bytes());
    move({{(i + 1) % k, out.bytes.get(), chunks.chunk_bytes()}},
         {{(i + k - 1) % k, in.bytes.get(), chunks.chunk_bytes()}});
    const int c = (i - 2 - s + 2 * k) % k;
    std::byte* const own = vector + chunks.offset(c);
    memory_.combine(in.bytes.get(), own, own, chunks.elements(c), chunks.type, op);
    memory_.recycle(std::move(in));
    memory_.recycle(std::move(out));
  }
}

// In step s index i passes on chunk i-s.
void NcclCommunicator::ring_gather(std::byte* vector, const Chunks& chunks) {
  const int k = size(), i = index_;
  for (int s = 0; s + 1 < k; ++s) {
    Message out = padded_copy(vector, chunks, (i - s + k) % k);
    Message in = memory_.blank(chunks.chunk_bytes());
    move({{(i + 1) % k, out.bytes.get(), chunks.chunk_bytes()}},
         {{(i + k - 1) % k, in.bytes.get(), chunks.chunk_bytes()}});
    const int c = (i - 1 - s + k) % k;
    memory_.copy(vector + chunks.offset(c), in.bytes.get(), chunks.bytes(c));
    memory_.recycle(std::move(in));
    memory_.recycle(std::move(out));
  }
}

// Binary heap tree: children 2i+1 and 2i+2 are folded in that order, the root's result comes back.
void NcclCommunicator::tree_all_reduce(std::byte* vector, std::int64_t n, DType type,
                                       ReduceOp op) {
  const int i = index_, parent = (i - 1) / 2;
  const auto bytes = static_cast<std::size_t>(core::bytes_of(n, type).value());
  std::vector<Part> down;
  for (int child = 2 * i + 1; child < std::min(2 * i + 3, size()); ++child) {
    Message in = memory_.blank(bytes);
    move({}, {{child, in.bytes.get(), bytes}});
    memory_.combine(vector, in.bytes.get(), vector, n, type, op);
    memory_.recycle(std::move(in));
    down.push_back({child, vector, bytes});
  }
  if (i != 0) {
    move({{parent, vector, bytes}}, {});
    move({}, {{parent, vector, bytes}});
  }
  move(down, {});
}

// Everyone sends everything to everyone and folds in ascending order.
void NcclCommunicator::naive_all_reduce(std::byte* vector, std::int64_t n, DType type,
                                        ReduceOp op) {
  const int k = size(), i = index_;
  const auto bytes = static_cast<std::size_t>(core::bytes_of(n, type).value());
  std::vector<Message> from(static_cast<std::size_t>(k));
  std::vector<Part> out, in;
  for (int peer = 0; peer < k; ++peer) {
    if (peer == i) continue;
    Message& m = from[static_cast<std::size_t>(peer)];
    m = memory_.blank(bytes);
    out.push_back({peer, vector, bytes});
    in.push_back({peer, m.bytes.get(), bytes});
  }
  move(out, in);
  // The running sum of the indices below i lies in the first message.
  std::byte* const first = i > 0 ? from.front().bytes.get() : nullptr;
  for (int peer = 1; peer < i; ++peer)
    memory_.combine(first, from[static_cast<std::size_t>(peer)].bytes.get(), first, n, type, op);
  if (i > 0) memory_.combine(first, vector, vector, n, type, op);
  for (int peer = i + 1; peer < k; ++peer)
    memory_.combine(vector, from[static_cast<std::size_t>(peer)].bytes.get(), vector, n, type, op);
  for (Message& m : from) memory_.recycle(std::move(m));
}

// One server at index 0 that keeps nothing: it folds in ascending order and returns the sum.
void NcclCommunicator::server_all_reduce(std::byte* vector, std::int64_t n, DType type,
                                         ReduceOp op) {
  const auto bytes = static_cast<std::size_t>(core::bytes_of(n, type).value());
  if (index_ > 0) {
    move({{0, vector, bytes}}, {});
    return move({}, {{0, vector, bytes}});
  }
  std::vector<Part> back;
  for (int peer = 1; peer < size(); ++peer) {
    Message in = memory_.blank(bytes);
    move({}, {{peer, in.bytes.get(), bytes}});
    memory_.combine(vector, in.bytes.get(), vector, n, type, op);
    memory_.recycle(std::move(in));
    back.push_back({peer, vector, bytes});
  }
  move(back, {});
}

}  // namespace exec::cuda
