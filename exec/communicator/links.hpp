#pragma once
// Paced links: when a message would arrive if the ranks were apart. Each rank has one full-duplex
// port. The messages that are on their way share the ports as flows do, max-min fair [bertsekas],
// which is the law of sim/engine's network: three that leave one port, or reach one, go at a third
// of its bandwidth each, and who begins a little late is late by that little. Messages of one rank
// to one other go in order, one after another. No congestion inside the network. A message given at
// t over free ports arrives at t + bytes/bandwidth + latency.
// Thread-safe.

#include <chrono>
#include <memory>
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

  // A message on its way.
  struct Flight {
    int from;
    int to;
    std::chrono::nanoseconds latency;
    double left_ns;               // until its last byte has left, if the ports were its own
    double share = 0;             // of its ports
    std::optional<Time> arrives{};  // once its last byte has left
  };
  using FlightPtr = std::shared_ptr<Flight>;  // the links' and the receiver's

  // `every` paces all pairs, `pairs` some of them instead; a pair that neither names is not paced.
  PacedLinks(int ranks, std::optional<Link> every, const std::vector<LinkBetween>& pairs);

  // Whether any pair is paced: times are then emulated.
  bool any() const { return any_; }
  // Puts a message on its way, given at `now`; null when the pair is not paced.
  FlightPtr send(int from, int to, core::Bytes bytes, Time now);
  // When it arrives; as long as that is not known, the first time at which it could. O(ranks x
  // messages on their way) for each message that ended since the last call.
  Time arrival(const Flight& flight, Time now);

 private:
  void settle(Time now);
  void share_ports();

  int ranks_;
  bool any_;
  std::vector<std::optional<Link>> links_;  // [from * ranks + to]
  std::mutex mutex_;
  Time at_{};                               // when what follows held
  std::vector<FlightPtr> flights_;          // whose last byte has not left, in order of sending
};

}  // namespace exec
