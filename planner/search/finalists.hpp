#pragma once
// Internal: the candidates that the ranking of the closed form ends in: replayed, timed by their
// own figures, each improved by what the space of the search leaves out (variants.hpp). Not
// thread-safe (Explorer).

#include <utility>
#include <vector>

#include "planner/search/explorer.hpp"
#include "planner/search/search.hpp"

namespace planner {

inline bool fits(const Candidate& c) { return c.memory.worst.device <= c.memory.usable; }

// The best of up to `wanted` families (degrees, sharding, checkpoint) that fit, in the order of the
// closed form's ranking, then the simplest of those that are nearly as fast. A plan does not depend
// on request.threads. estimates: their memory may be one (Explorer::settled).
std::vector<Candidate> finalists(Explorer& explorer, const Request& request, std::size_t wanted,
                                 bool estimates);

}  // namespace planner
