#include "reports/front.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "core/parse_units.hpp"

namespace reports {
namespace {

auto job_of(const Subject& s) { return std::tie(s.model, s.seq_len, s.global_batch); }

auto costs_of(const Subject& s) {
  return std::make_tuple(s.gpus, s.candidate->time.step.value(),
                         s.candidate->memory.worst.device.value());
}

// `a` is nowhere more than `b`; equals beat each other.
bool beats(const Subject& a, const Subject& b) {
  const auto [gpus, step, device] = costs_of(a);
  const auto [other_gpus, other_step, other_device] = costs_of(b);
  return gpus <= other_gpus && step <= other_step && device <= other_device;
}

}  // namespace

std::vector<Subject> contenders_of(const planner::Plan& plan, const std::string& label) {
  std::vector<Subject> all;
  if (!plan.chosen) return all;
  all.push_back(chosen_of(plan, label));
  for (const planner::Candidate& c : plan.pareto) {
    if (c.strategy == plan.chosen->strategy) continue;
    all.push_back(all.front());
    all.back().candidate = c;
    all.back().training.reset();       // the choice's, as what a token costs
    all.back().token_usd.reset();
  }
  return all;
}

std::vector<Subject> front_of(std::vector<Subject> contenders) {
  std::ranges::stable_sort(contenders, [](const Subject& a, const Subject& b) {
    return std::tuple_cat(job_of(a), costs_of(a)) < std::tuple_cat(job_of(b), costs_of(b));
  });
  // What beats a strategy comes before it, and so does what beats that: the front holds one.
  std::vector<Subject> front;
  std::size_t of_job = 0;              // where the front of the present job begins
  for (Subject& s : contenders) {
    if (!front.empty() && job_of(front.back()) != job_of(s)) of_job = front.size();
    const bool beaten = std::ranges::any_of(
        front.begin() + static_cast<std::ptrdiff_t>(of_job), front.end(),
        [&](const Subject& kept) { return beats(kept, s); });
    if (!beaten) front.push_back(std::move(s));
  }
  return front;
}

std::string front_text(const std::vector<Subject>& front, std::size_t most, TextStyle style) {
  std::set<std::int64_t> counts;
  for (const Subject& s : front) counts.insert(s.gpus);
  if (counts.size() < 2) return "";
  Table table({{"", Align::left}, {"step"}, {"memory"}, {"strategy", Align::left}});
  std::size_t rows = 0;
  const Subject* last = nullptr;
  for (const Subject& s : front) {
    if (rows == most) break;
    const bool near = last != nullptr && last->label == s.label &&
                      2 * s.candidate->memory.worst.device > last->candidate->memory.worst.device;
    if (near) continue;
    last = &s;
    ++rows;
    table.add({s.label, core::to_text(s.candidate->time.step),
               core::to_text(s.candidate->memory.worst.device), summary_text(s)});
  }
  const std::string heading = painted(
      fmt::format("Pareto front of GPUs, step and memory, {} of {}", rows, front.size()),
      Ink::heading, style);
  return fmt::format("\n{}\n{}", heading, table.text(style));
}

}  // namespace reports
