#pragma once
// Wires: the links of a machine and the collectives that move over them, message by message.
//
// Links: each GPU's ports out and in (machine.link), bridged pairs (machine.pair), each node's
// network out and in (machine.internode). A message inside a node crosses two ports, or the bridge;
// between nodes also both networks. It begins one latency after what it follows. What a profile's
// single bandwidth per GPU leaves out (switches, PCIe trees, host memory) is not shared here
// either.
//
// Driven from outside like the network: next() says when advance() has something to do. Not
// thread-safe.

#include <cstdint>
#include <map>
#include <optional>
#include <queue>
#include <span>
#include <vector>

#include "sim/cost/machine.hpp"
#include "sim/engine/message_plan.hpp"
#include "sim/engine/network.hpp"

namespace engine {

// A rank whose ports keep a share of their bandwidth; 0: its links inside the node are broken, and
// its messages take the network even to neighbours.
struct WeakLink {
  int rank = 0;
  double share = 1;
};

class Wires {
 public:
  Wires(int ranks, const cost::Machine& machine, Sharing sharing, std::span<const WeakLink> weak);

  // Whether a message between these two can arrive: broken links need a network to go around.
  bool reaches(int from, int to) const;

  // Moves a plan's messages between ranks (its members, in order), from now on, each `beside` after
  // its latency. token: the owner's.
  void start(std::uint32_t token, const MessagePlan& plan, std::vector<int> members,
             std::int64_t now, std::int64_t beside = 0);

  // How long a message takes on whole links that nothing else uses; empty between nodes, where
  // what a rank may call its own of the network depends on the others.
  std::optional<std::int64_t> alone(int from, int to, double bytes) const;

  std::int64_t next() const;
  // A member has sent and received all that concerns it.
  struct Done {
    std::uint32_t token = 0;
    int member = 0;
  };
  // Everything up to now. REQUIRES: now is next(), or the time of a start().
  void advance(std::int64_t now, std::vector<Done>& done);

  double bytes_sent(int rank) const { return sent_[static_cast<std::size_t>(rank)]; }
  double bytes_received(int rank) const { return received_[static_cast<std::size_t>(rank)]; }

 private:
  struct Route {
    Network::Path path;
    std::int64_t latency = 0;
  };
  struct Exchange {
    std::uint32_t token = 0;
    const MessagePlan* plan = nullptr;
    std::vector<int> members;
    std::vector<int> awaits;           // by message: how many it still follows
    std::vector<int> left;             // by member: messages to and from it
    std::size_t unfinished = 0;
    std::int64_t beside = 0;
  };
  struct InFlight {
    std::uint32_t exchange = 0, message = 0;
  };
  struct Begin {
    std::int64_t time = 0;
    std::uint32_t flight = 0;
    friend bool operator>(const Begin& a, const Begin& b) {
      return a.time != b.time ? a.time > b.time : a.flight > b.flight;
    }
  };

  Route route(int from, int to) const;
  void launch(std::uint32_t exchange, std::uint32_t message, std::int64_t now);
  void arrive(InFlight flight, std::int64_t now, std::vector<Done>& done);
  void leave(Exchange& exchange, int member, std::vector<Done>& done);

  int per_node_;
  bool has_pairs_ = false;
  std::int64_t latency_, pair_latency_, network_latency_;
  double port_rate_, pair_rate_;       // bytes per picosecond
  Network network_;
  std::vector<std::uint32_t> port_out_, port_in_, pair_, node_out_, node_in_;
  std::vector<bool> broken_;
  std::vector<double> sent_, received_;
  std::vector<Exchange> exchanges_;
  std::vector<InFlight> flights_;
  std::vector<std::uint32_t> free_exchanges_, free_flights_, ended_;
  std::priority_queue<Begin, std::vector<Begin>, std::greater<>> begins_;
};

}  // namespace engine
