#include "reports/plan_headline.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "planner/evaluate/accuracy.hpp"
#include "planner/search/assumptions.hpp"
#include "planner/search/fewer.hpp"
#include "planner/search/preference.hpp"
#include "reports/price_text.hpp"
#include "reports/released_text.hpp"
#include "reports/robust_text.hpp"
#include "reports/sensitivity.hpp"
#include "reports/text.hpp"

namespace reports {
namespace {

using core::count_text;
using core::to_text;
using planner::Because;
using planner::Candidate;
using planner::Plan;

HeadlineFigure training_cost(const Plan& plan, const cost::Training& t) {
  constexpr double kDay = 86400;
  std::string text = fmt::format("{} days and {} GPU hours for {} {}",
                                 number_text(t.seconds.value() / kDay),
                                 number_text(t.gpu_hours), count_text(t.tokens), counted_in(plan));
  if (!t.cost) return {"cost", text, "rent not known: --price"};
  const cost::Dollars one_token = *t.cost / static_cast<double>(t.tokens);
  return {"cost", fmt::format("{}, {}", usd_text(*t.cost), text),
          fmt::format("{}, at {}", token_price_text(one_token, counted_in(plan)),
                      price_text(plan.profile))};
}

HeadlineFigure cost_of(const Plan& plan, const Candidate& c) {
  if (plan.training) return training_cost(plan, *plan.training);
  const std::string rent = rent_text(plan, c);
  return rent.empty() ? HeadlineFigure{"cost", "not known",
                                       fmt::format("--price {}=USD states it", plan.profile.gpu.id)}
                      : HeadlineFigure{"cost", rent, ""};
}

// How much of a step the GPUs compute, and the largest other part of it, from one percent up.
std::string limit_text(const planner::Time& t) {
  struct Part {
    std::string_view what;
    core::Seconds time;
  };
  const std::array parts{Part{"wait for communication for", t.exposed_communication},
                         Part{"idle in the pipeline for", t.bubble},
                         Part{"the optimizer takes", t.optimizer}};
  const Part& most = *std::ranges::max_element(parts, {}, &Part::time);
  std::string text =
      fmt::format("The GPUs compute for {} of the step", percent_text(t.compute / t.step));
  if (most.time / t.step >= 0.01)
    text += fmt::format(" and {} {}", most.what, percent_text(most.time / t.step));
  return text + ".";
}

const Candidate* fastest_safe(const Plan& plan) {
  const Candidate* best = nullptr;
  for (const auto* list : {&plan.alternatives, &plan.pareto})
    for (const Candidate& c : *list)
      if (within_risk(c, plan.max_risk) && (best == nullptr || c.time.step < best->time.step))
        best = &c;
  return best;
}

// What a faster plan would have to gain to be recommended, and why (docs/decisions/0011); empty: no
// more than this one.
std::string must_gain_text(const Plan& plan, const Candidate& faster) {
  const auto margin = planner::margin_over(plan.job, faster.strategy, plan.chosen->strategy);
  if (!margin) return "";
  return fmt::format("it would have to gain {}, because {}", percent_text(margin->factor - 1),
                     margin->why);
}

// The same of the fastest plan that is as safe, or else how risky it is.
std::string against(const Plan& plan, const Candidate& faster) {
  const double risk = faster.uncertainty.out_of_memory;
  std::string text = must_gain_text(plan, faster);
  if (text.empty() && risk > plan.chosen->uncertainty.out_of_memory &&
      risk >= planner::kHardlyRisky)
    text = fmt::format("its risk of running out of memory is {}", percent_text(risk));
  return text;
}

std::string because_text(const Plan& plan) {
  if (plan.search.evaluated == 1 && plan.because == Because::fastest)
    return "It is the only strategy that was evaluated.";
  const std::string searched = count_text(plan.search.evaluated) + " strategies";
  if (plan.robust && plan.because == Because::fastest)
    return fmt::format("Of the best of {}, its step is the shortest with slow ranks and links.",
                       searched);
  const std::string cap = percent_text(plan.max_risk);
  switch (plan.because) {
    case Because::asked: return "It is the candidate that --candidate names.";
    case Because::least_memory:
      return fmt::format("It needs the least memory of {}{}.", searched,
                         plan.chosen->strategy.offload.empty()
                             ? " that keep everything on the GPUs (--pin offload=optimizer asks "
                               "for the memory of hosts)"
                             : "");
    case Because::least_risky:
      return fmt::format("No strategy that fits is within the {} cap on the risk. This one is the "
                         "fastest of the least risky.", cap);
    case Because::simplest:
    case Because::best_known: {
      const Candidate* faster = fastest_safe(plan);
      std::string text =
          plan.because == Because::simplest
              ? "It is the simplest of the plans that are about as fast as the fastest"
              : "Of the plans that are about as fast as the fastest, published runs tell most of "
                "its kind";
      if (faster == nullptr || faster->time.step >= plan.chosen->time.step) return text + ".";
      text += fmt::format(" ({}: {} faster)",
                          changed_keys(plan.chosen->strategy, faster->strategy),
                          percent_text(1 - faster->time.step / plan.chosen->time.step));
      const std::string why = must_gain_text(plan, *faster);
      return why.empty() ? text + "." : text + "; " + why + ".";
    }
    case Because::fastest: break;
  }
  const Candidate* faster = fastest_safe(plan);
  if (faster != nullptr && faster->time.step < plan.chosen->time.step) {
    const std::string why = against(plan, *faster);
    return fmt::format("It is the fastest of {} within the {} cap on the risk but for one, which "
                       "takes {} less ({}){}.", searched, cap,
                       percent_text(1 - faster->time.step / plan.chosen->time.step),
                       changed_keys(plan.chosen->strategy, faster->strategy, 3),
                       why.empty() ? "" : ": " + why);
  }
  return fmt::format("It is the fastest of {} within the {} cap on the risk.", searched, cap);
}

// Whether who reads the answer alone should read this assumption, too.
bool changes_the_answer(std::string_view assumption) {
  return assumption.starts_with(planner::kMaskedShare) ||
         assumption.starts_with(planner::kFewerFaster) ||
         assumption.find(planner::kFasterAlone) != std::string_view::npos;
}

std::string as_sentence(std::string text) {
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text + '.';
}

std::string chain_line(const Plan& plan) {
  const planner::Chain& c = *plan.search.chain;
  const std::string walked = fmt::format(
      "A Markov chain of {} simulated divisions went from data parallelism ({}) to {}; the exact "
      "search found {}.",
      count_text(c.proposals), c.start.value() > 0 ? to_text(c.start) : "does not fit",
      c.found.value() > 0 ? to_text(c.found) : "none that fits", to_text(c.exact));
  return c.found.value() > 0 && c.found < c.exact ? walked + " Its division is chosen." : walked;
}

}  // namespace

std::string_view counted_in(const Plan& plan) {
  return models::is_transformer(plan.model.family) ? "tokens" : "samples";
}

std::vector<HeadlineFigure> headline_figures(const Plan& plan, const Candidate& c) {
  const planner::Uncertainty& u = c.uncertainty;
  const double coverage = planner::accuracy().coverage;
  const auto rate = static_cast<std::int64_t>(c.throughput.tokens_per_second);
  const core::Bytes device = c.memory.worst.device, usable = c.memory.usable;
  return {{"step", to_text(c.time.step),
           fmt::format("{:.0f} % of runs take {} to {}", 100 * coverage, to_text(u.step_low),
                       to_text(u.step_high))},
          {"speed", fmt::format("{} {}/s", count_text(rate), counted_in(plan)),
           fmt::format("mfu {}", percent_text(c.throughput.mfu))},
          {"memory", fmt::format("{} of {} usable per GPU", to_text(device), to_text(usable)),
           percent_text(usable.value() > 0 ? device / usable : 0)},
          {"risk", fmt::format("{} of running out of memory", percent_text(u.out_of_memory)),
           fmt::format("{} the {} cap",
                       within_risk(c, plan.max_risk) ? "within" : "ABOVE",
                       percent_text(plan.max_risk))},
          cost_of(plan, c)};
}

std::vector<std::string> reasons_of(const Plan& plan) {
  const std::string limit = limit_text(plan.chosen->time);
  if (is_own_configuration(plan)) {
    std::vector<std::string> all = released_lines(plan);
    all.push_back(limit);
    return all;
  }
  std::vector<std::string> all{because_text(plan) + ' ' + limit};
  for (const std::string& text : plan.assumptions)
    if (changes_the_answer(text)) all.push_back(as_sentence(text));
  if (plan.search.chain) all.push_back(chain_line(plan));
  for (std::string& line : robust_lines(plan)) all.push_back(std::move(line));
  for (std::string& line : what_parts_earn(plan)) all.push_back(std::move(line));
  return all;
}

}  // namespace reports
