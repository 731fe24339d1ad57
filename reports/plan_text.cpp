#include "reports/plan_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "hw_profiles/mixed.hpp"
#include "models/layer_kinds.hpp"
#include "reports/candidate_text.hpp"
#include "reports/plan_headline.hpp"
#include "reports/plan_next.hpp"
#include "reports/released_text.hpp"
#include "reports/sensitivity.hpp"

namespace reports {
namespace {

using core::count_text;
using core::to_text;
using planner::Candidate;
using planner::Plan;

constexpr int kMemoryColumns = 84;  // of the table of other machines' memory, and a gap

std::string heading(std::string_view text, TextStyle style) {
  return fmt::format("\n{}\n", painted(text, Ink::heading, style));
}

std::string plural(std::int64_t n, std::string_view word) {
  return fmt::format("{} {}{}", count_text(n), word, n == 1 ? "" : "s");
}

std::string model_shape(const models::ModelSpec& m) {
  if (!m.widths.empty()) return fmt::format("widths {}", fmt::join(m.widths, "-"));
  if (m.family == models::Family::graph && m.vocab > 0)
    return fmt::format("{} operators in {} layers on {} tokens, vocabulary {}",
                       m.graph.operators.size(), m.layers, models::tokens_of(m.graph), m.vocab);
  if (m.family == models::Family::graph)
    return fmt::format("{} operators in {} layers on inputs of {}", m.graph.operators.size(),
                       m.layers, models::to_text(m.graph.input_shape));
  if (m.variants.token_features > 0)
    return fmt::format("{} layers, hidden {}, {} heads, tokens of {} features", m.layers, m.hidden,
                       m.heads, m.variants.token_features);
  const std::string kinds = models::kinds_text(m);
  return fmt::format("{} layers{}, hidden {}, {} heads, vocabulary {}", m.layers,
                     kinds.empty() ? "" : " (" + kinds + ")", m.hidden, m.heads, m.vocab);
}

std::string job_text(const models::ModelSpec& model, const planner::Job& job) {
  const bool sequences = models::is_transformer(model.family);
  const std::string step = sequences
                               ? fmt::format("{} x {} tokens", job.global_batch, job.seq_len)
                               : fmt::format("{} samples", job.global_batch);
  std::string text =
      fmt::format("{}, {} a step, recipe {} ({}), {}{}, framework {}", planner::name(job.mode),
                  step, job.recipe, planner::precision_name(job.precision),
                  planner::optimizer(job.optimizer).name,
                  sequences ? ", attention " + job.attention : "", job.framework);
  if (job.lora_rank > 0)
    text += fmt::format(", lora rank {} on {}", job.lora_rank, fmt::join(job.lora_targets, ","));
  if (job.quantization != "none") text += fmt::format(", weights in {}", job.quantization);
  return text;
}

std::string title_text(const Plan& plan) {
  return fmt::format("{} ({} parameters) on {}, {}", plan.model.name, count_text(plan.parameters),
                     hw_profiles::gpus_text(plan.profile, plan.gpus), plural(plan.nodes, "node"));
}

std::string figures_text(const Plan& plan, const Candidate& shown, TextStyle style) {
  Table table({{"", Align::left}, {"", Align::left}});
  for (const HeadlineFigure& f : headline_figures(plan, shown))
    table.add({f.name, f.value + (f.note.empty() ? "" : " (" + f.note + ')')});
  return table.text(style);
}

// The figures of a framework that nobody chose say whose they are, and how true they were.
std::string whose_text(const Plan& plan, TextStyle style) {
  if (plan.job.framework != "native") return "";
  // The operators that an assumption names between these two texts; empty where there is none.
  const auto named = [&](std::string_view begins, std::string_view goes_on) -> std::string {
    for (const std::string& text : plan.assumptions)
      if (text.starts_with(begins))
        return text.substr(begins.size(), text.find(goes_on) - begins.size());
    return "";
  };
  const auto says = [&](const std::string& of_its_figures) {
    return wrapped("The figures are for `native`, this tool's own executor" + of_its_figures +
                       " --framework plans for another.",
                   2, 2, style);
  };
  const std::string missing = named(planner::kNoKernels, planner::kNoKernelsWhere);
  if (!missing.empty()) return says(", as if it had kernels on GPUs for " + missing + ".");
  if (plan.job.precision == core::DType::f8)
    return says(". No GPU has run its products in 8 bits yet.");
  // reports/measured/README.md
  return says(". On an H200 steps of twelve models took 3 % less to 10 % more than predicted; of "
              "other GPUs it has run on an H100 alone.");
}

// The answer first: what to do and what it gives, then why; then what was asked.
std::string answer_text(const Plan& plan, const PlanTextOptions& options, TextStyle style) {
  std::string text;
  if (plan.chosen) {
    const auto n = static_cast<std::size_t>(options.candidate);
    const Candidate& shown = n == 0 ? *plan.chosen : plan.alternatives.at(n - 1);
    const std::string first = n > 0                        ? fmt::format("Alternative {}", n)
                              : is_own_configuration(plan) ? "Your configuration"
                                                           : "Recommended";
    const bool safe = within_risk(shown, plan.max_risk);
    text = painted_lines(
        wrapped(first + ": " + planner::to_text(shown.strategy), 0, 4, style),
        safe ? Ink::good : Ink::bad, style);
    text += figures_text(plan, shown, style);
    if (n == 0)
      for (const std::string& line : reasons_of(plan)) text += wrapped(line, 2, 4, style);
    text += whose_text(plan, style);
  } else {
    text = painted_lines(wrapped("No answer: " + why_infeasible(plan), 0, 4, style), Ink::bad,
                         style);
  }
  return text + heading(title_text(plan), style) + wrapped(model_shape(plan.model), 2, 2, style) +
         wrapped(job_text(plan.model, plan.job), 2, 2, style);
}

std::string list_text(std::string_view title, const std::vector<std::string>& lines,
                      TextStyle style) {
  if (lines.empty()) return "";
  std::string text = heading(title, style);
  for (const std::string& line : lines) text += wrapped("- " + line, 2, 4, style);
  return text;
}

// What pins cost, where the headline does not say it.
std::string pins_text(const Plan& plan, TextStyle style) {
  if (plan.chosen && is_own_configuration(plan)) return "";
  return list_text("Without some of your pins", released_lines(plan), style);
}

std::string share_text(core::Seconds part, core::Seconds whole) {
  return whole.value() > 0 ? percent_text(part / whole) : "-";
}

core::Bytes sent(const Candidate& c) {
  core::Bytes sum{0};
  for (const planner::CommunicationEntry& e : c.communication) sum += e.wire_per_rank;
  return sum;
}

// How a table of candidates is shown: steps against that of the choice; whether with the
// probability of running out of memory.
struct CandidateRows {
  double best = 0;
  bool risk = false;
  TextStyle style;
};

void add_candidate(Table& table, const Candidate& c, const std::string& rank,
                   const CandidateRows& rows) {
  std::vector<std::string> cells{
      rank, to_text(c.time.step),
      rows.best > 0 && rank != "0"
          ? fmt::format("{:+.1f} %", (c.time.step.value() / rows.best - 1) * 100)
          : "-",
      to_text(c.memory.worst.device)};
  if (rows.risk) cells.push_back(percent_text(c.uncertainty.out_of_memory));
  cells.push_back(percent_text(c.throughput.mfu));
  if (rows.style.wide()) {
    const planner::Time& t = c.time;
    const auto tokens = static_cast<std::int64_t>(c.throughput.tokens_per_second_per_gpu);
    for (std::string cell : {count_text(tokens), share_text(t.compute, t.step),
                             share_text(t.exposed_communication, t.step),
                             share_text(t.bubble, t.step), to_text(c.memory.worst.live),
                             to_text(sent(c))})
      cells.push_back(std::move(cell));
  }
  cells.push_back(planner::to_text(c.strategy));
  table.add(std::move(cells));
}

std::string candidates_text(const Plan& plan, const PlanTextOptions& options) {
  if (!plan.chosen) return "";
  const TextStyle style = options.style;
  const auto shown = std::span(plan.alternatives).first(
      std::min(plan.alternatives.size(), options.alternatives));
  const auto risky = [](const Candidate& c) {
    return c.uncertainty.out_of_memory >= planner::kHardlyRisky;
  };
  const CandidateRows rows{plan.chosen->time.step.value(),
                           risky(*plan.chosen) || std::ranges::any_of(shown, risky), style};
  std::vector<Column> columns{{"#"}, {"step"}, {"against"}, {"memory"}};
  if (rows.risk) columns.push_back({"oom"});
  columns.push_back({"mfu"});
  if (style.wide())
    for (const std::string& title : {fmt::format("{}/s/GPU", counted_in(plan)),
                                     std::string("compute"), std::string("exposed"),
                                     std::string("bubble"), std::string("live"),
                                     std::string("sent")})
      columns.push_back({title});
  columns.push_back({"strategy", Align::left});
  Table table(std::move(columns));
  add_candidate(table, *plan.chosen, "0", rows);
  table.paint_last(Ink::good);
  for (std::size_t i = 0; i < shown.size(); ++i)
    add_candidate(table, shown[i], std::to_string(i + 1), rows);
  return heading(fmt::format("Candidates (0 is recommended, {} kept)",
                             plural(static_cast<std::int64_t>(plan.alternatives.size()),
                                    "alternative")),
                 style) +
         table.text(style);
}

std::string amount(const planner::Rejection& r, std::int64_t value) {
  const bool bytes = r.limit == "memory" || r.limit == "host_memory";
  return bytes ? to_text(core::Bytes(value)) : count_text(value);
}

// "data=8 micro_batch=1 needs 26.1 GiB of GPU memory and has 23.7 GiB. Fix: sharding=zero1".
std::string rejection_text(const planner::Rejection& r) {
  std::string text = planner::to_text(r.strategy);
  if (r.limit == "memory" || r.limit == "host_memory")
    text += fmt::format(" needs {} of {} memory and has {}", amount(r, r.needed),
                        r.limit == "memory" ? "GPU" : "host", amount(r, r.available));
  else if (r.needed != r.available)  // equal where the limit is a rule and no amount
    text += fmt::format(" breaks a limit ({}): it takes {} GPUs, and there are {}", r.limit,
                        amount(r, r.needed), amount(r, r.available));
  else
    text += fmt::format(" breaks a rule ({})", r.limit);
  if (!r.fix.empty()) text += ". Fix: " + r.fix;
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
    text += wrapped("- " + rejection_text(plan.rejected[i]), 2, 4, options.style);
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
    times.add({m.gpu, to_text(c.time.step), percent_text(c.throughput.mfu),
               to_text(c.time.exposed_communication), to_text(sent(c)),
               planner::to_text(c.strategy)});
    const auto term = [&](program::Term t) {
      return to_text(c.memory.worst.terms[static_cast<std::size_t>(t)]);
    };
    memory.add({m.gpu, term(program::Term::weights), term(program::Term::gradients),
                term(program::Term::optimizer), term(program::Term::activations),
                to_text(c.memory.worst.device), to_text(c.memory.usable)});
  }
  TextStyle half = style;
  if (style.wide()) half.width = style.width - kMemoryColumns;
  return heading("The same job on other machines", style) +
         beside(times.text(half), memory.text(style), 4, style);
}

// strategies: a column for them.
std::string frameworks_text(const Plan& plan, bool strategies, TextStyle style) {
  if (plan.other_frameworks.empty()) return "";
  std::vector<Column> columns{{"framework", Align::left}, {"step"}, {"mfu"}, {"memory"}, {"oom"}};
  if (strategies) columns.push_back({"strategy", Align::left});
  Table table(std::move(columns));
  for (const planner::OtherFramework& f : plan.other_frameworks) {
    std::vector<std::string> cells{f.framework, "-", "-", "-", "-",
                                   "no strategy that it runs fits"};
    if (f.candidate) {
      const Candidate& c = *f.candidate;
      cells = {f.framework, to_text(c.time.step), percent_text(c.throughput.mfu),
               to_text(c.memory.worst.device), percent_text(c.uncertainty.out_of_memory),
               planner::to_text(c.strategy)};
    }
    if (!strategies) cells.pop_back();
    table.add(std::move(cells));
  }
  return heading("The same job in other frameworks", style) + table.text(style) +
         launch_text(plan, style);
}

std::string rules_text(const Plan& plan, TextStyle style) {
  if (plan.rules_of_thumb.empty()) return "";
  std::string text = heading("Rules of thumb, for comparison only", style);
  for (const planner::RuleOfThumb& r : plan.rules_of_thumb) {
    const std::string value =
        r.unit == "B" ? to_text(core::Bytes(static_cast<std::int64_t>(r.value)))
                          : fmt::format("{} {}", number_text(r.value), r.unit);
    text += wrapped(fmt::format("- {}: {} = {} ({})", r.name, r.formula, value, r.source), 2, 4,
                    style);
  }
  return text;
}

std::string search_text(const Plan& plan, TextStyle style) {
  const planner::SearchCounts& s = plan.search;
  return '\n' + wrapped(fmt::format("The search considered {} strategies in {}: {} infeasible, {} "
                                    "evaluated, {} replayed.",
                                    count_text(s.enumerated), to_text(s.seconds),
                                    count_text(s.infeasible), count_text(s.evaluated),
                                    count_text(s.replayed)),
                        0, 2, style);
}

}  // namespace

std::string why_infeasible(const Plan& plan) {
  std::string text = fmt::format("no feasible strategy for {} on {}", plan.model.name,
                                 hw_profiles::gpus_text(plan.profile, plan.gpus));
  if (!plan.rejected.empty())
    text += ". The nearest one: " + rejection_text(plan.rejected.front());
  return text;
}

namespace {

std::ptrdiff_t lines_of(std::string_view text) { return std::ranges::count(text, '\n'); }

// As many lines of a list as are left, and how many there are beside them.
std::string short_list_text(std::string_view title, std::vector<std::string> lines,
                            std::ptrdiff_t left, TextStyle style) {
  const std::size_t all = lines.size();
  while (!lines.empty()) {
    std::vector<std::string> shown = lines;
    if (lines.size() < all) shown.push_back(fmt::format("{} more: --full", all - lines.size()));
    if (std::string text = list_text(title, shown, style); lines_of(text) <= left) return text;
    lines.pop_back();
  }
  return all > 0 && left >= 2 ? heading(fmt::format("{}: --full", title), style) : "";
}

// The answer, its table and its parts, with as many alternatives and details as a cut leaves.
std::string short_head_text(const Plan& plan, const PlanTextOptions& options, bool strategies) {
  const TextStyle style = options.style;
  std::string text = answer_text(plan, options, style) + candidates_text(plan, options);
  if (!plan.chosen) return text + rejected_text(plan, options) + pins_text(plan, style);
  const auto n = static_cast<std::size_t>(options.candidate);
  text += '\n' + short_candidate_text(n == 0 ? *plan.chosen : plan.alternatives.at(n - 1), style);
  return text + pins_text(plan, style) + frameworks_text(plan, strategies, style);
}

std::string short_plan_text(const Plan& plan, PlanTextOptions options) {
  constexpr std::ptrdiff_t kLeastLists = 12;  // lines: what is assumed, what would change it
  struct Cut {
    std::size_t alternatives;
    bool strategies;                   // of other frameworks
  };
  const TextStyle style = options.style;
  const std::size_t most = options.alternatives;
  const std::string next = plan_next_text(plan, options);
  std::string text;
  std::ptrdiff_t left = 0;
  for (const Cut cut : {Cut{2, true}, Cut{1, true}, Cut{2, false}, Cut{1, false}}) {
    options.alternatives = std::min(most, cut.alternatives);
    text = short_head_text(plan, options, cut.strategies);
    left = kShortLines - lines_of(text) - lines_of(next);
    if (left >= kLeastLists) break;
  }
  const std::string change =
      short_list_text("What would change the choice", what_would_change(plan), (left - 2) * 2 / 3,
                      style);
  left -= lines_of(change);
  return text + short_list_text("Assumed", plan.assumptions, left, style) + change + next;
}

}  // namespace

std::string plan_text(const Plan& plan, const PlanTextOptions& options) {
  if (!options.full) return short_plan_text(plan, options);
  const TextStyle style = options.style;
  std::string text = answer_text(plan, options, style) + candidates_text(plan, options);
  if (plan.chosen) {
    const auto n = static_cast<std::size_t>(options.candidate);
    text += '\n' + candidate_text(n == 0 ? *plan.chosen : plan.alternatives.at(n - 1), style);
  }
  return text + pins_text(plan, style) + list_text("Assumed", plan.assumptions, style) +
         list_text("What would change the choice", what_would_change(plan), style) +
         rejected_text(plan, options) + frameworks_text(plan, true, style) +
         machines_text(plan, style) + rules_text(plan, style) +
         search_text(plan, style) + plan_next_text(plan, options);
}

}  // namespace reports
