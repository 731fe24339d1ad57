#pragma once
// Time of a step by the event engine, links shared message by message, where contention decides
// it: parameter servers, to which all workers send at once, and ranks whose streams have transfers
// that may meet on a link. Elsewhere the sweep says the same for less. Pure; thread-safe.

#include <optional>

#include "planner/evaluate/swept_time.hpp"

namespace planner {

// swept: what the sweep says of the same step. Empty where nothing contends, and where a step has
// more messages than an answer may wait for (some milliseconds).
std::optional<Time> played_time(const program::Program& program, const cost::Machine& machine,
                                const SweptTime& swept);

}  // namespace planner
