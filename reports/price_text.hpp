#pragma once
// Money in words: an amount, a GPU's price with where it comes from, what a token costs. Pure;
// thread-safe.

#include <optional>
#include <string>
#include <string_view>

#include "planner/plan/plan.hpp"
#include "sim/cost/energy.hpp"

namespace reports {

// "6,348 USD", "0.01235 USD".
std::string usd_text(cost::Dollars amount);

// "2.69 USD a GPU hour (lowest tier of RunPod as of March 2026)"; "" without a price.
std::string price_text(const hw_profiles::Profile& profile);
std::string price_text(hw_profiles::DollarsPerHour price, std::string_view source);

// The rent of all `gpus` for one token; empty without a price. REQUIRES: tokens_per_second > 0, by
// all of them.
std::optional<cost::Dollars> token_price(const hw_profiles::Gpu& gpu, std::int64_t gpus,
                                         double tokens_per_second);

// "0.09 USD per million tokens"; per billion where that would be less than a cent.
std::string token_price_text(cost::Dollars one, std::string_view counted = "tokens");

// "516 USD a day, 0.09 USD per million tokens, at 2.69 USD a GPU hour (...)": the rent of all GPUs
// by a candidate of the plan; "" without a price.
std::string rent_text(const planner::Plan& plan, const planner::Candidate& candidate);

}  // namespace reports
