#pragma once
// A job with failures as text: goodput, what the rest of the time went into, and each rule for the
// interval between checkpoints by formula and by simulation. Pure; thread-safe.

#include <cstdint>
#include <string>

#include "planner/plan/goodput.hpp"
#include "reports/text.hpp"

namespace reports {

std::string goodput_text(const planner::Goodput& goodput, const planner::FailureOptions& options,
                         std::uint64_t seed, TextStyle style);

// What a checkpoint takes and costs where it shares the links of the steps.
std::string checkpoint_text(const planner::CheckpointTraffic& traffic, core::Seconds step,
                            TextStyle style);

// What a rule of planner::GoodputRule is in words: "Young's".
std::string_view rule_words(std::string_view rule);

}  // namespace reports
