#pragma once
// NcclCommunicator: one end of a group whose buffers lie in the memory of GPUs. Every call is given
// to a stream and returns; collectives are the library's, or own kernels over its send and receive.
//
// Collectives of the same ranks share one communicator of the library, whatever streams they are
// on: the library runs them in the order of the calls. Each direction and tag of messages has one.
//
// send() holds up its stream until the receiver has come. It reads the caller's buffer, which the
// Program keeps until the stream has passed the call. push() and reply() must not wait for their
// receiver. So they copy the bytes to a block of the message pool, and a second stream sends the
// block. It uses a communicator of two ranks that carries this direction alone, so no other call
// waits for it.
//
// Ranks of a group must make the same calls in the same order; the library does not check it. A
// mistake shows as an error that it tells of later, or as a step that misses its deadline.
// Thread-safety: the thread that gives the rank's work.

#include <map>
#include <memory>
#include <vector>

#include "exec/communicator/communicator.hpp"
#include "exec/communicator/message_communicator.hpp"
#include "exec/cuda/backend/message_pool.hpp"
#include "exec/cuda/nccl/world.hpp"

namespace exec::cuda {

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(NcclWorld& world, std::vector<int> group, int index, int channel,
                   StreamMessages& memory);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int size() const override { return static_cast<int>(group_.size()); }
  int index() const override { return index_; }
  int rank_of(int i) const override { return group_[static_cast<std::size_t>(i)]; }

  void all_reduce(void* buffer, std::int64_t n, DType type, ReduceOp op,
                  program::Algorithm algorithm, Traffic what) override;
  void reduce_scatter(void* buffer, std::int64_t n, void* chunk, DType type, ReduceOp op,
                      Traffic what) override;
  void all_gather(const void* chunk, void* full, std::int64_t n, DType type,
                  Traffic what) override;
  void broadcast(void* buffer, std::int64_t n, DType type, int root, Traffic what) override;
  void exchange(const void* out, void* in, std::int64_t n, DType type, Traffic what) override;
  void ring_shift(const void* out, void* in, std::int64_t n, DType type, Traffic what) override;
  // REQUIRES: a group of two, whose first sends and whose second receives.
  void send(const void* buffer, std::int64_t n, DType type, int peer, std::int64_t tag,
            Traffic what) override;
  void recv(void* buffer, std::int64_t n, DType type, int peer, std::int64_t tag,
            Traffic what) override;
  // Never called: ranks meet in the control world.
  void barrier() override;

  void use_servers(const ServerLayout& layout) override;
  void push(std::int64_t key, const void* gradient, std::int64_t n, DType type,
            Traffic what) override;
  void pull(std::int64_t key, void* weights, std::int64_t n, DType type, Traffic what) override;
  void collect(std::int64_t key, void* sum, std::int64_t n, DType type, ReduceOp op,
               Traffic what) override;
  void reply(std::int64_t key, const void* weights, std::int64_t n, DType type,
             Traffic what) override;
  // Never called: servers that answer in the order of arrival are refused before a run.
  PendingPush next_push() override;
  void take_push(const PendingPush& push, void* gradient, Traffic what) override;
  void reply_to(int worker, std::int64_t key, const void* weights, std::int64_t n, DType type,
                Traffic what) override;

  const CommunicatorStatistics& statistics() const override { return statistics_; }
  void reset_statistics() override { statistics_ = {}; }

  // Communicators of the library that this end takes part in.
  std::vector<NcclWorld::Key> needs() const;
  // Waits until what was sent beside is received.
  void drain_beside();

 private:
  // Where bytes go that nobody here waits for: one direction, a stream of its own.
  struct Outlet {
    Outlet(MessagePool& pool, Queue with)
        : queue(with), messages(pool, [this]() -> const Queue& { return queue; }) {}
    Queue queue;
    StreamMessages messages;
    std::deque<Message> kept;          // to this rank itself: not on the wire
    std::vector<Message> under_way;    // of this step: given back when all of it is done
  };
  struct Part {                        // of a step of send and receive
    int peer;
    std::byte* data;
    std::size_t bytes;
  };

  // communicator.cpp
  void record(TrafficKey key, std::int64_t calls, core::Bytes payload,
              const std::function<void()>& body);
  void record_library(const TrafficKey& key);
  TrafficKey key_of(Traffic what, program::Collective collective, program::Algorithm algorithm,
                    bool library = false) const;
  bool is_library(program::Algorithm algorithm) const;
  void call(const NcclWorld::Key& key, const std::string& what, StreamHandle stream,
            const std::function<nccl::Result(nccl::Comm, nccl::Stream)>& body);
  void count_by_law(program::Collective collective, program::Algorithm algorithm, std::int64_t n,
                    DType type);
  NcclWorld::Key own_key() const;
  std::string name_of(const char* call, std::int64_t n, DType type, Traffic what);
  // own.cpp: all at once; the call is over on the stream when the last of them is.
  void move(const std::vector<Part>& out, const std::vector<Part>& in);
  Message padded_copy(const std::byte* vector, const Chunks& chunks, int chunk);
  void run_all_reduce(std::byte* vector, std::int64_t n, DType type, ReduceOp op,
                      program::Algorithm algorithm);
  void ring_reduce(std::byte* vector, const Chunks& chunks, ReduceOp op);
  void ring_gather(std::byte* vector, const Chunks& chunks);
  void tree_all_reduce(std::byte* vector, std::int64_t n, DType type, ReduceOp op);
  void naive_all_reduce(std::byte* vector, std::int64_t n, DType type, ReduceOp op);
  void server_all_reduce(std::byte* vector, std::int64_t n, DType type, ReduceOp op);
  // servers.cpp: what leaves without waiting.
  NcclWorld::Key one_way(int from, int to, const char* what) const;
  Outlet& outlet(const NcclWorld::Key& key);
  void post(int to, const char* what, Message&& block);
  // Of that index, into `out`; a message of this rank to itself is copied.
  void take(int from, const char* what, std::byte* out, std::size_t bytes);

  NcclWorld& world_;
  const std::vector<int> group_;
  const int index_, channel_;
  StreamMessages& memory_;
  ServerLayout servers_;               // no workers: it has none
  std::map<NcclWorld::Key, std::unique_ptr<Outlet>> outlets_;
  std::int64_t calls_ = 0;
  std::string doing_;                  // the call under way, as a message names it
  core::Bytes sent_{0};
  CommunicatorStatistics statistics_;
};

}  // namespace exec::cuda
