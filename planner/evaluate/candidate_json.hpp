#pragma once
// The parts of a candidate as JSON objects of the plan file: the files of simulate, exec and
// compare hold the same objects under the same names (design, section 10). Bytes and counts are
// integers, times seconds. Readers report every problem with its place and check ranges, so that a
// damaged file cannot make a later computation overflow. Thread-safe.

#include <vector>

#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "planner/evaluate/candidate.hpp"
#include "planner/question/job.hpp"

namespace planner {

core::Json to_json(const Strategy& strategy);
core::Json to_json(const Memory& memory);
core::Json to_json(const Time& time);
core::Json to_json(const std::vector<CommunicationEntry>& entries);
core::Json to_json(const std::vector<program::LibraryCalls>& calls);
core::Json to_json(const Throughput& throughput);
core::Json to_json(const Uncertainty& uncertainty);
core::Json to_json(const Candidate& candidate);
core::Json to_json(const Job& job);

Strategy read_strategy(core::JsonReader reader);
Memory read_memory(core::JsonReader reader);
Time read_time(core::JsonReader reader);
CommunicationEntry read_communication(core::JsonReader reader);
// Of the key `library` of an entry; files from before it have none.
std::vector<program::LibraryCalls> read_library_calls(core::JsonReader& entry);
Candidate read_candidate(core::JsonReader reader);
Job read_job(core::JsonReader reader);

// Ranges of a file's numbers: far beyond any plan, and sums of a few stay below 2^63.
inline constexpr core::IntRange kFileBytes{0, std::int64_t{1} << 60};
inline constexpr core::IntRange kFileCount{0, std::int64_t{1} << 60};
inline constexpr core::NumberRange kFileNumber{0, 1e30, false};
inline constexpr core::NumberRange kFileSeconds{0, 1e9, false};

}  // namespace planner
