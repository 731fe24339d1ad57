#include "exec/cuda/backend/message_pool.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "exec/cuda/kernels/kernels.hpp"

namespace exec::cuda {

MessagePool::MessagePool(Api& api) : api_(api), pool_(api.create_pool()) {}

MessagePool::~MessagePool() {
  for (auto& [data, block] : blocks_) {
    api_.destroy(block.last_use);
    api_.release(pool_, data);
  }
  api_.destroy(pool_);
}

MessagePool::Block MessagePool::take(std::size_t size) {
  const std::scoped_lock lock(mutex_);
  size = std::max<std::size_t>(size, 256);
  const auto spare = std::ranges::find_if(spares_, [&](const Block& b) {
    return b.capacity >= size && b.capacity <= 2 * size;
  });
  if (spare != spares_.end()) {
    Block block = *spare;
    spares_.erase(spare);
    return block;
  }
  Block made{.capacity = size, .last_use = api_.create_event(false)};
  made.data = static_cast<std::byte*>(api_.allocate(pool_, size));
  blocks_[made.data] = made;
  made.fresh = true;
  return made;
}

void MessagePool::give(std::byte* data) {
  const std::scoped_lock lock(mutex_);
  spares_.push_back(blocks_.at(data));
  spares_.back().used = true;
}

void MessagePool::settle() noexcept {
  const std::scoped_lock lock(mutex_);
  for (Block& spare : spares_) spare.used = false;
}

EventHandle MessagePool::last_use(std::byte* data) {
  const std::scoped_lock lock(mutex_);
  return blocks_.at(data).last_use;
}

void StreamMessages::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from)
    queue_().api.copy({.to = to, .from = from, .width = bytes}, queue_().stream);
}

void StreamMessages::zero(std::byte* to, std::size_t bytes) {
  if (bytes > 0) queue_().api.set_zero(to, bytes, queue_().stream);
}

void StreamMessages::combine(const std::byte* left, const std::byte* right, std::byte* out,
                             std::int64_t n, core::DType type, program::ReduceOp op) {
  const auto view = [&](const std::byte* p) { return View{const_cast<std::byte*>(p), type}; };
  cuda::combine(queue_(), view(out), view(left), view(right), op, n);
}

// Who used the block before has done so when this stream comes to it.
Message StreamMessages::blank(std::size_t size) {
  const MessagePool::Block block = pool_.take(size);
  if (block.fresh) made_ += core::Bytes(static_cast<std::int64_t>(block.capacity));
  if (block.used) queue_().api.wait(queue_().stream, block.last_use);
  Message message;
  using Place = decltype(message.bytes);  // shared_ptr: the pool owns it, this shares nothing
  message.bytes = Place(Place(), block.data);
  message.size = size;
  message.capacity = block.capacity;
  return message;
}

void StreamMessages::sent(Message& message) {
  queue_().api.record(pool_.last_use(message.bytes.get()), queue_().stream);
}
void StreamMessages::received(Message& message) {
  queue_().api.wait(queue_().stream, pool_.last_use(message.bytes.get()));
}
void StreamMessages::recycle(Message&& message) {
  if (message.capacity == 0) return;
  std::byte* const data = message.bytes.get();
  queue_().api.record(pool_.last_use(data), queue_().stream);
  pool_.give(data);
  message = {};
}

}  // namespace exec::cuda
