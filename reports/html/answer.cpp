// What a plan's page opens with: the verdict, five figures with gauges, why, and the memory bar.
#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "hw_profiles/mixed.hpp"
#include "planner/evaluate/accuracy.hpp"
#include "reports/html/plan_sections.hpp"
#include "reports/plan_headline.hpp"
#include "reports/plan_text.hpp"
#include "reports/text.hpp"

namespace reports::html {
namespace {

using planner::Candidate;
using planner::Plan;

constexpr core::Seconds kDay{86400};

const char* verb_of(planner::Mode mode) {
  switch (mode) {
    case planner::Mode::train: return "Train";
    case planner::Mode::finetune: return "Fine-tune";
    case planner::Mode::inference: return "Run inference of";
  }
  return "";
}

// "2.9 %", "less than 0.01 %".
std::string risk_text(double risk) {
  constexpr double kLeastPrinted = 0.0001;
  return risk < kLeastPrinted ? "less than 0.01 %" : percent_text(risk);
}

// With a capital letter and a full stop.
std::string sentence_of(std::string text) {
  if (!text.empty())
    text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text + '.';
}

Verdict verdict(const Document& d) {
  const Plan& plan = *d.plan;
  if (!plan.chosen) return {"Does not fit", sentence_of(why_infeasible(plan)), Tone::bad};
  const double risk = plan.chosen->uncertainty.out_of_memory, cap = d.plan->max_risk;
  const bool fits = risk <= cap;
  const std::string job =
      fmt::format("{} {} on {} with {}", verb_of(plan.job.mode), plan.model.name,
                  machine_text(plan), planner::to_text(plan.chosen->strategy));
  if (fits)
    return {"Fits",
            fmt::format("{}: it fits, and its risk of running out of memory is {}.", job,
                        risk_text(risk)),
            Tone::good};
  return {"May not fit",
          fmt::format("{}: it may not fit, for its risk of running out of memory is {}, above the "
                      "limit of {}.",
                      job, risk_text(risk), percent_text(cap)),
          Tone::bad};
}

// Shares of a length that leaves some room to the right of `high`.
Gauge range_gauge(double low, double value, double high, std::string says) {
  const double length = std::max({high, value, 1e-30}) * 1.1;
  return {low / length, high / length, value / length, std::move(says)};
}

Tile step_tile(const Document& d) {
  const Candidate& c = *d.plan->chosen;
  const std::string low = core::to_text(c.uncertainty.step_low);
  const std::string high = core::to_text(c.uncertainty.step_high);
  return {"Time per step", cell(d, "/chosen/time/step", Unit::seconds), "",
          fmt::format("{:.0f} % of runs take {} to {}", 100 * planner::accuracy().coverage, low,
                      high),
          range_gauge(c.uncertainty.step_low.value(), c.time.step.value(),
                      c.uncertainty.step_high.value(),
                      fmt::format("a step of {} in the range from {} to {}",
                                  core::to_text(c.time.step), low, high))};
}

Tile throughput_tile(const Document& d) {
  const Candidate& c = *d.plan->chosen;
  const bool tokens = models::is_transformer(d.plan->model.family);
  const std::string says = percent_text(c.throughput.mfu) + " of the GPUs' peak FLOP/s (mfu)";
  return {"Throughput", cell(d, "/chosen/throughput/tokens_per_second", Unit::count),
          tokens ? "tokens/s" : "samples/s", says,
          Gauge{0, c.throughput.mfu, {}, says}};
}

Tile memory_tile(const Document& d) {
  const planner::Memory& memory = d.plan->chosen->memory;
  const double share = memory.worst.device / memory.usable;
  const std::string says = fmt::format("{} of the {} that are usable", percent_text(share),
                                       core::to_text(memory.usable));
  const Tone tone = share > 1 ? Tone::bad : Tone::plain;
  return {"Memory per GPU", cell(d, "/chosen/memory/device", Unit::bytes), "", says,
          Gauge{0, share, {}, says}, tone};
}

// The gauge ends at twice the limit, so that the limit stands in its middle.
Tile risk_tile(const Document& d) {
  const double risk = d.plan->chosen->uncertainty.out_of_memory, cap = d.plan->max_risk;
  const std::string note = fmt::format("{} the limit of {} (the mark)",
                                       risk <= cap ? "within" : "above", percent_text(cap));
  return {"Out-of-memory risk", cell(d, "/chosen/uncertainty/out_of_memory", Unit::fraction), "",
          note,
          Gauge{0, cap > 0 ? risk / (2 * cap) : risk, cap > 0 ? 0.5 : 0.0,
                fmt::format("risk {}, {}", risk_text(risk), note)},
          risk <= cap ? Tone::good : Tone::bad};
}

// What a cost is counted in: money where the profile has a price, else energy, else GPU hours.
struct Cost {
  const char* name;      // "Cost"
  Cell figure;
  std::string unit, basis;
};

Cost training_cost(const Document& d) {
  const cost::Training& t = *d.plan->training;
  const std::string takes = fmt::format("{} of training", core::to_text(t.seconds));
  if (t.cost) return {"Cost", cell(d, "/training/cost_usd", Unit::money), "USD", takes};
  if (t.energy)
    return {"Energy", cell(d, "/training/energy_joules", Unit::energy), "",
            takes + "; no price is known for this GPU"};
  return {"GPU hours", cell(d, "/training/gpu_hours", Unit::number), "GPU h",
          takes + "; no price is known for this GPU"};
}

Cost cost_of_day(const Plan& plan) {
  const double many = static_cast<double>(plan.gpus);
  const planner::Time& t = plan.chosen->time;
  const hw_profiles::Gpu gpu = hw_profiles::mean_gpu(plan.profile, plan.gpus);
  if (const auto one = cost::rent(gpu, kDay))
    return {"Cost", made(one->value() * many, Unit::money), "USD",
            fmt::format("{} GPUs at {:.2f} USD an hour{}", plan.gpus, gpu.price->value(),
                        plan.profile.others.empty() ? "" : " on average")};
  const core::Seconds busy = std::min(kDay, kDay * (t.compute / t.step));
  if (const auto one = cost::energy(gpu, kDay, busy))
    return {"Energy", made(one->value() * many, Unit::energy), "",
            "energy of the GPUs, for no price is known"};
  return {"GPU hours", made(24 * many, Unit::number), "GPU h", "no price is known for this GPU"};
}

Tile cost_tile(const Document& d) {
  const Plan& plan = *d.plan;
  const planner::Time& t = plan.chosen->time;
  const double share = t.step.value() > 0 ? t.compute / t.step : 0;
  Cost cost = plan.training ? training_cost(d) : cost_of_day(plan);
  const std::string of = plan.training
                             ? fmt::format("of {} tokens", core::count_text(plan.training->tokens))
                             : std::string("per day");
  return {fmt::format("{} {}", cost.name, of), std::move(cost.figure), std::move(cost.unit),
          fmt::format("{}; the GPUs compute {} of the time", cost.basis, percent_text(share)),
          Gauge{0, share, {},
                fmt::format("the GPUs compute {} of the time", percent_text(share))}};
}

}  // namespace

std::string machine_text(const Plan& plan) {
  return hw_profiles::gpus_text(plan.profile, plan.gpus, &hw_profiles::Gpu::name);
}

std::string question_text(const Plan& plan) {
  const planner::Job& job = plan.job;
  const std::string batch =
      models::is_transformer(plan.model.family)
          ? fmt::format("{} samples of {} tokens", core::count_text(job.global_batch),
                        core::count_text(job.seq_len))
          : fmt::format("{} samples", core::count_text(job.global_batch));
  return fmt::format("{} parameters, {} a step, recipe {}, {}, framework {}",
                     core::count_text(plan.parameters), batch, job.recipe,
                     planner::optimizer(job.optimizer).name, job.framework);
}

Section answer_section(const Document& d) {
  const Plan& plan = *d.plan;
  Section section{"Recommendation", {verdict(d)}};
  if (!plan.chosen) return section;
  section.blocks.push_back(Tiles{"The five figures",
                                 {step_tile(d), throughput_tile(d), memory_tile(d), risk_tile(d),
                                  cost_tile(d)}});
  for (const std::string& reason : reasons_of(plan)) section.blocks.push_back(Text{reason});
  section.blocks.push_back(strategy_in_words(plan));
  if (const hw_profiles::Sourced* price = plan.profile.lookup("gpu.price"))
    section.blocks.push_back(
        Text{fmt::format("Price of a GPU: {}, {}.", price->text, price->source), TextKind::note});
  return section;
}

Bar memory_of_choice(const Document& d) {
  const planner::Memory& memory = d.plan->chosen->memory;
  Bar bar{fmt::format("The fullest GPU (rank {})", memory.rank),
          fmt::format("It needs {} of {} usable.", core::to_text(memory.worst.device),
                      core::to_text(memory.usable)),
          {}, static_cast<double>(memory.usable.value()), {}};
  int colour = 0;
  for (const std::string_view part : kMemoryParts) {
    Cell figure = memory_part(d, "/chosen/memory", part);
    const double size = figure.value.is_number() ? figure.value.as_double() : 0;
    if (size > 0) bar.parts.push_back({std::string(part), std::move(figure), size, colour});
    ++colour;
  }
  const std::int64_t free = (memory.usable - memory.worst.device).value();
  bar.rest = {"free", made(free, Unit::bytes), static_cast<double>(free)};
  return bar;
}

}  // namespace reports::html
