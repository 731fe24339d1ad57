#pragma once
// Greeting: how two processes that share a secret recognise each other over a connection, before
// either believes a word. The secret never travels: each side proves it with HMAC-SHA-256 over
// nonces that both have drawn.
//
//   guest -> host   hello      the guest's nonce
//   host  -> guest  challenge  the host's nonce
//   guest -> host   join       who it is, and HMAC(secret, "guest", both nonces, that)
//   host  -> guest  welcome    its answer, and HMAC(secret, "host", both nonces, that)
//   host  -> guest  refused    instead of any of its two: why
//
// A packet is a head of 12 bytes and a body of bounded size. Texts of a stranger are never printed.
// Values and functions; thread-safe.

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "exec/communicator/tcp/socket.hpp"

namespace exec::tcp {

inline constexpr std::uint16_t kProtocol = 1;            // raised with every change of what travels
inline constexpr std::size_t kMostGreeting = 4096;       // bytes of a body from a stranger
inline constexpr std::size_t kMostWelcome = 16u << 20;   // from one that is known
inline constexpr std::size_t kHeadBytes = 12;

enum class PacketKind : std::uint16_t { hello = 1, challenge, join, welcome, refused };
enum class Refusal : std::uint8_t { protocol = 1, secret, busy, ended };

using Nonce = std::array<char, 16>;
Nonce random_nonce();

struct Packet {
  PacketKind kind{};
  std::string body;
};
std::string encode(PacketKind kind, std::string_view body);

// The head of a packet. Nothing: not of this protocol, or longer than `most`.
struct Head {
  std::uint16_t protocol = 0;
  PacketKind kind{};
  std::size_t size = 0;
};
std::optional<Head> decode_head(std::string_view bytes, std::size_t most);

// What a guest says of itself.
enum class Purpose : std::uint32_t { registration, data };
struct Join {
  Purpose purpose{};
  int rank = 0, size = 0;
  std::string version, plan, machine, job;  // plan: a digest, or empty where it has no such file
  int port = 0;                             // where it listens for data
  std::string session;                      // data: of the run that it belongs to
};
std::string encode(const Join& join);
std::optional<Join> decode_join(std::string_view bytes);

// Who is where, as rank 0 tells everybody.
struct Member {
  std::string host;
  int port = 0;
  std::string machine;
};
struct Table {
  std::string session;
  std::vector<Member> members;  // by rank
};
std::string encode(const Table& table);
std::optional<Table> decode_table(std::string_view bytes);

enum class Role { guest, host };
std::string proof(std::string_view secret, Role role, const Nonce& guest, const Nonce& host,
                  std::string_view body);
// Takes a proof off the end of a packet's body. Nothing: it is no proof of this secret.
std::optional<std::string> proven(std::string_view secret, Role role, const Nonce& guest,
                                  const Nonce& host, std::string_view body);

class Refused : public std::runtime_error {
 public:
  explicit Refused(Refusal why);
  Refusal why() const { return why_; }

 private:
  Refusal why_;
};
// What answers is no rank 0 of this program.
class NotUnderstood : public std::runtime_error {
 public:
  NotUnderstood() : std::runtime_error("what answers there is not this program") {}
};

// The guest's side, on a connection just made: joins, and waits for the welcome. Throws Refused,
// NotUnderstood, SocketError, Interrupted. challenged: set where the other side is a host that
// waits; the welcome may take until `last`.
std::string greet(const Socket& socket, std::string_view secret, const Join& join,
                  const Wait& first, const Wait& last, bool* challenged);

}  // namespace exec::tcp
