// Messages of NcclCommunicator, and what it sends without waiting for the receiver: pushes and
// replies of parameter servers, whose bytes leave from a block and on a stream of their own.

#include <fmt/format.h>

#include "core/check.hpp"
#include "exec/cuda/nccl/communicator.hpp"

namespace exec::cuda {
namespace {

using program::Algorithm;
using program::Collective;

TrafficKey server_key(program::Traffic what, int size, bool server) {
  return {what, Collective::parameter_server, Algorithm::parameter_server, size, server};
}

core::Bytes payload(std::int64_t n, int servers, core::DType type) {
  return program::payload_bytes(Collective::parameter_server, Algorithm::parameter_server, 1,
                                servers, n, type);
}

constexpr const char* kNoTurns =
    "asynchronous servers take pushes in the order of arrival, which streams cannot";

}  // namespace

NcclWorld::Key NcclCommunicator::one_way(int from, int to, const char* what) const {
  return {{rank_of(from), rank_of(to)}, fmt::format("channel {} {}", channel_, what)};
}

NcclCommunicator::Outlet& NcclCommunicator::outlet(const NcclWorld::Key& key) {
  auto& at = outlets_[key];
  if (!at) {
    Queue queue = memory_.queue();
    queue.stream = world_.api().create_stream(true);
    queue.workspace = nullptr;
    queue.workspace_bytes = 0;
    at = std::make_unique<Outlet>(memory_.pool(), queue);
  }
  return *at;
}

void NcclCommunicator::drain_beside() {
  for (auto& [key, outlet] : outlets_) {
    world_.api().synchronise(outlet->queue.stream, [this] { world_.look(); });
    for (Message& m : outlet->under_way) outlet->messages.recycle(std::move(m));
    outlet->under_way.clear();
  }
}

// The block is written on the caller's stream and sent on the outlet's. It is not used again before
// the step is over: whoever took it sooner would wait for the receiver.
void NcclCommunicator::post(int to, const char* what, Message&& block) {
  memory_.sent(block);
  const NcclWorld::Key key = one_way(index_, to, what);
  Outlet& beside = outlet(key);
  if (to == index_) return beside.kept.push_back(std::move(block));
  beside.messages.received(block);
  call(key, doing_, beside.queue.stream, [&](nccl::Comm comm, void* stream) {
    return world_.library().send(block.bytes.get(), block.size, nccl::kUint8, 1, comm, stream);
  });
  sent_ += core::Bytes(static_cast<std::int64_t>(block.size));
  beside.under_way.push_back(std::move(block));
}

void NcclCommunicator::take(int from, const char* what, std::byte* out, std::size_t bytes) {
  if (from == index_) {
    std::deque<Message>& kept = outlet(one_way(index_, index_, what)).kept;
    PLANNER_CHECK(!kept.empty(), "a message to itself that was not sent");
    Message block = std::move(kept.front());
    kept.pop_front();
    memory_.received(block);
    memory_.copy(out, block.bytes.get(), bytes);
    return memory_.recycle(std::move(block));
  }
  call(one_way(from, index_, what), doing_, memory_.queue().stream,
       [&](nccl::Comm comm, void* stream) {
         return world_.library().recv(out, bytes, nccl::kUint8, 0, comm, stream);
       });
}

void NcclCommunicator::send(const void* buffer, std::int64_t n, DType type, int peer,
                            std::int64_t tag, Traffic what) {
  PLANNER_CHECK(size() == 2 && index_ == 0 && peer == 1, "messages go one way");
  doing_ = name_of("ncclSend", n, type, what);
  const auto bytes = static_cast<std::size_t>(core::bytes_of(n, type).value());
  record(key_of(what, Collective::send, Algorithm::direct), 1, core::bytes_of(n, type), [&] {
    call(own_key(), doing_, memory_.queue().stream, [&](nccl::Comm comm, void* stream) {
      return world_.library().send(buffer, bytes, nccl::kUint8, 1, comm, stream);
    });
    sent_ += core::bytes_of(n, type);
  });
  static_cast<void>(tag);              // its own channel keeps it apart
}

void NcclCommunicator::recv(void* buffer, std::int64_t n, DType type, int peer, std::int64_t tag,
                            Traffic what) {
  PLANNER_CHECK(size() == 2 && index_ == 1 && peer == 0, "messages go one way");
  doing_ = name_of("ncclRecv", n, type, what);
  const auto bytes = static_cast<std::size_t>(core::bytes_of(n, type).value());
  record(key_of(what, Collective::send, Algorithm::direct), 0, core::Bytes(0), [&] {
    call(own_key(), doing_, memory_.queue().stream, [&](nccl::Comm comm, void* stream) {
      return world_.library().recv(buffer, bytes, nccl::kUint8, 0, comm, stream);
    });
  });
  static_cast<void>(tag);
}

void NcclCommunicator::use_servers(const ServerLayout& layout) {
  const int needed = layout.workers + (layout.colocated ? 0 : layout.servers);
  PLANNER_CHECK(layout.workers >= 1 && layout.servers >= 1 && needed == size(),
                "the layout does not fill the group");
  servers_ = layout;
}

void NcclCommunicator::push(std::int64_t key, const void* gradient, std::int64_t n, DType type,
                            Traffic what) {
  const Chunks chunks(n, servers_.servers, type);
  doing_ = name_of("push", n, type, what);
  record(server_key(what, size(), false), 1, payload(n, servers_.servers, type), [&] {
    for (int m = 0; m < servers_.servers; ++m)
      post(servers_.index_of_server(m), "push",
           padded_copy(static_cast<const std::byte*>(gradient), chunks, m));
  });
  static_cast<void>(key);              // pushes come in the order of the Program
}

void NcclCommunicator::pull(std::int64_t key, void* weights, std::int64_t n, DType type,
                            Traffic what) {
  const Chunks chunks(n, servers_.servers, type);
  auto* const vector = static_cast<std::byte*>(weights);
  doing_ = name_of("pull", n, type, what);
  record(server_key(what, size(), false), 0, core::Bytes(0), [&] {
    for (int m = 0; m < servers_.servers; ++m) {
      Message in = memory_.blank(chunks.chunk_bytes());
      take(servers_.index_of_server(m), "reply", in.bytes.get(), chunks.chunk_bytes());
      memory_.copy(vector + chunks.offset(m), in.bytes.get(), chunks.bytes(m));
      memory_.recycle(std::move(in));
    }
  });
  static_cast<void>(key);
}

void NcclCommunicator::collect(std::int64_t key, void* sum, std::int64_t n, DType type,
                               ReduceOp op, Traffic what) {
  const Chunks chunks(n, servers_.servers, type);
  auto* const running = static_cast<std::byte*>(sum);
  doing_ = name_of("collect", n, type, what);
  record(server_key(what, size(), true), 0, core::Bytes(0), [&] {
    take(0, "push", running, chunks.chunk_bytes());
    for (int worker = 1; worker < servers_.workers; ++worker) {
      Message in = memory_.blank(chunks.chunk_bytes());
      take(worker, "push", in.bytes.get(), chunks.chunk_bytes());
      memory_.combine(running, in.bytes.get(), running, chunks.each, type, op);
      memory_.recycle(std::move(in));
    }
  });
  static_cast<void>(key);
}

void NcclCommunicator::reply(std::int64_t key, const void* weights, std::int64_t n, DType type,
                             Traffic what) {
  const Chunks chunks(n, servers_.servers, type);
  doing_ = name_of("reply", n, type, what);
  record(server_key(what, size(), true), 1, payload(n, servers_.servers, type), [&] {
    for (int worker = 0; worker < servers_.workers; ++worker) {
      Message block = memory_.blank(chunks.chunk_bytes());
      memory_.copy(block.bytes.get(), static_cast<const std::byte*>(weights),
                   chunks.chunk_bytes());
      post(worker, "reply", std::move(block));
    }
  });
  static_cast<void>(key);
}

PendingPush NcclCommunicator::next_push() {
  PLANNER_CHECK(false, kNoTurns);
  return {};
}
void NcclCommunicator::take_push(const PendingPush&, void*, Traffic) {
  PLANNER_CHECK(false, kNoTurns);
}
void NcclCommunicator::reply_to(int, std::int64_t, const void*, std::int64_t, DType, Traffic) {
  PLANNER_CHECK(false, kNoTurns);
}

}  // namespace exec::cuda
