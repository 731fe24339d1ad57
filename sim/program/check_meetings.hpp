#pragma once
// The meetings of a Program's ranks: which action of which rank must come together with which
// actions of others. Each class is reduced to its waits, signals and meetings once; ranks share
// that list and differ in whom they meet. Internal to sim/program. Not thread-safe.

#include <array>
#include <map>
#include <tuple>
#include <vector>

#include "sim/program/checker_parts.hpp"

namespace program::checker {

inline constexpr std::size_t kNothing = static_cast<std::size_t>(-1);

// What the parties of a meeting must agree on.
using Terms = std::tuple<Collective, Algorithm, Traffic, ReduceOp, core::DType, std::int64_t>;

// One action that waits, signals or meets.
struct Item {
  Place at;
  Stream stream{};
  std::vector<std::size_t> after;      // items whose signals it waits for
  bool meets = false;
  Terms terms{};
};

// A class as the ranks play it.
struct Part {
  const RankClass* k = nullptr;
  std::vector<Item> items;             // in issue order
};

// Meetings with the same key follow one another in the order in which each party issues them.
enum class MeetingKind : std::uint8_t { collective, message, push, pull };
struct Channel {
  MeetingKind kind{};
  Group group{};                       // of collectives
  Stream stream{};                     // of collectives
  int first = 0, second = 0;           // sender and receiver, or first rank; of pushes: its turn
  std::uint16_t tag = 0;               // of messages
  friend auto operator<=>(const Channel&, const Channel&) = default;
};

// A rank that is played.
struct Player {
  int rank = 0;
  const Part* part = nullptr;
  std::vector<std::size_t> meeting;    // of each item, kNothing: none
};
struct Party {
  std::size_t player = 0, item = 0;
  friend bool operator==(const Party&, const Party&) = default;
};
struct Meeting {
  MeetingKind kind{};
  std::vector<Party> parties;
};

// Whether the action takes what another rank's action gives: of messages, pushes and replies.
bool takes(ActionKind kind);

class Meetings {
 public:
  Meetings(const Program& p, std::int64_t micro_batches, Problems& problems);

  bool matched() const { return matched_; }  // else problems were added
  const std::vector<Player>& players() const { return players_; }
  const std::vector<Meeting>& all() const { return meetings_; }

  const Item& item_of(const Party& party) const {
    return players_[party.player].part->items[party.item];
  }
  const Action& action_of(const Party& party) const {
    return players_[party.player].part->k->actions[item_of(party).at.action];
  }
  std::string who(const Player& player) const {
    return "rank " + std::to_string(player.rank) + " (" + player.part->k->name + ")";
  }
  std::string describe(const Party& party) const;

 private:
  // The items of one party of a channel, by player and side.
  using Calls = std::map<std::pair<std::size_t, bool>, std::vector<std::size_t>>;

  void choose();
  int server_group(int rank) const;
  Channel channel_of(const Player& player, const Item& item) const;
  bool has_peer(const Player& player, const Item& item) const;
  void enter(std::size_t r);
  std::vector<std::pair<std::size_t, bool>> parties(const Channel& c) const;
  bool in_group(const Channel& c, int rank) const;
  void mismatch(std::size_t r, std::size_t item, std::string expected, std::string found);
  void match();
  bool match_one(const Channel& channel, const Calls& calls,
                 const std::vector<std::pair<std::size_t, bool>>& all, std::size_t n);

  const Program& p_;
  Problems& problems_;
  std::vector<Part> parts_;
  std::vector<Player> players_;
  std::map<Channel, Calls> channels_;
  std::vector<Meeting> meetings_;
  bool matched_ = true;
};

}  // namespace program::checker
