#include "exec/communicator/tcp/reception.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace exec::tcp {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostVisitors = 256;
constexpr auto kVisitWithin = 10s;
constexpr int kLookMs = 100;

bool send_now(const Socket& socket, const std::string& bytes) {
  return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

}  // namespace

void refuse(const Socket& socket, Refusal why) {
  send_now(socket, encode(PacketKind::refused, std::string(1, static_cast<char>(why))));
  ::shutdown(socket.get(), SHUT_WR);
}

Reception::Reception(Socket listener, std::string secret)
    : listener_(std::move(listener)), secret_(std::move(secret)) {}

std::vector<Guest> Reception::look(std::span<const int> beside) {
  std::vector<pollfd> watched{{listener_.get(), POLLIN, 0}};
  for (const Visitor& v : visitors_) watched.push_back({v.guest.socket.get(), POLLIN, 0});
  for (const int fd : beside) watched.push_back({fd, POLLIN, 0});
  ::poll(watched.data(), watched.size(), kLookMs);
  std::vector<Guest> guests;
  for (std::size_t i = 0; i < visitors_.size(); ++i) {
    if (watched[i + 1].revents != 0) hear(visitors_[i], guests);
    if (Clock::now() > visitors_[i].until) visitors_[i].done = true;
  }
  std::erase_if(visitors_, [](const Visitor& v) { return v.done; });
  if (watched[0].revents != 0) let_in();
  return guests;
}

void Reception::let_in() {
  for (;;) {
    Visitor visitor;
    visitor.guest.socket = accept_from(listener_);
    if (!visitor.guest.socket.open()) return;
    visitor.until = Clock::now() + kVisitWithin;
    if (visitors_.size() == kMostVisitors) visitors_.erase(visitors_.begin());
    visitors_.push_back(std::move(visitor));
  }
}

void Reception::hear(Visitor& visitor, std::vector<Guest>& guests) {
  std::array<char, kMostGreeting + kHeadBytes> buffer;
  const ssize_t got = ::recv(visitor.guest.socket.get(), buffer.data(),
                             buffer.size() - std::min(visitor.in.size(), buffer.size()), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    visitor.done = true;  // gone, or more than it may say
    return;
  }
  visitor.in.append(buffer.data(), static_cast<std::size_t>(got));
  while (!visitor.done && visitor.in.size() >= kHeadBytes) {
    const std::optional<Head> head = decode_head(visitor.in, kMostGreeting);
    if (!head || head->protocol != kProtocol) {
      if (head) refuse(visitor.guest.socket, Refusal::protocol);
      visitor.done = true;
      return;
    }
    if (visitor.in.size() < kHeadBytes + head->size) return;
    const Packet packet{head->kind, visitor.in.substr(kHeadBytes, head->size)};
    visitor.in.erase(0, kHeadBytes + head->size);
    answer(visitor, packet, guests);
  }
}

void Reception::answer(Visitor& visitor, const Packet& packet, std::vector<Guest>& guests) {
  Guest& guest = visitor.guest;
  if (packet.kind == PacketKind::hello && !visitor.challenged &&
      packet.body.size() == guest.own.size()) {
    std::memcpy(guest.own.data(), packet.body.data(), guest.own.size());
    guest.other = random_nonce();
    visitor.challenged = true;
    visitor.done = !send_now(guest.socket, encode(PacketKind::challenge,
                                                  {guest.other.data(), guest.other.size()}));
    return;
  }
  visitor.done = true;
  if (packet.kind == PacketKind::join && visitor.challenged)
    check_join(visitor, packet.body, guests);
}

void Reception::check_join(Visitor& visitor, const std::string& body,
                           std::vector<Guest>& guests) {
  Guest& guest = visitor.guest;
  const auto said = proven(secret_, Role::guest, guest.own, guest.other, body);
  guest.host = peer_address(guest.socket).host;
  if (said) {
    const std::optional<Join> join = decode_join(*said);
    if (!join) return;
    guest.join = *join;
    guests.push_back(std::move(guest));
    return;
  }
  refuse(guest.socket, Refusal::secret);
  // What it claims is believed no further than that somebody of that name is misconfigured.
  const std::size_t claimed = body.size() - std::min<std::size_t>(body.size(), 32);
  if (const auto join = decode_join(std::string_view(body).substr(0, claimed));
      join && impostors_.size() < kMostVisitors)
    impostors_.try_emplace(join->rank, Impostor{Clock::now(), guest.host});
}

void Reception::welcome(Guest& guest, std::string_view body, const Wait& wait) const {
  const std::string bytes =
      encode(PacketKind::welcome,
             std::string(body) + proof(secret_, Role::host, guest.own, guest.other, body));
  send_all(guest.socket, std::as_bytes(std::span(bytes)), wait);
}

}  // namespace exec::tcp
