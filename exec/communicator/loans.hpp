#pragma once
// Loans: messages over the sender's own bytes, so that ranks of one process need not copy what one
// of them only reads. Whoever drops such a message gives the bytes back.
// Thread-safety: one thread lends and settles; messages may be dropped by any.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>

#include "exec/communicator/mailbox.hpp"

namespace exec {

class Loans {
 public:
  // Less is copied: a copy takes less time than waking the sender when it was read.
  static constexpr std::size_t kLeast = std::size_t{64} << 10;

  Loans() : book_(std::make_shared<Book>()) {}

  Message lend(const Header& header, std::span<const std::byte> bytes);
  // Until all are back; ends as a wait in an inbox does.
  void settle(const Inbox::Patience& patience);
  // Until those that were taken are back. REQUIRES: nobody takes another.
  void wait_for_taken() noexcept;
  bool any() const;

 private:
  struct Book {
    std::mutex mutex;
    std::condition_variable changed;
    int out = 0;
  };
  std::shared_ptr<Book> book_;         // shared with the messages, which may outlive this
};

}  // namespace exec
