#include "exec/communicator/tcp/greeting.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "core/sha256.hpp"

namespace exec::tcp {
namespace {

constexpr std::uint32_t kMagic = 0x504c4e52;  // "PLNR"; other byte orders read another number
constexpr std::size_t kProofBytes = 32;
constexpr std::uint32_t kMostMembers = 65536;

// Numbers and texts in a row.
class Writer {
 public:
  void number(std::uint32_t n) {
    bytes_.append(reinterpret_cast<const char*>(&n), sizeof n);
  }
  void text(std::string_view t) {
    number(static_cast<std::uint32_t>(t.size()));
    bytes_.append(t);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what a stranger wrote: wrong lengths make it !sound(), and every value empty.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  std::uint32_t number() {
    std::uint32_t n = 0;
    if (const std::string_view bytes = piece(sizeof n); !bytes.empty())
      std::memcpy(&n, bytes.data(), sizeof n);
    return n;
  }
  std::string text(std::size_t most) {
    const std::size_t size = number();
    if (size > most) sound_ = false;
    return std::string(sound_ ? piece(size) : "");
  }
  bool sound() const { return sound_; }
  bool done() const { return sound_ && rest_.empty(); }

 private:
  std::string_view piece(std::size_t size) {
    if (size > rest_.size()) sound_ = false;
    if (!sound_) return {};
    const std::string_view head = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return head;
  }
  std::string_view rest_;
  bool sound_ = true;
};

constexpr std::size_t kMostText = 512;

Packet receive(const Socket& socket, std::size_t most, const Wait& wait) {
  std::string head(kHeadBytes, '\0');
  if (!receive_all(socket, std::as_writable_bytes(std::span(head)), wait))
    throw SocketError("receiving", ECONNRESET);
  const std::optional<Head> known = decode_head(head, most);
  if (!known) throw NotUnderstood();
  Packet packet{known->kind, std::string(known->size, '\0')};
  if (known->size > 0 &&
      !receive_all(socket, std::as_writable_bytes(std::span(packet.body)), wait))
    throw SocketError("receiving", ECONNRESET);
  if (packet.kind == PacketKind::refused && packet.body.size() == 1)
    throw Refused(static_cast<Refusal>(packet.body.front()));
  if (known->protocol != kProtocol) throw Refused(Refusal::protocol);
  return packet;
}

void send(const Socket& socket, PacketKind kind, std::string_view body, const Wait& wait) {
  const std::string bytes = encode(kind, body);
  send_all(socket, std::as_bytes(std::span(bytes)), wait);
}

}  // namespace

Nonce random_nonce() {
  Nonce nonce{};
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    throw SocketError("random bytes", errno);
  return nonce;
}

std::string encode(PacketKind kind, std::string_view body) {
  std::string bytes(kHeadBytes, '\0');
  const auto size = static_cast<std::uint32_t>(body.size());
  std::memcpy(bytes.data(), &kMagic, 4);
  std::memcpy(bytes.data() + 4, &kProtocol, 2);
  std::memcpy(bytes.data() + 6, &kind, 2);
  std::memcpy(bytes.data() + 8, &size, 4);
  return bytes.append(body);
}

std::optional<Head> decode_head(std::string_view bytes, std::size_t most) {
  std::uint32_t magic = 0, size = 0;
  Head head;
  std::memcpy(&magic, bytes.data(), 4);
  std::memcpy(&head.protocol, bytes.data() + 4, 2);
  std::memcpy(&head.kind, bytes.data() + 6, 2);
  std::memcpy(&size, bytes.data() + 8, 4);
  head.size = size;
  if (magic != kMagic || head.size > most) return std::nullopt;
  return head;
}

std::string encode(const Join& j) {
  Writer w;
  w.number(static_cast<std::uint32_t>(j.purpose));
  for (const int n : {j.rank, j.size, j.port}) w.number(static_cast<std::uint32_t>(n));
  for (const std::string* text : {&j.version, &j.plan, &j.machine, &j.job, &j.session})
    w.text(std::string_view(*text).substr(0, kMostText));
  return w.take();
}

std::optional<Join> decode_join(std::string_view bytes) {
  Reader r(bytes);
  Join j;
  const std::uint32_t purpose = r.number();
  for (int* n : {&j.rank, &j.size, &j.port}) *n = static_cast<int>(r.number());
  for (std::string* text : {&j.version, &j.plan, &j.machine, &j.job, &j.session})
    *text = r.text(kMostText);
  if (!r.done() || purpose > static_cast<std::uint32_t>(Purpose::data)) return std::nullopt;
  if (j.rank < 0 || j.size < 1 || j.port < 0 || j.port > 65535) return std::nullopt;
  j.purpose = static_cast<Purpose>(purpose);
  return j;
}

std::string encode(const Table& table) {
  Writer w;
  w.text(table.session);
  w.number(static_cast<std::uint32_t>(table.members.size()));
  for (const Member& m : table.members) {
    w.text(m.host);
    w.number(static_cast<std::uint32_t>(m.port));
    w.text(m.machine);
  }
  return w.take();
}

std::optional<Table> decode_table(std::string_view bytes) {
  Reader r(bytes);
  Table table;
  table.session = r.text(kMostText);
  const std::uint32_t members = r.number();
  if (members > kMostMembers) return std::nullopt;
  for (std::uint32_t i = 0; i < members && r.sound(); ++i) {
    Member m;
    m.host = r.text(kMostText);
    m.port = static_cast<int>(r.number());
    m.machine = r.text(kMostText);
    table.members.push_back(std::move(m));
  }
  if (!r.done()) return std::nullopt;
  return table;
}

std::string proof(std::string_view secret, Role role, const Nonce& guest, const Nonce& host,
                  std::string_view body) {
  std::string said = role == Role::guest ? "guest" : "host ";
  said.append(guest.data(), guest.size()).append(host.data(), host.size()).append(body);
  const core::Digest digest = core::hmac_sha256(secret, said);
  return {digest.begin(), digest.end()};
}

std::optional<std::string> proven(std::string_view secret, Role role, const Nonce& guest,
                                  const Nonce& host, std::string_view body) {
  if (body.size() < kProofBytes) return std::nullopt;
  const std::string_view said = body.substr(0, body.size() - kProofBytes);
  core::Digest given{}, due{};
  std::memcpy(given.data(), body.data() + said.size(), kProofBytes);
  std::memcpy(due.data(), proof(secret, role, guest, host, said).data(), kProofBytes);
  if (!core::same(given, due)) return std::nullopt;
  return std::string(said);
}

Refused::Refused(Refusal why) : std::runtime_error("refused"), why_(why) {}

std::string greet(const Socket& socket, std::string_view secret, const Join& join,
                  const Wait& first, const Wait& last, bool* challenged) {
  const Nonce own = random_nonce();
  send(socket, PacketKind::hello, {own.data(), own.size()}, first);
  const Packet challenge = receive(socket, kMostGreeting, first);
  Nonce other{};
  if (challenge.kind != PacketKind::challenge || challenge.body.size() != other.size())
    throw NotUnderstood();
  std::memcpy(other.data(), challenge.body.data(), other.size());
  const std::string body = encode(join);
  send(socket, PacketKind::join, body + proof(secret, Role::guest, own, other, body), first);
  *challenged = true;
  const Packet welcome = receive(socket, kMostWelcome, last);
  if (welcome.kind != PacketKind::welcome) throw NotUnderstood();
  const auto said = proven(secret, Role::host, own, other, welcome.body);
  if (!said) throw Refused(Refusal::secret);
  return *said;
}

}  // namespace exec::tcp
