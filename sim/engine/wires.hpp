#pragma once
// Wires: the collectives that move over the links of a topology, message by message.
//
// An exchange is one collective or message under way. While no other exchange crosses the links of
// a ring, nothing can change its rates: its messages are stepped together (ring_course.hpp), and
// only the ends of its members are events. As soon as another exchange begins that crosses one of
// these links, the ring is taken apart into the messages that are on their way at that moment, to
// the picosecond as if they had been played one by one from the start.
//
// With a symmetry, one rank, message and link is played for all that are alike: members are ranks
// that stand for their fold, and weights say how many of the alike messages cross one link.
//
// Driven from outside like the network: next() says when advance() has something to do. Not
// thread-safe.

#include <cstdint>
#include <map>
#include <memory>
#include <queue>
#include <span>
#include <tuple>
#include <vector>

#include "sim/engine/message_plan.hpp"
#include "sim/engine/network.hpp"
#include "sim/engine/symmetry.hpp"
#include "sim/engine/topology.hpp"
#include "sim/engine/ways.hpp"

namespace engine {

// Who plays which part of a plan, and over which ways. Built by Wires; shared by all exchanges
// between the same ranks.
struct Cast {
  std::vector<int> members;            // ranks, by member of the plan
  std::vector<std::uint32_t> paths;    // by message of the plan: of the network
  std::vector<std::int64_t> latencies;
  std::vector<std::uint32_t> links;    // that the messages cross, each once
  bool apart = false;                  // no two messages cross one link
};

class Wires {
 public:
  // symmetry, where given, outlives the wires; so does the topology.
  Wires(const Topology& topology, Sharing sharing, const Symmetry* symmetry = nullptr);

  // Whether a message between these two can arrive.
  bool reaches(int from, int to) const { return topology_.reaches(from, to); }
  const Topology& topology() const { return topology_; }
  const Symmetry* symmetry() const { return symmetry_; }

  // members: the plan's, in order; ways: by message.
  Cast cast(std::vector<int> members, std::span<const Way> ways);
  // Of the plan's own ranks, without a symmetry.
  Cast cast(const MessagePlan& plan, const std::vector<int>& members);

  // Moves a plan's messages from now on, each `beside` later than its latency says (earlier, where
  // negative, but not before what it follows). token: the owner's. plan and cast outlive it.
  void start(std::uint32_t token, const MessagePlan& plan, const Cast& cast, std::int64_t now,
             std::int64_t beside = 0);

  std::int64_t next() const;
  // A member has sent and received all that concerns it.
  struct Done {
    std::uint32_t token = 0;
    int member = 0;
  };
  // Everything up to now. REQUIRES: now is next(), or the time of a start().
  void advance(std::int64_t now, std::vector<Done>& done);

  // visit(token, bytes that a message still has to move), of every message on its way over links.
  template <class Visit>
  void each_in_flight(std::int64_t now, const Visit& visit) const {
    network_.each_in_flight(now, [&](std::uint32_t flight, double left) {
      visit(exchanges_[flights_[flight].exchange].token, left);
    });
  }

  double bytes_sent(int rank) const { return sent_[stand_in(rank)]; }
  double bytes_received(int rank) const { return received_[stand_in(rank)]; }
  // Bytes that a link of the topology has carried, of what has ended.
  double carried(std::uint32_t link) const;
  std::vector<double> carried() const;
  // Exchanges that were stepped together to their end, and all.
  std::uint64_t stepped_together() const { return stepped_together_; }
  std::uint64_t exchanges() const { return started_; }

 private:
  struct Exchange {
    std::uint32_t token = 0;
    const MessagePlan* plan = nullptr;
    const Cast* cast = nullptr;
    std::int64_t start = 0, beside = 0;
    bool together = false;             // a ring that is stepped together
    std::uint32_t life = 0;            // grows whenever the place is taken anew
    std::vector<std::int64_t> awaits;  // by message: how many it still follows
    std::vector<std::int64_t> ended;   // by message of a ring: how many of its rounds have ended
    std::vector<int> left;             // by member: messages to and from it
    std::size_t unfinished = 0;        // messages
    std::size_t next_end = 0;          // together: of the course's ends
  };
  // When the members of a ring that is stepped together are done, ascending.
  struct Course {
    std::vector<std::int64_t> takes;   // by edge
    struct End {
      std::int64_t time = 0;
      int member = 0;
    };
    std::vector<End> ends;
  };
  struct InFlight {
    std::uint32_t exchange = 0, message = 0;
  };
  // A flight that sets out on its links, or (of = exchange) members of a course that are done.
  struct Timer {
    std::int64_t time = 0;
    std::uint32_t of = 0, life = 0;
    friend bool operator>(const Timer& a, const Timer& b) {
      return a.time != b.time ? a.time > b.time : a.of > b.of;
    }
  };
  using Timers = std::priority_queue<Timer, std::vector<Timer>, std::greater<>>;
  struct Holder {
    std::uint32_t exchanges = 0;       // that cross the link
    std::uint32_t together = kNobody;  // the one that is stepped together, then the only one
  };
  static constexpr std::uint32_t kNobody = 0xffffffff;

  std::size_t stand_in(int rank) const;
  std::uint32_t path(std::span<const Network::Hop> hops);
  std::uint32_t take_exchange();
  bool free_of_others(const Cast& cast, std::int64_t now);
  const Course& course_of(const Exchange& x);
  void step_together(std::uint32_t exchange);
  void schedule_course(std::uint32_t exchange);
  void take_apart(std::uint32_t exchange, std::int64_t now);
  void play(std::uint32_t exchange, std::int64_t now);
  std::int64_t set_out_delay(const Exchange& x, std::uint32_t message) const;
  std::uint32_t take_flight(std::uint32_t exchange, std::uint32_t message);
  void launch(std::uint32_t exchange, std::uint32_t message, std::int64_t now);
  void launch_edge(std::uint32_t exchange, std::size_t edge, std::int64_t now);
  void end_course(std::uint32_t exchange, std::int64_t now, std::vector<Done>& done);
  void begin_due(std::int64_t now);
  void arrive(InFlight flight, std::int64_t now, std::vector<Done>& done);
  void arrive_round(InFlight flight, std::int64_t now);
  void count(const Exchange& x, std::uint32_t message, double times);
  void leave(Exchange& exchange, int member, std::vector<Done>& done);
  void finish(std::uint32_t exchange);

  const Topology& topology_;
  const Symmetry* symmetry_;
  Sharing sharing_;
  Network network_;
  std::map<std::vector<std::pair<std::uint32_t, double>>, std::uint32_t> paths_;
  std::vector<double> sent_, received_;
  std::vector<Exchange> exchanges_;
  std::vector<InFlight> flights_;
  std::vector<std::uint32_t> free_exchanges_, free_flights_, ended_;
  std::vector<Holder> holders_;        // by link of the network
  std::map<std::tuple<const MessagePlan*, const Cast*, std::int64_t>, Course> courses_;
  Timers begins_, courses_due_;
  std::vector<Done> due_;              // of courses taken apart: not told yet
  std::int64_t due_since_ = 0;
  std::uint64_t started_ = 0, stepped_together_ = 0;
};

}  // namespace engine
