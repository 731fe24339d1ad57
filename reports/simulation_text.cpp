#include "reports/simulation_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/parse_units.hpp"

namespace reports {
namespace {

using core::to_text;
using planner::Simulation;

constexpr std::size_t kMostStreams = 24;  // rows of the table of streams

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
  for (const engine::WeakLink& w : o.flows->weak)
    text += wrapped(w.share == 0 ? fmt::format("the links of rank {} are broken", w.rank)
                                 : fmt::format("the links of rank {} keep {} of their bandwidth",
                                               w.rank, percent_text(w.share)),
                    2, 4, style);
  return text;
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
  std::string text =
      painted(fmt::format("Time of a step on rank {}: {}", s.critical_rank, to_text(s.time.step)),
              Ink::heading, style) +
      '\n' + table.text(style);
  const double off = s.time.step.value() > 0 ? s.planned_step / s.time.step - 1 : 0;
  text += wrapped(fmt::format("the plan says {} ({}{}); the first step, from rest, takes {}",
                              to_text(s.planned_step), off < 0 ? "" : "+", percent_text(off),
                              to_text(s.first_step)),
                  2, 4, style);
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

std::string scaling_text(const Simulation& s, TextStyle style) {
  if (s.scaling.empty()) return "";
  Table table({{"copies"}, {"GPUs"}, {"step"}, {"samples/s"}, {"speed-up"}, {"efficiency"},
               {"", Align::left}});
  for (const planner::ScalePoint& p : s.scaling)
    table.add({std::to_string(p.copies), std::to_string(p.gpus), to_text(p.time.step),
               fmt::format("{:.4g}", p.samples_per_second), fmt::format("{:.2f}", p.speed_up),
               percent_text(p.efficiency), bar(p.efficiency, bar_width(style) / 2, style)});
  return '\n' + painted("Data-parallel copies, each with the same work", Ink::heading, style) +
         '\n' + table.text(style);
}

std::string goodput_text(const Simulation& s, TextStyle style) {
  if (!s.goodput) return "";
  const planner::Goodput& g = *s.goodput;
  const planner::FailureOptions& o = *s.options.failures;
  std::string text =
      '\n' + painted(fmt::format("Goodput with failures: {}", percent_text(g.expected)),
                     Ink::heading, style) + '\n';
  text += wrapped(fmt::format("a checkpoint every {} steps is best: the job fails every {}, a save "
                              "takes {}, a restart {}",
                              core::count_text(g.interval), to_text(g.between), to_text(o.save),
                              to_text(o.restart)),
                  2, 4, style);
  return text + wrapped(fmt::format("played for {} (seed {}): {}, {} failures, {} steps kept, {} "
                                    "done again",
                                    to_text(o.horizon), s.options.seed,
                                    percent_text(g.played.goodput),
                                    core::count_text(g.played.failures),
                                    core::count_text(g.played.steps),
                                    core::count_text(g.played.lost_steps)),
                        2, 4, style);
}

}  // namespace

std::string simulation_text(const Simulation& s, TextStyle style) {
  std::string text =
      painted(wrapped(fmt::format("{}: {} ranks, {} played", to_text(s.strategy),
                                  core::count_text(s.ranks), core::count_text(s.ranks_played)),
                      0, 2, style),
              Ink::heading, style);
  text += conditions_text(s.options, style);
  return text + '\n' + parts_text(s, style) + path_text(s, style) + streams_text(s, style) +
         peak_text(s, style) + scaling_text(s, style) + goodput_text(s, style);
}

}  // namespace reports
