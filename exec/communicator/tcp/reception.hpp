#pragma once
// Reception: the host's side of a greeting, for any number of guests at one time. A stranger that
// says nothing, or too much, costs a descriptor and a few kilobytes, and is shown out after a
// while. One thread.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "exec/communicator/tcp/greeting.hpp"

namespace exec::tcp {

// Somebody who has proven the secret, and waits for a welcome.
struct Guest {
  Socket socket;
  Join join;
  std::string host;         // address it came from
  Nonce own{}, other{};     // the guest's nonce, ours
};

// Of a rank that somebody claimed to be with another secret.
struct Impostor {
  Time first;
  std::string host;
};

class Reception {
 public:
  Reception(Socket listener, std::string secret);

  // Waits for whatever comes, for a tenth of a second at most, on these descriptors too.
  std::vector<Guest> look(std::span<const int> beside);
  const std::map<int, Impostor>& impostors() const { return impostors_; }
  Socket& listener() { return listener_; }

  void welcome(Guest& guest, std::string_view body, const Wait& wait) const;

 private:
  struct Visitor {
    Guest guest;
    std::string in;
    Time until;
    bool challenged = false;
    bool done = false;  // a guest now, or shown out
  };
  void let_in();
  void hear(Visitor& visitor, std::vector<Guest>& guests);
  void answer(Visitor& visitor, const Packet& packet, std::vector<Guest>& guests);
  void check_join(Visitor& visitor, const std::string& body, std::vector<Guest>& guests);

  Socket listener_;
  std::string secret_;
  std::vector<Visitor> visitors_;
  std::map<int, Impostor> impostors_;  // by the rank that they claim
};

// Without waiting: what fits into the connection's buffer, which is new and has room.
void refuse(const Socket& socket, Refusal why);

}  // namespace exec::tcp
