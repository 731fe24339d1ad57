#pragma once
// Network: messages in flight over links that they share. Capacities are bytes per picosecond.
//
//   shared     max-min fair [bertsekas]: rates are filled up together, and whoever crosses a full
//              link keeps what it has; the only allocation in which nobody can be given more
//              without taking from someone who has no more. Solved by progressive filling.
//   exclusive  a link carries one message at a time; a message starts when all of its links are
//              free, in the order of arrival.
//
// A message may stand for many alike, and a link for as many (symmetry.hpp). Then a hop's weight
// says how many of those messages cross one of those links; it takes weight x rate of the capacity.
//
// Event-driven from outside: after add() or at next_end(), call settle(now) once per instant; it
// tells what has ended. settle finds new rates only for messages that share a link, directly or
// over others, with one that began or ended. Links that fill up at the same rate are filled in one
// round, so the rates are the same bits whether alike messages are apart or stand for one another.
// Deterministic. Cost of settle: the rounds of filling times the size of the part that is solved
// anew, and log(messages) for each rate that changes. Thread-compatible.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace engine {

enum class Sharing : std::uint8_t { shared, exclusive };

class Network {
 public:
  struct Hop {
    std::uint32_t link = 0;
    double weight = 1;
  };
  using Path = std::vector<std::uint32_t>;  // links; no link twice

  explicit Network(Sharing sharing) : sharing_(sharing) {}

  // REQUIRES: capacity > 0.
  std::uint32_t add_link(double bytes_per_picosecond);
  // A way that messages can take from now on. REQUIRES: not empty, no link twice, weights > 0.
  std::uint32_t add_path(std::span<const Hop> hops);
  // A message of the owner's, over a path. REQUIRES: now not before the last settle().
  void send(std::uint32_t message, std::uint32_t path, double bytes, std::int64_t now);
  // The same over links of weight 1.
  void add(std::uint32_t message, const Path& path, double bytes, std::int64_t now);
  // A message that has been alone on its path since then, and still is. REQUIRES: shared.
  void resume(std::uint32_t message, std::uint32_t path, double bytes, std::int64_t since);

  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  // When the next message ends if nothing else happens.
  std::int64_t next_end() const { return ends_.empty() ? kNever : flows_[ends_.front()].end; }
  // Messages that have ended by `now`, in the order of their arrival; the others share anew.
  void settle(std::int64_t now, std::vector<std::uint32_t>& ended);

  std::size_t in_flight() const { return in_flight_; }
  std::size_t links() const { return links_.size(); }
  double capacity(std::uint32_t link) const { return links_[link].capacity; }
  // Bytes that a link has carried so far, of ended messages.
  double carried(std::uint32_t link) const { return links_[link].carried; }
  // What the messages in flight take of a link at this moment, bytes per picosecond.
  double load(std::uint32_t link) const;
  std::span<const Hop> hops(std::uint32_t path) const;
  // Rate of a message that has a path to itself.
  double rate_alone(std::uint32_t path) const;
  // Messages that went over the path outside of this network's time.
  void carry(std::uint32_t path, double bytes);

 private:
  struct Link {
    double capacity = 0, carried = 0;
    std::vector<std::uint32_t> flows{};
    std::uint32_t seen = 0;            // in which search
    // While rates are found: capacity left, weight and number of messages without a rate.
    double room = 0, users = 0, taken = 0;
    std::size_t open = 0;
  };
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  struct Flow {
    std::uint32_t message = 0, path = 0;
    double bytes = 0, left = 0, rate = 0;
    std::int64_t since = 0, end = kNever;
    std::uint64_t arrival = 0;
    std::size_t place = kNowhere;      // in ends_
    double next_rate = 0;              // while rates are found
    bool live = false, filled = false;
    std::uint32_t seen = 0;
  };
  std::uint32_t insert(std::uint32_t message, std::uint32_t path, double bytes, std::int64_t now);
  void remove(std::uint32_t flow);
  bool earlier(std::uint32_t a, std::uint32_t b) const;
  void place_end(std::size_t at, std::uint32_t flow);
  void sift_up(std::size_t at);
  void sift_down(std::size_t at);
  void move_end(std::uint32_t flow, std::int64_t time);
  void drop_end(std::uint32_t flow);
  void collect_ended(std::int64_t now, std::vector<std::uint32_t>& ended);
  void share(std::int64_t now);
  void find_part(std::uint32_t link);
  void fill_part();
  void fill_tight(double rate);
  void take_turns(std::int64_t now);
  void set_rate(std::uint32_t flow, std::int64_t now);

  Sharing sharing_;
  std::vector<Link> links_;
  std::vector<Hop> hops_;              // of all paths
  std::vector<std::uint32_t> first_hop_{0};
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> ends_;    // heap of flows that have an end, the first in front
  std::vector<std::uint32_t> order_;   // exclusive: flows in the order of arrival
  std::vector<std::uint32_t> changed_;  // links where messages began or ended since settle()
  std::vector<std::uint32_t> part_links_, part_flows_, touched_, ended_;
  std::uint64_t arrivals_ = 0;
  std::size_t in_flight_ = 0;
  std::uint32_t search_ = 0;
};

}  // namespace engine
