#include "exec/communicator/tcp/link.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <string>

namespace exec::tcp {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;
constexpr int kMostReads = 64;  // before other connections have their turn

}  // namespace

std::size_t most_bytes(RecordKind kind) {
  switch (kind) {
    case RecordKind::data: return 64 * kGiB;  // no buffer of a rank is larger
    case RecordKind::text:
    case RecordKind::texts: return 2 * kGiB;
    case RecordKind::failure:
    case RecordKind::verdict: return std::size_t{64} << 10;
    case RecordKind::beat:
    case RecordKind::bye: return 0;
  }
  return 0;
}

bool Link::send(RecordKind kind, Message&& body) {
  const std::scoped_lock lock(mutex_);
  const bool waited = !outgoing_.empty();
  outgoing_.push_back({{kind, 0, body.size}, std::move(body)});
  if (waited) return false;
  if (!write_some(outgoing_.front())) return true;
  outgoing_.pop_front();
  return false;
}

bool Link::flush() {
  const std::scoped_lock lock(mutex_);
  while (!outgoing_.empty()) {
    if (!write_some(outgoing_.front())) return true;
    outgoing_.pop_front();
  }
  return false;
}

bool Link::has_unsent() const {
  const std::scoped_lock lock(mutex_);
  return !outgoing_.empty();
}

// True: all of it is sent, or nobody is there to read it, which receive() finds.
bool Link::write_some(Outgoing& out) {
  const std::size_t all = sizeof(RecordHead) + out.body.size;
  while (out.sent < all) {
    std::array<iovec, 2> parts{};
    int n = 0;
    const std::size_t head_sent = std::min(out.sent, sizeof(RecordHead));
    if (head_sent < sizeof(RecordHead))
      parts[n++] = {reinterpret_cast<std::byte*>(&out.head) + head_sent,
                    sizeof(RecordHead) - head_sent};
    const std::size_t body_sent = out.sent - head_sent;
    if (body_sent < out.body.size)
      parts[n++] = {out.body.bytes.get() + body_sent, out.body.size - body_sent};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = static_cast<std::size_t>(n);
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return false;
    if (sent < 0) break;
    out.sent += static_cast<std::size_t>(sent);
  }
  spares_.recycle(std::move(out.body));
  return true;
}

// False: closed or failed. got: 0 where nothing is there now.
bool Link::read_some(std::byte* to, std::size_t most, std::size_t& got) {
  for (;;) {
    const ssize_t read = ::recv(socket_.get(), to, most, MSG_DONTWAIT);
    got = read > 0 ? static_cast<std::size_t>(read) : 0;
    if (read > 0) heard = Clock::now();
    if (read < 0 && errno == EINTR) continue;
    return read > 0 || (read < 0 && errno == EAGAIN);
  }
}

bool Link::receive(const std::function<void(Record&&)>& whole) {
  for (int reads = 0; reads < kMostReads; ++reads) {
    std::size_t got = 0;
    if (head_got_ < sizeof head_) {
      auto* const to = reinterpret_cast<std::byte*>(&head_) + head_got_;
      if (!read_some(to, sizeof head_ - head_got_, got)) return false;
      if (got == 0) return true;
      head_got_ += got;
      if (head_got_ < sizeof head_) continue;
      if (head_.kind < RecordKind::data || head_.kind > RecordKind::bye ||
          head_.size > most_bytes(head_.kind))
        throw BadRecord("sent a record of kind " +
                        std::to_string(static_cast<std::uint32_t>(head_.kind)) + " and " +
                        std::to_string(head_.size) + " bytes, which this program never does");
      body_ = spares_.blank(head_.size);
      body_got_ = 0;
    }
    if (body_got_ < body_.size) {
      if (!read_some(body_.bytes.get() + body_got_, body_.size - body_got_, got)) return false;
      if (got == 0) return true;
      body_got_ += got;
    }
    if (body_got_ < body_.size) continue;
    head_got_ = 0;
    whole({head_.kind, std::move(body_)});
  }
  return true;
}

}  // namespace exec::tcp
