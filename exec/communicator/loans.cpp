#include "exec/communicator/loans.hpp"

namespace exec {

Message Loans::lend(const Header& header, std::span<const std::byte> bytes) {
  {
    const std::scoped_lock lock(book_->mutex);
    ++book_->out;
  }
  // Nobody writes to a lent message: Message has one type of bytes for both.
  auto* const own = const_cast<std::byte*>(bytes.data());
  const auto give_back = [book = book_](std::byte*) {
    const std::scoped_lock lock(book->mutex);
    if (--book->out == 0) book->changed.notify_one();
  };
  Message message;
  message.header = header;
  message.bytes.reset(own, give_back);
  message.size = bytes.size();
  message.lent = true;
  return message;
}

void Loans::settle(const Inbox::Patience& patience) {
  constexpr std::chrono::milliseconds kLook{10};  // at `stop`, which wakes nobody here
  const auto start = Inbox::Time::clock::now();
  std::unique_lock lock(book_->mutex);
  while (!book_->changed.wait_for(lock, kLook, [&] { return book_->out == 0; })) {
    lock.unlock();
    patience.stop();
    if (patience.limit.count() > 0 && Inbox::Time::clock::now() >= start + patience.limit)
      patience.stalled();
    lock.lock();
  }
}

void Loans::wait_for_taken() noexcept {
  std::unique_lock lock(book_->mutex);
  book_->changed.wait(lock, [&] { return book_->out == 0; });
}

bool Loans::any() const {
  const std::scoped_lock lock(book_->mutex);
  return book_->out > 0;
}

}  // namespace exec
