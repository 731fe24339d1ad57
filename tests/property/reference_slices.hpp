#pragma once
// What the ranks that divide a sequence tell each other in the reference: keys and values, and
// their gradients. Each such rank trains on a thread of its own, here by plain copies between
// barriers: no communicator. A Slices is shared by the threads of one group.

#include <barrier>
#include <vector>

#include "planner/strategy/strategy.hpp"
#include "tests/property/reference_model.hpp"

namespace tests {

// The positions of a rank's rows: two runs, the i-th of those that ascend from the start and the
// i-th of those that descend from the end.
std::vector<std::int64_t> positions_of(std::int64_t seq_len, std::int64_t rank, std::int64_t ranks);

class Slices {
 public:
  Slices(std::int64_t seq_len, std::int64_t ranks,
         planner::ContextMethod method = planner::ContextMethod::gather);

  planner::ContextMethod method() const { return method_; }

  std::int64_t ranks() const { return static_cast<std::int64_t>(positions_.size()); }
  std::int64_t seq_len() const { return seq_len_; }
  const std::vector<std::int64_t>& positions(std::int64_t rank) const {
    return positions_[static_cast<std::size_t>(rank)];
  }
  // Leaves the rank its tokens of each sample.
  void take(MicroBatch& batch, std::int64_t rank);
  // own: [samples, rows, columns] of this rank; all rows by position. All ranks call it at once.
  Typed gather(std::int64_t rank, const Typed& own, std::int64_t columns);
  // addends: of all rows by position; the sum of this rank's rows, in the order of a ring.
  Typed scatter(std::int64_t rank, const Typed& addends, std::int64_t columns);
  // do_it of each rank alone, ranks ascending. All ranks call it at once.
  template <class Do>
  void in_turn(std::int64_t rank, Do&& do_it) {
    for (std::int64_t r = 0; r < ranks(); ++r) {
      if (r == rank) do_it();
      all_.arrive_and_wait();
    }
  }
  // What each rank has, by rank.
  std::vector<Typed> share(std::int64_t rank, const Typed& own);
  // parts: for each rank, rank by rank; the sum of those for this one, in the order of a ring.
  Typed sum_of_parts(std::int64_t rank, const Typed& parts);

 private:
  // use(row among those of all ranks, rank by rank; row by position) of every row.
  template <class Use>
  void each_row(std::int64_t samples, Use&& use) const;

  const std::int64_t seq_len_;
  const planner::ContextMethod method_;
  std::vector<std::vector<std::int64_t>> positions_;
  std::vector<Typed> given_;
  std::barrier<> all_;
};

}  // namespace tests
