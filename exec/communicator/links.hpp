#pragma once
// Paced links: when a message would arrive if the ranks were apart. Each rank has one full-duplex
// port: what it sends leaves in order, one message after another, and what reaches it is received
// one message at a time, so a server's replies and an incast queue as they would; a message that
// leaves early is not held up by one that another rank gave before and that leaves late. No
// congestion inside the
// network. A message that leaves at t over a free path arrives at t + bytes/bandwidth + latency.
// Thread-safe.

#include <chrono>
#include <mutex>
#include <optional>
#include <vector>

#include "core/units.hpp"

namespace exec {

struct Link {
  core::BytesPerSecond bandwidth;
  core::Seconds latency;
};

struct LinkBetween {  // ranks of the world, one direction
  int from;
  int to;
  Link link;
};

class PacedLinks {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `every` paces all pairs, `pairs` some of them instead; a pair that neither names is not paced.
  PacedLinks(int ranks, std::optional<Link> every, const std::vector<LinkBetween>& pairs);

  // Whether any pair is paced: times are then emulated.
  bool any() const { return any_; }
  // Takes the ports for this message and says when it arrives; `now` when the pair is not paced.
  Time arrival(int from, int to, core::Bytes bytes, Time now);

 private:
  struct Span { Time first, last; };
  struct Port {
    Time sends{};                      // busy until
    std::vector<Span> receives;        // busy, from now on, in order
  };
  // The port is busy from the first time on, `earliest` or later, that it is idle for so long.
  static Time receive(Port& port, Time earliest, std::chrono::nanoseconds transfer, Time now);

  int ranks_;
  bool any_;
  std::vector<std::optional<Link>> links_;  // [from * ranks + to]
  std::mutex mutex_;
  std::vector<Port> ports_;
};

}  // namespace exec
