// The parameter-server half of MessageCommunicator: push and pull of workers, collect and reply of
// servers. What a colocated server exchanges with itself is a message like any other, off the wire.

#include <cstring>
#include <utility>

#include "core/check.hpp"
#include "exec/communicator/message_communicator.hpp"

namespace exec {
namespace {

constexpr Lane kPushes{Lane::Kind::push, 0};
constexpr Lane kReplies{Lane::Kind::reply, 0};

Header server_header(CallKind kind, std::int64_t key, std::int64_t n, core::DType type,
                     program::Traffic what, program::ReduceOp op = program::ReduceOp::sum) {
  return {kind, program::Algorithm::parameter_server, op, type, what, n, key, 0};
}

core::Bytes payload(std::int64_t n, int servers, core::DType type) {
  const auto c = program::Collective::parameter_server;
  return program::payload_bytes(c, program::Algorithm::parameter_server, 1, servers, n, type);
}

TrafficKey worker_entry(program::Traffic what, int size) {
  return {what, program::Collective::parameter_server, program::Algorithm::parameter_server, size,
          false};
}

TrafficKey server_entry(program::Traffic what, int size) {
  TrafficKey key = worker_entry(what, size);
  key.server = true;
  return key;
}

}  // namespace

void MessageCommunicator::use_servers(const ServerLayout& layout) {
  const int needed = layout.workers + (layout.colocated ? 0 : layout.servers);
  PLANNER_CHECK(layout.workers >= 1 && layout.servers >= 1 && needed == size(),
                "the layout does not fill the group");
  PLANNER_CHECK(!layout.colocated || layout.servers <= layout.workers);
  servers_ = layout;
}

void MessageCommunicator::push(std::int64_t key, const void* gradient, std::int64_t n, DType type,
                               Traffic what) {
  PLANNER_CHECK(index() < servers_.workers, "only a worker pushes, after use_servers()");
  const Header header = server_header(CallKind::push, key, n, type, what);
  const Chunks chunks(n, servers_.servers, type);
  record(worker_entry(what, size()), 1, payload(n, servers_.servers, type), [&] {
    for (int m = 0; m < servers_.servers; ++m) {
      send_chunk(servers_.index_of_server(m), kPushes, header,
                 static_cast<const std::byte*>(gradient), chunks, m);
    }
  });
}

void MessageCommunicator::pull(std::int64_t key, void* weights, std::int64_t n, DType type,
                               Traffic what) {
  PLANNER_CHECK(index() < servers_.workers, "only a worker pulls, after use_servers()");
  const Header header = server_header(CallKind::reply, key, n, type, what);
  const Chunks chunks(n, servers_.servers, type);
  auto* vector = static_cast<std::byte*>(weights);
  record(worker_entry(what, size()), 0, core::Bytes(0), [&] {
    for (int m = 0; m < servers_.servers; ++m) {
      receive_bytes(servers_.index_of_server(m), kReplies, header, vector + chunks.offset(m),
                    chunks.bytes(m));
    }
  });
}

void MessageCommunicator::collect(std::int64_t key, void* sum, std::int64_t n, DType type,
                                  ReduceOp op, Traffic what) {
  const Chunks chunks(n, servers_.servers, type);
  auto* running = static_cast<std::byte*>(sum);
  const Header header = server_header(CallKind::push, key, n, type, what);
  record(server_entry(what, size()), 0, core::Bytes(0), [&] {
    receive_bytes(0, kPushes, header, running, chunks.chunk_bytes());
    for (int worker = 1; worker < servers_.workers; ++worker) {
      fold_message_in(worker, kPushes, header, op, running, chunks.each);
    }
  });
}

void MessageCommunicator::reply(std::int64_t key, const void* weights, std::int64_t n, DType type,
                                Traffic what) {
  const Header header = server_header(CallKind::reply, key, n, type, what);
  const Chunks chunks(n, servers_.servers, type);
  record(server_entry(what, size()), 1, payload(n, servers_.servers, type), [&] {
    for (int worker = 0; worker < servers_.workers; ++worker) {
      send_bytes(worker, kReplies, header, static_cast<const std::byte*>(weights),
                 chunks.chunk_bytes());
    }
  });
}

PendingPush MessageCommunicator::next_push() {
  const Peek first = transport_->wait_any(kPushes);
  return {first.peer, first.header.label, first.header.n, first.header.type};
}

void MessageCommunicator::take_push(const PendingPush& push, void* gradient, Traffic what) {
  const Header header = server_header(CallKind::push, push.key, push.n, push.type, what);
  const Chunks chunks(push.n, servers_.servers, push.type);
  record(server_entry(what, size()), 0, core::Bytes(0), [&] {
    receive_bytes(push.worker, kPushes, header, static_cast<std::byte*>(gradient),
                  chunks.chunk_bytes());
  });
}

void MessageCommunicator::reply_to(int worker, std::int64_t key, const void* weights,
                                   std::int64_t n, DType type, Traffic what) {
  PLANNER_CHECK(worker >= 0 && worker < servers_.workers);
  const Header header = server_header(CallKind::reply, key, n, type, what);
  const Chunks chunks(n, servers_.servers, type);
  record(server_entry(what, size()), 1, payload(n, servers_.servers, type), [&] {
    send_bytes(worker, kReplies, header, static_cast<const std::byte*>(weights),
               chunks.chunk_bytes());
  });
}

}  // namespace exec
