#pragma once
// Internal: times of collectives, remembered. A search asks for the same units over the same places
// again and again: each answer of cost::collective_time is kept in one of 1,024 places, until
// another question needs the place. Exact: a hit compares the whole question. Not thread-safe.

#include <array>
#include <cstdint>
#include <vector>

#include "sim/cost/link.hpp"

namespace planner::closed_form {

class TransferTimes {
 public:
  // Picoseconds. `machine` outlives this.
  std::int64_t operator()(program::Collective collective, program::Algorithm algorithm,
                          const cost::Place& place, std::int64_t elements, core::DType type,
                          const cost::Machine& machine);

 private:
  struct Question {
    const cost::Machine* machine = nullptr;
    std::int64_t elements = 0;
    int size = 0, nodes = 0, per_node = 0;
    bool paired = false;
    program::Collective collective{};
    program::Algorithm algorithm{};
    core::DType type{};
    friend bool operator==(const Question&, const Question&) = default;
  };
  struct Answer {
    Question question;
    std::int64_t time = 0;
  };
  static constexpr std::size_t kAnswers = 1024;

  std::vector<Answer> answers_ = std::vector<Answer>(kAnswers);
};

}  // namespace planner::closed_form
