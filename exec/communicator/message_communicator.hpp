#pragma once
// The collectives, written over a transport's messages. Each algorithm folds in the order of
// program::reduction_order and moves program::wire_bytes; pad elements travel as zeros. A message
// whose header is not the one expected ends the world with an OrderMismatch.
// Thread-safety: one thread at a time.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "exec/communicator/communicator.hpp"
#include "exec/communicator/transport.hpp"

namespace exec {

// A vector of n elements cut into equal chunks; the last ones may lie partly or wholly past n.
struct Chunks {
  Chunks(std::int64_t elements, int parts, core::DType element_type);
  std::int64_t n;
  std::int64_t each;  // elements per chunk, padding included
  core::DType type;
  std::int64_t elements(int chunk) const;   // that lie before n
  std::size_t offset(int chunk) const;      // bytes; of an empty chunk: the vector's end
  std::size_t bytes(int chunk) const;       // of elements(chunk)
  std::size_t chunk_bytes() const;          // padding included
};

class MessageCommunicator final : public Communicator {
 public:
  explicit MessageCommunicator(std::unique_ptr<Transport> transport);

  int size() const override { return transport_->size(); }
  int index() const override { return transport_->index(); }
  int rank_of(int i) const override { return transport_->rank_of(i); }

  void all_reduce(void* buffer, std::int64_t n, DType type, ReduceOp op,
                  program::Algorithm algorithm, Traffic what) override;
  void reduce_scatter(void* buffer, std::int64_t n, void* chunk, DType type, ReduceOp op,
                      Traffic what) override;
  void all_gather(const void* chunk, void* full, std::int64_t n, DType type,
                  Traffic what) override;
  void broadcast(void* buffer, std::int64_t n, DType type, int root, Traffic what) override;
  void exchange(const void* out, void* in, std::int64_t n, DType type, Traffic what) override;
  void ring_shift(const void* out, void* in, std::int64_t n, DType type, Traffic what) override;
  void send(const void* buffer, std::int64_t n, DType type, int peer, std::int64_t tag,
            Traffic what) override;
  void recv(void* buffer, std::int64_t n, DType type, int peer, std::int64_t tag,
            Traffic what) override;
  void barrier() override;

  void use_servers(const ServerLayout& layout) override;
  void push(std::int64_t key, const void* gradient, std::int64_t n, DType type,
            Traffic what) override;
  void pull(std::int64_t key, void* weights, std::int64_t n, DType type, Traffic what) override;
  void collect(std::int64_t key, void* sum, std::int64_t n, DType type, ReduceOp op,
               Traffic what) override;
  void reply(std::int64_t key, const void* weights, std::int64_t n, DType type,
             Traffic what) override;
  PendingPush next_push() override;
  void take_push(const PendingPush& push, void* gradient, Traffic what) override;
  void reply_to(int worker, std::int64_t key, const void* weights, std::int64_t n, DType type,
                Traffic what) override;

  const CommunicatorStatistics& statistics() const override { return statistics_; }
  void reset_statistics() override;

 private:
  // Runs body, has back what it lent, and adds its time, and the wire bytes it sent, to the entry
  // of `key`.
  void record(TrafficKey key, std::int64_t calls, core::Bytes payload,
              const std::function<void()>& body);
  TrafficKey key_of(Traffic what, program::Collective collective, program::Algorithm algorithm,
                    bool library = false) const;

  // The message that is due, header checked.
  Message expect(int peer, Lane lane, const Header& header);
  void send_bytes(int peer, Lane lane, const Header& header, const std::byte* data,
                  std::size_t size);
  void send_chunk(int peer, Lane lane, const Header& header, const std::byte* vector,
                  const Chunks& chunks, int chunk);
  // The same, of memory that nobody writes to before the call returns, or before an answer that
  // follows from it has come.
  void lend_bytes(int peer, Lane lane, const Header& header, const std::byte* data,
                  std::size_t size);
  void lend_chunk(int peer, const Header& header, const std::byte* vector, const Chunks& chunks,
                  int chunk);
  void receive_bytes(int peer, Lane lane, const Header& header, std::byte* out, std::size_t size);
  // out = out op message, and out = message op out: the running sum is always on the left.
  void fold_message_in(int peer, Lane lane, const Header& header, ReduceOp op, std::byte* out,
                       std::int64_t n);
  void fold_into_message(int peer, const Header& header, std::byte* out, std::int64_t n);

  void ring_reduce(const Header& header, std::byte* vector, const Chunks& chunks);
  void ring_gather(const Header& header, std::byte* vector, const Chunks& chunks);
  void tree_all_reduce(const Header& header, std::byte* vector);
  void naive_all_reduce(const Header& header, std::byte* vector);
  void server_all_reduce(const Header& header, std::byte* vector);
  void run_all_reduce(const Header& header, std::byte* vector);
  std::chrono::nanoseconds farthest_trip(const Header& header);

  std::unique_ptr<Transport> transport_;
  ServerLayout servers_;
  std::int64_t collective_calls_ = 0;
  std::optional<std::chrono::nanoseconds> trip_;  // of a barrier's answer; measured by its first
  CommunicatorStatistics statistics_;
};

}  // namespace exec
