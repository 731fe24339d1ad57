#include "exec/communicator/spares.hpp"

#include <algorithm>

namespace exec {
namespace {

constexpr std::size_t kMost = 4;  // enough for a ring; more would keep memory that nobody counts

}  // namespace

Message Spares::blank(std::size_t size) {
  Message message;
  {
    const std::scoped_lock lock(mutex_);
    const auto fits = [&](const Message& m) {
      return m.capacity >= size && m.capacity / 2 <= size;
    };
    const auto spare = std::find_if(messages_.begin(), messages_.end(), fits);
    if (spare != messages_.end()) {
      message = std::move(*spare);
      messages_.erase(spare);
    }
  }
  if (message.capacity < size) {
    message.bytes = std::make_unique_for_overwrite<std::byte[]>(size);
    message.capacity = size;
  }
  message.size = size;
  return message;
}

void Spares::recycle(Message&& message) {
  const std::scoped_lock lock(mutex_);
  if (message.capacity == 0) return;
  if (messages_.size() == kMost) messages_.erase(messages_.begin());
  messages_.push_back(std::move(message));
}

}  // namespace exec
