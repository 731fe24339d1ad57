#include "reports/split_text.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "planner/strategy/problems.hpp"

namespace reports {

using models::ops::Factor;
using planner::DividedOperator;
using planner::SplitMove;
using planner::SplitReport;

std::string factor_text(Factor factor, const std::string& kind) {
  if (factor == Factor::kSample) return "samples";
  if (factor == Factor::kIn) return "inputs, whose sums are added";
  return kind == "linear" || kind == "convolution" ? "outputs" : "columns that it finds";
}

std::string otherwise_text(const DividedOperator& op) {
  if (!op.otherwise) return "-";
  const bool less = op.otherwise_costs.value() < 0;
  return fmt::format("{}: {} {}", factor_text(*op.otherwise, op.kind),
                     core::to_text(core::Seconds(std::abs(op.otherwise_costs.value()))),
                     less ? "less" : "more");
}

core::Result<SplitReport> split_report_of(const planner::Plan& plan, std::string_view priced) {
  const auto question = planner::make_question(plan.model, plan.job, plan.profile, plan.gpus);
  if (!question.ok()) return question.problems();
  const planner::Strategy& strategy = plan.chosen->strategy;
  if (core::Problems problems =
          planner::strategy_problems(plan.model, plan.job, strategy, plan.gpus);
      !problems.empty())
    return problems;                   // a plan from elsewhere
  return planner::split_report(*question, strategy, priced);
}

// Whether annotations were asked for that leave nothing to the search.
static bool are_annotated(const planner::Plan& plan) {
  const std::string asked = fmt::format("{}pin splits=", planner::kAskedFor);
  return std::ranges::any_of(plan.assumptions, [&](const std::string& text) {
    return text.starts_with(asked) && text != asked + "auto" &&
           text.find(models::kSearchedSplits) == std::string::npos;
  });
}

core::Result<Explanation> explain_split(const planner::Plan& plan, std::string_view name) {
  const std::string asked = fmt::format("splits.{}", name);
  if (!plan.chosen || plan.chosen->strategy.split == 1)
    return core::Problem{"explain", "a plan that divides operators over ranks (split above 1)",
                         asked, "see planner explain split"};
  const core::Result<SplitReport> report = split_report_of(plan, name);
  if (!report.ok()) return report.problems();
  const auto found = std::ranges::find(report->operators, name, &DividedOperator::name);
  if (found == report->operators.end()) {
    std::string all;
    for (const DividedOperator& op : report->operators)
      all += (all.empty() ? "" : ", ") + op.name;
    return core::Problem{"explain", "an operator of the model: " + all, std::string(name), ""};
  }
  core::Bytes sent{};
  for (const SplitMove& m : report->moves)
    if (m.to == found->index) sent += m.bytes;
  Explanation e{asked,
                fmt::format("divided by {}, over {} ranks",
                            factor_text(found->factor, found->kind), report->ranks),
                are_annotated(plan)
                    ? "what the annotations that were asked for say of it, or what follows from "
                      "them (docs/model_files.md)"
                    : "the least sum of kernels, of moves between operators and of gradients that "
                      "are added up, over all divisions of the graph; where memory decides, of "
                      "what fits",
                "planner/search/split_search.hpp, docs/decisions/0020-splits.md",
                {{"parameters of a rank", core::count_text(found->parameters)},
                 {"sent by a rank in a step for what it reads", core::to_text(sent)}},
                std::string(models::name(found->factor))};
  if (found->otherwise)
    e.inputs.emplace_back("the next best, a step with all else divided as is best then",
                          otherwise_text(*found));
  return e;
}

}  // namespace reports
