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
// tells what has ended. Deterministic. Thread-compatible.
//
// settle finds new rates only where they can have changed (network_share.cpp). Each message
// remembers the full link that held its rate back when the rate was found. After a change, the
// part to fill anew is: messages that begin, those held back by a link where a message began or
// ended, and those held back by any link that a message of the part crosses. All other messages on
// the part's links keep their rates. Rates are max-min fair if every message is held back by a full
// link on which nobody is faster [bertsekas, bottleneck links]; messages for which the kept rate
// would break this join the part, and it is filled again. Links that could carry all of their
// messages at the rates that these have alone hold nobody back, and are left out.
//
// Filling goes by ascending rates, in which kept rates have their turn, and all links that fill up
// at one rate are filled in one round. So the rates are the same bits whatever the part is, and
// whether alike messages are apart or stand for one another. Cost of settle: the rounds of filling
// times the size of the part, and log(messages) for each rate that changes.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
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
  // visit(message, bytes that it still has to move), of every message in flight. REQUIRES: now not
  // before the last settle(), nor after next_end().
  template <class Visit>
  void each_in_flight(std::int64_t now, const Visit& visit) const {
    for (const Flow& f : flows_)
      if (f.live) visit(f.message, left(f, now));
  }
  // How often a part has been filled to find rates: what settle() spends its time on.
  std::uint64_t fillings() const { return fillings_; }
  std::size_t links() const { return links_.size(); }
  double capacity(std::uint32_t link) const { return links_[link].capacity; }
  // Bytes that a link has carried so far, of ended messages.
  double carried(std::uint32_t link) const { return links_[link].carried; }
  // What the messages in flight take of a link at this moment, bytes per picosecond.
  double load(std::uint32_t link) const;
  std::span<const Hop> hops(std::uint32_t path) const;
  // Rate of a message that has a path to itself.
  double rate_alone(std::uint32_t path) const { return own_rates_[path]; }
  // Messages that went over the path outside of this network's time.
  void carry(std::uint32_t path, double bytes);

 private:
  // What messages would take of a link at the rates that they have alone, in parts of its capacity;
  // whole numbers, so that sums do not depend on the order in which messages come and go.
  static constexpr std::uint64_t kFull = std::uint64_t{1} << 40;
  // A millionth above it is what the binary digits of weights and rounding add to an exact fit.
  static constexpr std::uint64_t kMostWanted = kFull + (kFull >> 20);
  struct Link {
    double capacity = 0, carried = 0;
    std::vector<std::uint32_t> flows{};
    std::uint64_t wanted = 0;
    std::uint32_t seen = 0, changed = 0;  // in which search, settle()
    // While rates are found: capacity left, weight and number of messages without a rate, and what
    // is left for each of them.
    double room = 0, users = 0, taken = 0, each = 0;
    std::size_t open = 0;
    double weight_inside = 0;          // of the messages inside the part, and their number
    std::size_t inside = 0;
    bool can_fill() const { return wanted > kMostWanted; }
  };
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  static constexpr std::uint32_t kOwn = 0xffffffff;  // no shared link, but the path's own rate
  struct Flow {
    std::uint32_t message = 0, path = 0;
    double bytes = 0, left = 0, rate = 0;
    std::int64_t since = 0, end = kNever;
    std::uint64_t arrival = 0;
    std::size_t place = kNowhere;      // in ends_
    std::uint32_t held_by = kOwn;      // the full link that holds its rate back
    bool live = false, fresh = false;  // it has no rate yet
    // While rates are found.
    double next_rate = 0;
    std::uint32_t next_held_by = kOwn;
    std::uint32_t inside = 0, beside = 0, found = 0;  // of which search, and in which settle()
    bool filled = false;
  };
  static double left(const Flow& f, std::int64_t now) {
    return std::max(0.0, f.left - f.rate * static_cast<double>(now - f.since));
  }
  std::uint32_t insert(std::uint32_t message, std::uint32_t path, double bytes, std::int64_t now);
  void remove(std::uint32_t flow);
  bool earlier(std::uint32_t a, std::uint32_t b) const;
  void place_end(std::size_t at, std::uint32_t flow);
  void sift_up(std::size_t at);
  void sift_down(std::size_t at);
  void move_end(std::uint32_t flow, std::int64_t time);
  void drop_end(std::uint32_t flow);
  void collect_ended(std::int64_t now, std::vector<std::uint32_t>& ended);
  // network_share.cpp
  void share(std::int64_t now);
  void find_anew(std::uint32_t flow);
  bool is_to_find(const Flow& flow) const;
  void take_inside(std::uint32_t flow);
  void take_link(std::uint32_t link);
  void find_beside();
  bool fill_alike();
  bool fill_part();
  double next_in_order();
  double next_of_few() const;
  bool fill_round(double rate, double link_rate);
  void fill(std::uint32_t flow, double rate, std::uint32_t held_by);
  void close_round(double rate);
  void take_turns(std::int64_t now);
  void set_rate(std::uint32_t flow, std::int64_t now);

  Sharing sharing_;
  std::vector<Link> links_;
  std::vector<Hop> hops_;              // of all paths
  std::vector<std::uint64_t> wanted_;  // likewise: of the link's kFull, at the path's own rate
  std::vector<std::uint32_t> first_hop_{0};
  std::vector<double> own_rates_;      // by path
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> ends_;    // heap of flows that have an end, the first in front
  std::vector<std::uint32_t> order_;   // exclusive: flows in the order of arrival
  std::vector<std::uint32_t> changed_;  // since settle(): links that could fill, where flows ended
  std::vector<std::uint32_t> begun_;    // since settle(): flows
  // The part that is filled anew: its links that can fill; flows inside it; flows beside it, which
  // share these links and keep their rates; those inside and beside by ascending rate.
  std::vector<std::uint32_t> part_links_, part_flows_, beside_, open_links_, filled_, misfits_;
  std::vector<std::uint32_t> touched_, ended_;
  std::vector<std::pair<double, std::uint32_t>> by_rate_;
  std::size_t by_rate_begin_ = 0, by_rate_end_ = 0;  // where flows of the next rate are
  std::size_t crossings_ = 0;          // of links of the part by flows inside
  bool takes_all_ = false;             // all flows of links that the part takes
  std::uint64_t arrivals_ = 0, fillings_ = 0;
  std::size_t in_flight_ = 0;
  std::uint32_t search_ = 0, settles_ = 0;
};

}  // namespace engine
