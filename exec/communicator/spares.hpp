#pragma once
// Spares: the memory of messages that were read, for those to come. Thread-safe.

#include <mutex>
#include <vector>

#include "exec/communicator/transport.hpp"

namespace exec {

class Spares {
 public:
  // A message with room for `size` bytes, its size set to that; from the spares if one fits.
  Message blank(std::size_t size);
  void recycle(Message&& message);

 private:
  std::mutex mutex_;
  std::vector<Message> messages_;
};

}  // namespace exec
