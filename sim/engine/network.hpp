#pragma once
// Network: messages in flight over links that they share. Capacities are bytes per picosecond.
//
//   shared     max-min fair [bertsekas]: rates are filled up together, and whoever crosses a full
//              link keeps what it has; the only allocation in which nobody can be given more
//              without taking from someone who has no more. Solved by progressive filling.
//   exclusive  a link carries one message at a time; a message starts when all of its links are
//              free, in the order of arrival.
//
// Event-driven from outside: after add() or at next_end(), call settle(now) once per instant; it
// tells what has ended. Deterministic: flows are kept in the order of arrival, arithmetic is plain
// double. settle is O(links x flows) where something changed. Thread-compatible.

#include <cstdint>
#include <limits>
#include <vector>

namespace engine {

enum class Sharing : std::uint8_t { shared, exclusive };

class Network {
 public:
  using Path = std::vector<std::uint32_t>;  // links; no link twice

  explicit Network(Sharing sharing) : sharing_(sharing) {}

  // REQUIRES: capacity > 0.
  std::uint32_t add_link(double bytes_per_picosecond);
  // A message of the owner's. REQUIRES: path not empty; now not before the last settle().
  void add(std::uint32_t message, Path path, double bytes, std::int64_t now);

  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  // When the next message ends if nothing else happens.
  std::int64_t next_end() const;
  // Messages that have ended by `now`, in the order of their arrival; the others share anew.
  void settle(std::int64_t now, std::vector<std::uint32_t>& ended);

  std::size_t in_flight() const { return flows_.size(); }
  // Bytes that a link has carried so far, of ended messages.
  double carried(std::uint32_t link) const { return carried_[link]; }

 private:
  struct Flow {
    std::uint32_t message = 0;
    Path path;
    double bytes = 0, left = 0, rate = 0;
    std::int64_t since = 0, end = kNever;
    double next_rate = 0;              // while rates are found
    bool filled = false;
  };
  void share();
  void take_turns();
  void set_rates(std::int64_t now);

  Sharing sharing_;
  std::vector<double> capacity_, carried_;
  std::vector<Flow> flows_;            // in the order of arrival
};

}  // namespace engine
