#pragma once
// Scene: who plays a step. Actors are folds of ranks (or ranks, unfolded), each with the timetable
// of its class and place; channels are where they meet. Both evaluators play the same scene.
//
// Meetings (program/checker.hpp, progress): messages and collectives start when all parties have
// come. Pushes and replies to servers are buffered: who posts goes on; who collects starts when all
// posts of its turn have started, because both sides' durations contain the wire.
//
// Keeps references to program and classes. Immutable after building; thread-safe to read.

#include <cstdint>
#include <vector>

#include "sim/cost/machine.hpp"
#include "sim/engine/fold.hpp"
#include "sim/engine/timetable.hpp"

namespace engine {

// A slow rank: its compute kernels take `slowdown` times as long. Its link to other nodes has
// `link_share` of its bandwidth: of every transfer of a group that spans nodes and that it belongs
// to, the part on the wire takes 1 / link_share times as long. Where all ranks are on one node it
// is the link inside the node. The links of servers that stand apart are as they were.
struct Straggler {
  int rank = 0;
  double slowdown = 1;
  double link_share = 1;               // in (0, 1]
};

struct SceneOptions {
  bool unfold = false;
  // Folds to play, where messages share links and tell more ranks apart (symmetry.hpp). REQUIRES:
  // no jitter, and the marks of the stragglers.
  const Fold* fold = nullptr;
  bool parts = false;                  // for traces: TimetableOptions::parts
  std::vector<Straggler> stragglers{};  // REQUIRES: ranks of the mesh, slowdown > 0
  // Compute kernels take (1 + jitter x N(0, 1)) times as long, at least half and at most twice,
  // drawn by rank and operation from the seed. Every rank then is its own: the scene unfolds.
  double jitter = 0;
  std::uint64_t seed = 1;
};

// By rank, what tells it apart: 0, or a number that equally slow stragglers share.
std::vector<std::uint32_t> straggler_marks(int ranks, const std::vector<Straggler>& stragglers);

enum class ChannelKind : std::uint8_t { collective, message, push, pull };
inline bool is_buffered(ChannelKind kind) {
  return kind == ChannelKind::push || kind == ChannelKind::pull;
}

struct Channel {
  ChannelKind kind{};
  std::uint32_t parties = 0;           // actors that come, posts alone where it is buffered
  std::uint32_t last_actor = kAbsent;  // while it is built
};

// An actor's place at a channel.
struct Seat {
  std::uint32_t channel = kAbsent;     // kAbsent: nobody else is there, the time is its own
  bool posts = false;                  // buffered channels: posts, else collects
  bool times = true;                   // its duration counts: of a message, the sender's
  std::uint32_t turn_counter = 0;      // buffered channels: counts this actor's turns
};

struct Actor {
  int rank = 0;                        // the lowest of its fold
  int ranks = 1;
  std::uint32_t timetable = 0;
  std::uint32_t first_seat = 0;        // of its timetable's points, in their order
  double slowdown = 1;                 // of compute kernels
};

class Scene {
 public:
  Scene(const program::Program& program, const cost::Machine& machine, SceneOptions options = {});

  const program::Program& program() const { return *program_; }
  const std::vector<Actor>& actors() const { return actors_; }
  const std::vector<Channel>& channels() const { return channels_; }
  const Fold& fold() const { return fold_; }
  std::uint32_t turn_counters() const { return turn_counters_; }
  const std::vector<Timetable>& timetables() const { return timetables_; }
  const Timetable& timetable(const Actor& actor) const { return timetables_[actor.timetable]; }
  // From Actor::first_seat on, those of an actor.
  const std::vector<Seat>& seats() const { return seats_; }
  // REQUIRES: the operation has a point.
  const Seat& seat(const Actor& actor, const Operation& op) const {
    return seats_[actor.first_seat + op.point];
  }
  // Of an operation of this actor, the index-th that it issues.
  std::int64_t duration(const Actor& actor, const Operation& op, std::uint64_t index) const {
    return varies_ ? varied(actor, op, index) : op.duration;
  }
  // Operations of one step, all actors; what playing it costs.
  double operations() const;
  // Steps to play where so many are asked for: without flush a run that fills, is steady for two
  // and drains.
  int steps_of(int asked) const;
  // Of these, those at the end that drain: the one before them is accounted.
  int draining_steps() const;

 private:
  void add_actors(const Groups& groups, const cost::Machine& machine, const SceneOptions& options);
  void seat_actors(const Groups& groups, bool flows);
  void weaken_links(const cost::Machine& machine, const std::vector<Straggler>& stragglers);
  std::int64_t varied(const Actor& actor, const Operation& op, std::uint64_t index) const;

  const program::Program* program_;
  Fold fold_;
  std::vector<Timetable> timetables_;
  std::vector<Actor> actors_;
  std::vector<Channel> channels_;
  std::vector<Seat> seats_;
  std::vector<double> wire_;           // by seat, how many times as long its bytes take; empty: 1
  std::uint32_t turn_counters_ = 0;
  bool varies_ = false;                // stragglers or jitter
  double jitter_;
  std::uint64_t seed_;
};

}  // namespace engine
