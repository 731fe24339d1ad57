#pragma once
// Messages between ranks that share one GPU: blocks of device memory, each with an event that says
// when its last use is done. A MessagePool belongs to a run and is thread-safe; a StreamMessages is
// one rank's end of it on one stream.

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "exec/communicator/transport.hpp"
#include "exec/cuda/kernels/queue.hpp"

namespace exec::cuda {

class MessagePool {
 public:
  explicit MessagePool(Api& api);
  ~MessagePool();
  MessagePool(const MessagePool&) = delete;
  MessagePool& operator=(const MessagePool&) = delete;

  struct Block {
    std::byte* data = nullptr;
    std::size_t capacity = 0;
    EventHandle last_use = nullptr;
    bool used = false;                 // last_use was recorded since all uses were known to be over
    bool fresh = false;                // made for this call: of its rank's memory
  };
  // A spare block of at least `size` bytes and not more than twice that, or a new one.
  Block take(std::size_t size);
  void give(std::byte* data);
  EventHandle last_use(std::byte* data);
  // Every use so far is over, or kept as work that runs apart from all other: nobody waits for it.
  void settle() noexcept;

 private:
  Api& api_;
  PoolHandle pool_;
  std::mutex mutex_;
  std::map<std::byte*, Block> blocks_;
  std::vector<Block> spares_;
};

class StreamMessages final : public MessageMemory {
 public:
  // queue(): where this stream is to be given work now.
  StreamMessages(MessagePool& pool, std::function<const Queue&()> queue)
      : pool_(pool), queue_(std::move(queue)) {}

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void zero(std::byte* to, std::size_t bytes) override;
  void combine(const std::byte* left, const std::byte* right, std::byte* out, std::int64_t n,
               core::DType type, program::ReduceOp op) override;
  bool makes_messages() const override { return true; }
  Message blank(std::size_t size) override;
  void sent(Message& message) override;
  void received(Message& message) override;
  void recycle(Message&& message) override;

  MessagePool& pool() const { return pool_; }
  const Queue& queue() const { return queue_(); }
  core::Bytes made() const { return made_; }  // blocks that were new for this end

 private:
  MessagePool& pool_;
  std::function<const Queue&()> queue_;
  core::Bytes made_{};
};

}  // namespace exec::cuda
