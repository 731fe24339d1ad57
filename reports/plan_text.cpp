#include "reports/plan_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "reports/candidate_text.hpp"

namespace reports {
namespace {

using core::count_text;
using core::to_text;
using planner::Candidate;
using planner::Plan;

std::string heading(std::string_view text, TextStyle style) {
  return fmt::format("\n{}\n", painted(text, Ink::heading, style));
}

std::string plural(std::int64_t n, std::string_view word) {
  return fmt::format("{} {}{}", count_text(n), word, n == 1 ? "" : "s");
}

std::string model_shape(const models::ModelSpec& m) {
  if (!m.widths.empty()) return fmt::format("widths {}", fmt::join(m.widths, "-"));
  return fmt::format("{} layers, hidden {}, {} heads, vocabulary {}", m.layers, m.hidden, m.heads,
                     m.vocab);
}

std::string job_text(const planner::Job& job) {
  std::string text =
      fmt::format("{}, {} x {} tokens a step, recipe {} ({}), {}, attention {}, framework {}",
                  planner::name(job.mode), job.global_batch, job.seq_len, job.recipe,
                  planner::precision_name(job.precision), planner::optimizer(job.optimizer).name,
                  job.attention, job.framework);
  if (job.lora_rank > 0)
    text += fmt::format(", lora rank {} on {}", job.lora_rank, fmt::join(job.lora_targets, ","));
  if (job.quantization != "none") text += fmt::format(", weights in {}", job.quantization);
  return text;
}

std::string question_text(const Plan& plan, TextStyle style) {
  const std::string title =
      fmt::format("{} ({} parameters) on {} x {}, {}", plan.model.name,
                  count_text(plan.parameters), plan.gpus, plan.profile.gpu.id,
                  plural(plan.nodes, "node"));
  return painted(title, Ink::heading, style) + '\n' + wrapped(model_shape(plan.model), 2, 2) +
         wrapped(job_text(plan.job), 2, 2);
}

std::string assumptions_text(const Plan& plan, TextStyle style) {
  if (plan.assumptions.empty()) return "";
  std::string text = heading("Assumed", style);
  for (const std::string& line : plan.assumptions) text += wrapped("- " + line, 2, 4);
  return text;
}

std::string alternatives_text(const Plan& plan, const PlanTextOptions& options) {
  if (plan.alternatives.empty() || !plan.chosen) return "";
  Table table({{"#"}, {"step"}, {"against"}, {"memory"}, {"mfu"}, {"strategy", Align::left}});
  const double best = plan.chosen->time.step.value();
  for (std::size_t i = 0; i < std::min(plan.alternatives.size(), options.alternatives); ++i) {
    const Candidate& c = plan.alternatives[i];
    table.add({std::to_string(i + 1), to_text(c.time.step),
               best > 0 ? fmt::format("{:+.1f} %", (c.time.step.value() / best - 1) * 100) : "",
               to_text(c.memory.worst.device), percent_text(c.throughput.mfu),
               planner::to_text(c.strategy)});
  }
  return heading(fmt::format("Alternatives ({} kept)", plan.alternatives.size()), options.style) +
         table.text();
}

std::string amount(const planner::Rejection& r, std::int64_t value) {
  const bool bytes = r.limit == "memory" || r.limit == "host_memory";
  return bytes ? to_text(core::Bytes(value)) : count_text(value);
}

std::string rejection_text(const planner::Rejection& r) {
  std::string text = fmt::format("{}: {}", r.limit, planner::to_text(r.strategy));
  if (r.needed != r.available)  // equal where the limit is a rule and no amount
    text += fmt::format(" needs {}, there is {}", amount(r, r.needed), amount(r, r.available));
  if (!r.fix.empty()) text += "; fix: " + r.fix;
  return text;
}

std::string rejected_text(const Plan& plan, const PlanTextOptions& options) {
  if (plan.rejected.empty()) return "";
  std::string counts;
  for (const auto& [limit, count] : plan.rejected_per_limit)
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count_text(count), limit);
  std::string text = heading(
      counts.empty() ? std::string("Rejected") : fmt::format("Rejected ({})", counts),
      options.style);
  for (std::size_t i = 0; i < std::min(plan.rejected.size(), options.alternatives); ++i)
    text += wrapped("- " + rejection_text(plan.rejected[i]), 2, 4);
  return text;
}

// Time and strategy, then memory by term and what travels, machine by machine.
std::string machines_text(const Plan& plan, TextStyle style) {
  if (plan.other_machines.empty()) return "";
  Table times({{"gpu", Align::left}, {"step"}, {"mfu"}, {"exposed"}, {"sent"},
               {"strategy", Align::left}});
  Table memory({{"gpu", Align::left}, {"weights"}, {"gradients"}, {"optimizer"}, {"activations"},
                {"device"}, {"usable"}});
  for (const planner::OtherMachine& m : plan.other_machines) {
    if (!m.candidate) {
      times.add({m.gpu, "-", "-", "-", "-", "no feasible strategy"});
      continue;
    }
    const planner::Candidate& c = *m.candidate;
    core::Bytes sent{0};
    for (const planner::CommunicationEntry& e : c.communication) sent += e.wire_per_rank;
    times.add({m.gpu, to_text(c.time.step), fmt::format("{:.1f} %", 100 * c.throughput.mfu),
               to_text(c.time.exposed_communication), to_text(sent),
               planner::to_text(c.strategy)});
    const auto term = [&](program::Term t) {
      return to_text(c.memory.worst.terms[static_cast<std::size_t>(t)]);
    };
    memory.add({m.gpu, term(program::Term::weights), term(program::Term::gradients),
                term(program::Term::optimizer), term(program::Term::activations),
                to_text(c.memory.worst.device), to_text(c.memory.usable)});
  }
  return heading("The same job on other machines", style) + times.text() + '\n' + memory.text();
}

std::string rules_text(const Plan& plan, TextStyle style) {
  if (plan.rules_of_thumb.empty()) return "";
  std::string text = heading("Rules of thumb, for comparison only", style);
  for (const planner::RuleOfThumb& r : plan.rules_of_thumb) {
    const std::string value =
        r.unit == "B" ? to_text(core::Bytes(static_cast<std::int64_t>(r.value)))
                          : fmt::format("{:.4g} {}", r.value, r.unit);
    text += wrapped(fmt::format("- {}: {} = {} ({})", r.name, r.formula, value, r.source), 2, 4);
  }
  return text;
}

std::string search_text(const Plan& plan) {
  const planner::SearchCounts& s = plan.search;
  return '\n' + wrapped(fmt::format("{} strategies enumerated, {} infeasible, {} evaluated, {} "
                                    "replayed, in {}",
                                    count_text(s.enumerated), count_text(s.infeasible),
                                    count_text(s.evaluated), count_text(s.replayed),
                                    to_text(s.seconds)),
                        0, 2);
}

}  // namespace

std::string why_infeasible(const Plan& plan) {
  std::string text = fmt::format("no feasible strategy for {} on {} x {}", plan.model.name,
                                 plan.gpus, plan.profile.gpu.id);
  if (!plan.rejected.empty()) text += "; nearest: " + rejection_text(plan.rejected.front());
  return text;
}

std::string plan_text(const Plan& plan, const PlanTextOptions& options) {
  const TextStyle style = options.style;
  std::string text = question_text(plan, style) + assumptions_text(plan, style);
  if (plan.chosen) {
    const auto n = static_cast<std::size_t>(options.candidate);
    const Candidate& shown = n == 0 ? *plan.chosen : plan.alternatives.at(n - 1);
    text += heading(n == 0 ? std::string("Chosen") : fmt::format("Alternative {}", n), style);
    text += candidate_text(shown, style);
  } else {
    text += heading("Chosen", style) +
            painted(wrapped(why_infeasible(plan), 2, 4), Ink::bad, style);
  }
  text += alternatives_text(plan, options) + rejected_text(plan, options) +
          machines_text(plan, style) + rules_text(plan, style) + search_text(plan);
  return text;
}

}  // namespace reports
