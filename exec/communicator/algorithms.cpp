// The reductions of MessageCommunicator, one function per algorithm. K = size, i = index.
// What is lent is written again only after the sum that its reader adds it to has come.

#include <algorithm>
#include <utility>

#include "exec/communicator/message_communicator.hpp"

namespace exec {

// K-1 steps. Chunk c starts at index c+1, is folded by c+2, c+3, ... and ends complete at c, so in
// step s index i passes on chunk i-1-s and folds chunk i-2-s.
void MessageCommunicator::ring_reduce(const Header& header, std::byte* vector,
                                      const Chunks& chunks) {
  const int k = size(), i = index();
  for (int s = 0; s + 1 < k; ++s) {
    lend_chunk((i + 1) % k, header, vector, chunks, (i - 1 - s + 2 * k) % k);
    const int c = (i - 2 - s + 2 * k) % k;
    fold_into_message((i + k - 1) % k, header, vector + chunks.offset(c), chunks.elements(c));
  }
}

// K-1 steps. Chunk c is complete at index c and travels on; in step s index i passes on chunk i-s.
void MessageCommunicator::ring_gather(const Header& header, std::byte* vector,
                                      const Chunks& chunks) {
  const int k = size(), i = index();
  for (int s = 0; s + 1 < k; ++s) {
    lend_chunk((i + 1) % k, header, vector, chunks, (i - s + k) % k);
    const int c = (i - 1 - s + k) % k;
    receive_bytes((i + k - 1) % k, Lane{}, header, vector + chunks.offset(c), chunks.bytes(c));
  }
}

// Binary heap tree: children 2i+1 and 2i+2 are folded in that order, the root's result comes back.
void MessageCommunicator::tree_all_reduce(const Header& header, std::byte* vector) {
  const int i = index();
  const int parent = (i - 1) / 2;
  const int first_child = std::min(2 * i + 1, size());
  const int last_child = std::min(2 * i + 3, size());
  const auto bytes = static_cast<std::size_t>(core::bytes_of(header.n, header.type).value());
  for (int child = first_child; child < last_child; ++child) {
    fold_message_in(child, Lane{}, header, header.op, vector, header.n);
  }
  if (i != 0) {
    lend_bytes(parent, Lane{}, header, vector, bytes);
    receive_bytes(parent, Lane{}, header, vector, bytes);
  }
  for (int child = first_child; child < last_child; ++child) {
    lend_bytes(child, Lane{}, header, vector, bytes);
  }
}

// Everyone sends everything to everyone and folds in ascending order. The running sum of the
// indices below i lives in the first message, so that no scratch vector is needed.
void MessageCommunicator::naive_all_reduce(const Header& header, std::byte* vector) {
  const int k = size(), i = index();
  const auto bytes = static_cast<std::size_t>(core::bytes_of(header.n, header.type).value());
  for (int step = 1; step < k; ++step) {
    send_bytes((i + step) % k, Lane{}, header, vector, bytes);
  }
  if (i > 0) {
    Message running = expect(0, Lane{}, header);
    for (int peer = 1; peer < i; ++peer) {
      fold_message_in(peer, Lane{}, header, header.op, running.bytes.get(), header.n);
    }
    transport_->memory().combine(running.bytes.get(), vector, vector, header.n, header.type,
                                 header.op);
    transport_->recycle(std::move(running));
  }
  for (int peer = i + 1; peer < k; ++peer) {
    fold_message_in(peer, Lane{}, header, header.op, vector, header.n);
  }
}

// One server at index 0 that keeps nothing: it folds in ascending order and returns the sum.
void MessageCommunicator::server_all_reduce(const Header& header, std::byte* vector) {
  const auto bytes = static_cast<std::size_t>(core::bytes_of(header.n, header.type).value());
  if (index() > 0) {
    lend_bytes(0, Lane{}, header, vector, bytes);
    return receive_bytes(0, Lane{}, header, vector, bytes);
  }
  for (int peer = 1; peer < size(); ++peer) {
    fold_message_in(peer, Lane{}, header, header.op, vector, header.n);
  }
  for (int peer = 1; peer < size(); ++peer) lend_bytes(peer, Lane{}, header, vector, bytes);
}

}  // namespace exec
