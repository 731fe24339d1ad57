#include "exec/run/needs.hpp"

#include <fmt/format.h>

#include "exec/interpret/streams.hpp"
#include "sim/program/turns.hpp"

namespace exec {

std::string threads_needed(const program::Program& program, const Processes* processes) {
  std::size_t ranks = 0, beside = 0;
  for (int rank = 0; rank < program.mesh.ranks(); ++rank) {
    if (processes != nullptr && rank != processes->rank()) continue;
    const auto& rank_class = program.classes[static_cast<std::size_t>(program.class_of(rank))];
    ++ranks;
    beside += Streams::threads_of(rank_class) + (program::serves_beside(rank_class) ? 1 : 0);
  }
  return fmt::format("{} threads: {} for ranks, {} for their streams", ranks + beside, ranks,
                     beside);
}

}  // namespace exec
