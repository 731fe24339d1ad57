#include "reports/trace_simulation_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/parse_units.hpp"

namespace reports {
namespace {

using core::to_text;
using planner::TraceSimulation;

constexpr std::size_t kMostTracedStreams = 24;  // rows of the table of streams

std::string parts_text(const TraceSimulation& s, TextStyle style) {
  Table table = share_table();
  const auto add = [&](std::string_view name, core::Seconds seconds) {
    const double share = s.time.step.value() > 0 ? seconds / s.time.step : 0;
    add_share(table, name, to_text(seconds), share, style);
  };
  add("compute", s.time.compute);
  add("exposed communication", s.time.exposed_communication);
  add("neither", s.time.bubble);
  const core::Seconds first = core::to_seconds(core::Picoseconds(s.outcome.makespan));
  return painted(fmt::format("Time of a step on rank {}: {}", s.outcome.critical_rank,
                             to_text(s.time.step)),
                 Ink::heading, style) +
         '\n' + table.text(style) +
         wrapped(fmt::format("the first step, from rest, takes {}", to_text(first)), 2, 4, style);
}

std::string communication_text(const TraceSimulation& s, TextStyle style) {
  if (s.communication.empty()) return "";
  Table table({{"for", Align::left}, {"collective", Align::left}, {"ranks"}, {"calls"},
               {"payload"}, {"sent"}, {"time"}});
  for (const planner::CommunicationEntry& e : s.communication)
    table.add({e.what.empty() ? "-" : e.what, fmt::format("{} ({})", e.collective, e.algorithm),
               std::to_string(e.group_size), core::count_text(e.count), to_text(e.payload),
               to_text(e.wire_per_rank), to_text(e.seconds)});
  return '\n' + painted("Communication of a step, of the busiest rank", Ink::heading, style) +
         '\n' + table.text(style);
}

std::string streams_text(const TraceSimulation& s, TextStyle style) {
  Table table({{"rank"}, {"stream", Align::left}, {"busy"}, {""}, {"", Align::left}});
  for (std::size_t i = 0; i < std::min(s.outcome.streams.size(), kMostTracedStreams); ++i) {
    const engine::ChakraStream& use = s.outcome.streams[i];
    const auto period = s.outcome.periods[static_cast<std::size_t>(use.rank)];
    const double share =
        period > 0 ? static_cast<double>(use.busy) / static_cast<double>(period) : 0;
    table.add({std::to_string(use.rank), use.name,
               to_text(core::to_seconds(core::Picoseconds(use.busy))), percent_text(share),
               bar(share, bar_width(style) / 2, style)});
  }
  if (table.empty()) return "";
  std::string text = '\n' + painted("Streams", Ink::heading, style) + '\n' + table.text(style);
  if (s.outcome.streams.size() > kMostTracedStreams)
    text += fmt::format("  and {} more\n", s.outcome.streams.size() - kMostTracedStreams);
  return text;
}

}  // namespace

std::string trace_simulation_text(const TraceSimulation& s, TextStyle style) {
  const std::string machine =
      s.gpu ? fmt::format("transfers on {}", *s.gpu) : "every duration as recorded";
  return painted(wrapped(fmt::format("{}: {} ranks, {} nodes, {}", s.from,
                                     core::count_text(s.ranks),
                                     core::count_text(static_cast<std::int64_t>(s.outcome.nodes)),
                                     machine),
                         0, 2, style),
                 Ink::heading, style) +
         '\n' + parts_text(s, style) + communication_text(s, style) + streams_text(s, style);
}

}  // namespace reports
