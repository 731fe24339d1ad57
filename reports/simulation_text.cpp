#include "reports/simulation_text.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/code.hpp"
#include "core/parse_units.hpp"
#include "core/untrusted.hpp"
#include "reports/goodput_text.hpp"
#include "reports/next_steps.hpp"
#include "reports/robust_text.hpp"

namespace reports {
namespace {

using core::to_text;
using planner::Simulation;

constexpr std::size_t kMostStreams = 24;  // rows of the table of streams
constexpr double kAsLong = 0.0005;        // shares of a step below this are not told apart

std::string conditions_text(const planner::SimulateOptions& o, TextStyle style) {
  std::string text;
  for (const engine::Straggler& s : o.stragglers)
    text += wrapped(fmt::format("rank {} computes {:g} times as long", s.rank, s.slowdown), 2, 4,
                    style);
  if (o.jitter > 0)
    text += wrapped(fmt::format("kernels jitter by {} (seed {})", percent_text(o.jitter), o.seed),
                    2, 4, style);
  if (!o.flows) return text;
  const bool shared = o.flows->sharing == engine::Sharing::shared;
  text += wrapped(fmt::format("collectives move message by message over {} links",
                              shared ? "shared" : "exclusive"),
                  2, 4, style);
  if (o.fabric)
    text += wrapped(
        fmt::format("nodes are joined by the fabric {} ({} routing{})", o.fabric->id,
                    hw_profiles::name(o.fabric->routing),
                    o.fabric->routing == hw_profiles::Routing::ecmp
                        ? fmt::format(", seed {}", o.seed)
                        : ""),
        2, 4, style);
  if (o.fabric)
    for (const hw_profiles::Sourced& a : assumptions(*o.fabric))
      text += wrapped(fmt::format("{} {} is {}", a.field, a.text, a.source), 4, 6, style);
  for (const engine::WeakLink& w : o.flows->weak)
    text += wrapped(w.share == 0 ? fmt::format("the links of rank {} are broken", w.rank)
                                 : fmt::format("the links of rank {} keep {} of their bandwidth",
                                               w.rank, percent_text(w.share)),
                    2, 4, style);
  return text;
}

// "49.7 % slower than the healthy step of 1.00 s".
std::string against_healthy(const Simulation& s) {
  const double more = s.time.step / s.healthy->step - 1;
  const std::string healthy = "the healthy step of " + to_text(s.healthy->step);
  if (std::abs(more) < kAsLong) return "as long as " + healthy;
  return fmt::format("{} {} than {}", percent_text(std::abs(more)), more > 0 ? "slower" : "faster",
                     healthy);
}

// Which terms of the step are longer and which shorter than in the healthy step.
std::string growth_text(const Simulation& s, TextStyle style) {
  const planner::Time& now = s.time;
  const planner::Time& then = *s.healthy;
  std::vector<std::string> longer, shorter;
  const auto add = [&](std::string_view name, core::Seconds a, core::Seconds b) {
    const double more = a.value() - b.value();
    if (std::abs(more) < kAsLong * then.step.value()) return;
    (more > 0 ? longer : shorter)
        .push_back(fmt::format("{} by {}", name, to_text(core::Seconds(std::abs(more)))));
  };
  add("compute", now.compute, then.compute);
  add("exposed communication", now.exposed_communication, then.exposed_communication);
  add("bubble", now.bubble, then.bubble);
  add("optimizer", now.optimizer, then.optimizer);
  std::string text;
  if (!longer.empty())
    text += wrapped(fmt::format("Longer than in the healthy step: {}.", fmt::join(longer, ", ")), 2,
                    4, style);
  if (!shorter.empty())
    text += wrapped(fmt::format("Shorter than in the healthy step: {}.", fmt::join(shorter, ", ")),
                    2, 4, style);
  return text;
}

// The plan predicts a step that nothing slows down, so that is what it is held against.
std::string planned_text(const Simulation& s, TextStyle style) {
  const core::Seconds played = s.healthy ? s.healthy->step : s.time.step;
  const double more = played.value() > 0 ? s.planned_step / played - 1 : 0;
  const std::string_view than = s.healthy ? "the healthy step" : "simulated";
  const std::string share = percent_text(std::abs(more));
  const std::string off =
      std::abs(more) < kAsLong
          ? fmt::format(", the same as {}", than)
          : fmt::format(", {} {} than {}", share, more > 0 ? "more" : "less", than);
  return wrapped(fmt::format("The plan predicts {}{}. The first step of a run takes {}.",
                             to_text(s.planned_step), off, to_text(s.first_step)),
                 2, 4, style);
}

std::string parts_text(const Simulation& s, TextStyle style) {
  Table table = share_table();
  const auto add = [&](std::string_view name, core::Seconds seconds) {
    const double share = s.time.step.value() > 0 ? seconds / s.time.step : 0;
    add_share(table, name, to_text(seconds), share, style);
  };
  add("compute", s.time.compute);
  add("exposed communication", s.time.exposed_communication);
  add("bubble", s.time.bubble);
  add("optimizer", s.time.optimizer);
  std::string heading =
      fmt::format("Time of a step on rank {}: {}", s.critical_rank, to_text(s.time.step));
  if (s.healthy) heading += ", " + against_healthy(s);
  std::string text = painted(wrapped(heading, 0, 2, style), Ink::heading, style);
  text += table.text(style);
  if (s.healthy) text += growth_text(s, style);
  text += planned_text(s, style);
  if (s.time.launch_bound)
    text += "  launch-bound: the host cannot issue kernels as fast as the GPU runs them\n";
  return text;
}

std::string path_text(const Simulation& s, TextStyle style) {
  if (s.critical_path.empty()) return "";
  Table table = share_table();
  for (const planner::PathPart& part : s.critical_path) {
    const double share = s.first_step.value() > 0 ? part.seconds / s.first_step : 0;
    add_share(table, part.kind, to_text(part.seconds), share, style);
  }
  return '\n' + painted("Critical path of the first step", Ink::heading, style) + '\n' +
         table.text(style);
}

std::string streams_text(const Simulation& s, TextStyle style) {
  Table table({{"rank"}, {"stream", Align::left}, {"busy"}, {"idle"}, {""}, {"", Align::left}});
  for (std::size_t i = 0; i < std::min(s.streams.size(), kMostStreams); ++i) {
    const planner::StreamUse& use = s.streams[i];
    const double share = use.busy / (use.busy + use.idle);
    table.add({std::to_string(use.rank), std::string(program::name(use.stream)),
               to_text(use.busy), to_text(use.idle), percent_text(share),
               bar(share, bar_width(style) / 2, style)});
  }
  std::string text = '\n' + painted("Streams", Ink::heading, style) + '\n' + table.text(style);
  if (s.streams.size() > kMostStreams)
    text += fmt::format("  and {} more\n", s.streams.size() - kMostStreams);
  return text;
}

// Of each kind of link the busiest.
std::string loads_text(const Simulation& s, TextStyle style) {
  if (s.loads.tiers.empty()) return "";
  Table table({{"links", Align::left}, {"number"}, {"bandwidth"}, {"mean"}, {"busiest"},
               {"", Align::left}, {"", Align::left}});
  for (const planner::TierLoad& t : s.loads.tiers)
    table.add({t.tier, core::count_text(t.links), to_text(t.rate),
               s.loads.worst_of_alike ? "" : percent_text(t.mean), percent_text(t.most),
               bar(t.most, bar_width(style) / 4, style), t.busiest});
  std::string text = '\n' +
                     painted("Load of the links over a step", Ink::heading, style) + '\n' +
                     table.text(style);
  if (s.loads.worst_of_alike)
    text += wrapped("Ranks that are alike but for the hashes of their routes were simulated "
                    "once, over the busiest of their links. --unfold simulates every rank.",
                    2, 2, style);
  return text;
}

std::string peak_text(const Simulation& s, TextStyle style) {
  const planner::PeakInstant& p = s.peak;
  const std::string where =
      p.block.empty() ? std::string("before the step")
                      : fmt::format("in {} of layer {}, micro-batch {}", p.block, p.layer,
                                    p.micro_batch);
  return '\n' + wrapped(fmt::format("Memory of rank {} peaks at {} live, {} of {} on the device, "
                                    "{} into the step, {}",
                                    p.rank, to_text(p.live), to_text(s.memory.worst.device),
                                    to_text(s.memory.usable), to_text(p.time), where),
                        0, 2, style);
}

std::string samples_text(double rate) {
  return rate < 1'000 ? fmt::format("{:.4g}", rate)
                      : core::count_text(static_cast<std::int64_t>(rate + 0.5));
}

std::string scaling_text(const Simulation& s, TextStyle style) {
  if (s.scaling.empty()) return "";
  Table table({{"replicas"}, {"GPUs"}, {"step"}, {"samples/s"}, {"speed-up"}, {"efficiency"},
               {"", Align::left}});
  for (const planner::ScalePoint& p : s.scaling)
    table.add({std::to_string(p.copies), std::to_string(p.gpus), to_text(p.time.step),
               samples_text(p.samples_per_second), fmt::format("{:.2f}", p.speed_up),
               percent_text(p.efficiency), bar(p.efficiency, bar_width(style) / 2, style)});
  return '\n' + painted("Data-parallel replicas, each with the same work", Ink::heading, style) +
         '\n' + table.text(style);
}

std::string variation_text(const Simulation& s, TextStyle style) {
  if (!s.variation) return "";
  const planner::Variation& v = *s.variation;
  std::string text = '\n' + painted(fmt::format("Steps that vary (seed {})", s.options.seed),
                                    Ink::heading, style) + '\n';
  for (const planner::RandomSlow& kind : s.options.random)
    text += wrapped(trouble_text(kind), 2, 4, style);
  Table table({{"", Align::left}, {"step"}, {""}});
  const auto add = [&](std::string_view name, core::Seconds step) {
    const double more = step / s.time.step - 1;
    table.add({std::string(name), to_text(step),
               fmt::format("{}{}", more < 0 ? "-" : "+", percent_text(std::abs(more)))});
  };
  add("mean", v.mean);
  add("p50", planner::quantile(v.steps, 0.5));
  add("p95", planner::quantile(v.steps, 0.95));
  add("p99", planner::quantile(v.steps, 0.99));
  add("most", v.most);
  text += table.text(style);
  return text + wrapped(fmt::format("Of {} steps {} had a slow rank or link, {:.3g} of them on "
                                    "average. Each is played as if the steps beside it were alike; "
                                    "the shares are against the step above.",
                                    v.steps.size(), v.slowed, v.slow_ranks),
                        2, 2, style);
}

}  // namespace

std::string simulation_text(const Simulation& s, TextStyle style) {
  std::string text =
      painted(wrapped(fmt::format("{}: {} ranks, {} simulated", to_text(s.strategy),
                                  core::count_text(s.ranks), core::count_text(s.ranks_played)),
                      0, 2, style),
              Ink::heading, style);
  text += conditions_text(s.options, style);
  return text + '\n' + parts_text(s, style) + path_text(s, style) + streams_text(s, style) +
         loads_text(s, style) +
         (s.checkpoint ? checkpoint_text(*s.checkpoint, s.time.step, style) : std::string()) +
         peak_text(s, style) + scaling_text(s, style) +
         variation_text(s, style) +
         (s.goodput ? goodput_text(*s.goodput, *s.options.failures, s.options.seed, style)
                    : std::string());
}

std::string next_text(const Simulation& s, const std::string& plan_file,
                      const std::optional<std::string>& trace_file, TextStyle style) {
  const core::Code plan = core::Code::shell(plan_file);
  if (!trace_file)
    return next_steps_text(
        {{core::code("planner simulate {} --trace step.json", plan),
          "writes the step as a timeline"},
         {core::code("planner simulate {} --straggler rank=0,slowdown=1.5", plan),
          "what one slow GPU costs"}},
        style);
  const auto bytes = core::Bytes(static_cast<std::int64_t>(s.trace.bytes.size()));
  return '\n' +
         wrapped(fmt::format("{} ({}) {}", core::visible(*trace_file), to_text(bytes),
                             to_text(s.trace.scope)),
                 0, 2, style) +
         next_steps_text({{core::code("open {} in ui.perfetto.dev", core::Code::shell(*trace_file)),
                           "every rank and stream of the step"}},
                         style);
}

}  // namespace reports
