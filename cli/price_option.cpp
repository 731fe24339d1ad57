#include "cli/price_option.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "hw_profiles/load.hpp"
#include "hw_profiles/mixed.hpp"
#include "hw_profiles/names.hpp"
#include "reports/price_text.hpp"
#include "reports/subjects_comparison.hpp"

namespace cli {
namespace {

constexpr std::string_view kOption = "--price";

std::vector<std::string> items_of(const std::vector<std::string>& prices) {
  std::vector<std::string> items;
  for (std::string_view text : prices)
    while (true) {
      const std::size_t comma = text.find(',');
      items.emplace_back(text.substr(0, comma));
      if (comma == std::string_view::npos) break;
      text.remove_prefix(comma + 1);
    }
  return items;
}

core::Problems missing_prices(const std::vector<planner::Request>& requests) {
  core::Problems problems;
  for (const planner::Request& r : requests)
    if (!r.profile.gpu.price)
      problems.push_back({"--objective cost",
                          fmt::format("a price of {}", r.profile.gpu.id), "none",
                          fmt::format("write --price {}=USD, of one GPU for an hour",
                                      r.profile.gpu.id)});
  return problems;
}

// What one token costs by the plan's choice; empty: nothing fits.
std::optional<cost::Dollars> token_price_of(const planner::Plan& plan) {
  if (!plan.chosen) return std::nullopt;
  return reports::token_price(hw_profiles::mean_gpu(plan.profile, plan.gpus), plan.gpus,
                              plan.chosen->throughput.tokens_per_second);
}

std::string comparison_text(const std::vector<planner::Plan>& plans) {
  std::string text;
  for (const planner::Plan& plan : plans)
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ",
                        reports::gpu_label(plan.profile, plan.gpus),
                        plan.chosen ? reports::rent_text(plan, *plan.chosen)
                                    : std::string("does not fit"));
  return text;
}

}  // namespace

core::Status set_price(const std::vector<std::string>& prices, hw_profiles::Profile& profile) {
  for (const std::string& item : items_of(prices)) {
    const std::size_t equals = item.find('=');
    const bool named = equals != std::string::npos;
    if (named && item.substr(0, equals) != profile.gpu.id) {  // a file's GPU has its own id
      const auto meant = hw_profiles::gpu_meant(item.substr(0, equals), kOption);
      if (!meant.ok()) return meant.problems();
      if (meant->id != profile.gpu.id) continue;
    }
    const std::string amount = named ? item.substr(equals + 1) : item;
    const core::Status done =
        hw_profiles::set(profile, "gpu.price", amount + " USD/h", "as given with --price");
    if (!done.ok())
      return core::Problem{std::string(kOption), "GPU=USD, of one GPU for an hour",
                           fmt::format("\"{}\"", item), "write --price H100=2.50"};
  }
  return core::Done{};
}

core::Result<planner::Plan> cheapest_plan(const std::vector<planner::Request>& requests) {
  if (core::Problems missing = missing_prices(requests); !missing.empty()) return missing;
  std::vector<planner::Plan> plans;
  for (const planner::Request& request : requests) {
    core::Result<planner::Plan> plan = planner::make_plan(request);
    if (!plan.ok()) return plan;
    plans.push_back(std::move(plan).value());
  }
  std::size_t best = 0;
  for (std::size_t i = 1; i < plans.size(); ++i) {
    const auto price = token_price_of(plans[i]), least = token_price_of(plans[best]);
    if (price && (!least || *price < *least)) best = i;
  }
  planner::Plan chosen = plans[best];
  chosen.assumptions.push_back(
      fmt::format("objective cost: {} is the cheapest of {} for a token: {}",
                  chosen.profile.gpu.id, plans.size(), comparison_text(plans)));
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (i != best)
      chosen.other_machines.push_back(planner::other_machine(plans[i].profile, plans[i].chosen));
  return chosen;
}

}  // namespace cli
