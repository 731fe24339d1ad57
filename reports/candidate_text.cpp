#include "reports/candidate_text.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/parse_units.hpp"
#include "reports/sensitivity.hpp"

namespace reports {
namespace {

using core::to_text;
using planner::Candidate;

constexpr std::size_t kMaxStages = 16;  // rows of the table of stages

double share_of(core::Bytes part, core::Bytes whole) {
  return whole.value() > 0 ? part / whole : 0;
}

// What a device holds, part by part; their sum is the device's.
std::vector<std::pair<std::string_view, core::Bytes>> parts_of(const planner::MemoryTerms& m) {
  std::vector<std::pair<std::string_view, core::Bytes>> parts;
  for (int i = 0; i < program::kTerms; ++i)
    parts.emplace_back(program::name(static_cast<program::Term>(i)),
                       m.terms[static_cast<std::size_t>(i)]);
  parts.emplace_back("allocator", m.reserved - m.live);
  if (m.waiting.value() > 0) parts.emplace_back("waiting", m.waiting);
  parts.emplace_back("workspace", m.workspace);
  parts.emplace_back("context", m.context);
  parts.emplace_back("communicators", m.communicators);
  return parts;
}

std::string memory_text(const planner::Memory& memory, TextStyle style) {
  const planner::MemoryTerms& m = memory.worst;
  Table table = share_table();
  const auto add = [&](std::string_view name, core::Bytes bytes) {
    add_share(table, name, to_text(bytes), share_of(bytes, memory.usable), style);
  };
  int terms = 0;
  for (const auto& [name, bytes] : parts_of(m)) {
    if (terms++ == program::kTerms) add("live (their sum)", m.live);
    add(name, bytes);
  }
  add("device (all)", m.device);
  const bool fits = m.device <= memory.usable;
  table.paint_last(fits ? Ink::good : Ink::bad);
  std::string title = fmt::format("Memory of rank {}: {} of {} usable", memory.rank,
                                  to_text(m.device), to_text(memory.usable));
  if (m.host.value() > 0) title += fmt::format(", {} of its host", to_text(m.host));
  return painted(title, Ink::heading, style) + '\n' + table.text(style);
}

std::string stages_text(const planner::Memory& memory, TextStyle style) {
  if (memory.stages.size() < 2) return "";
  Table table({{"stage"}, {"weights"}, {"activations"}, {"live"}, {"device"}, {"", Align::left}});
  const auto term = [](const planner::MemoryTerms& m, program::Term t) {
    return to_text(m.terms[static_cast<std::size_t>(t)]);
  };
  for (std::size_t i = 0; i < std::min(memory.stages.size(), kMaxStages); ++i) {
    const planner::MemoryTerms& m = memory.stages[i].memory;
    table.add({std::to_string(memory.stages[i].stage), term(m, program::Term::weights),
               term(m, program::Term::activations), to_text(m.live), to_text(m.device),
               bar(share_of(m.device, memory.usable), bar_width(style) / 2, style)});
  }
  std::string text = '\n' + painted("Stages", Ink::heading, style) + '\n' + table.text(style);
  if (memory.stages.size() > kMaxStages)
    text += fmt::format("  and {} more\n", memory.stages.size() - kMaxStages);
  return text;
}

std::string communication_text(const Candidate& c, TextStyle style) {
  const std::string title = painted("Communication of a step, busiest rank", Ink::heading, style);
  if (c.communication.empty()) return title + "\n  none\n";
  Table table({{"what", Align::left}, {"algorithm", Align::left}, {"ranks"}, {"calls"},
               {"payload"}, {"wire"}, {"busy"}});
  for (const planner::CommunicationEntry& e : c.communication)
    table.add({e.what + ' ' + e.collective, e.algorithm, std::to_string(e.group_size),
               core::count_text(e.count), to_text(e.payload), to_text(e.wire_per_rank),
               to_text(e.seconds)});
  return title + '\n' + table.text(style);
}

std::string time_text(const planner::Time& t, TextStyle style) {
  Table table = share_table();
  const auto add = [&](std::string_view name, core::Seconds seconds) {
    const double share = t.step.value() > 0 ? seconds / t.step : 0;
    add_share(table, name, to_text(seconds), share, style);
  };
  add("compute", t.compute);
  add("exposed communication", t.exposed_communication);
  add("bubble", t.bubble);
  add("optimizer", t.optimizer);
  std::string text = painted("Time of a step: " + to_text(t.step), Ink::heading, style) + '\n' +
                     table.text(style);
  if (t.communication.value() > 0)
    text += fmt::format("  communication is busy {} in all{}\n", to_text(t.communication),
                        t.exposed_communication > t.communication
                            ? "; what is exposed beyond that is waiting and copies to hosts"
                            : "");
  if (t.launch_bound)
    text += "  launch-bound: the host cannot issue kernels as fast as the GPU runs them\n";
  return text;
}

}  // namespace

// In two sentences: bytes of a percent of the usable and more, times of a thousandth of the step.
std::string short_candidate_text(const Candidate& c, TextStyle style) {
  constexpr double kLittle = 0.01, kMoment = 0.001;
  std::vector<std::string> bytes, times;
  core::Bytes rest{};
  for (const auto& [name, part] : parts_of(c.memory.worst)) {
    if (share_of(part, c.memory.usable) < kLittle) rest += part;
    else bytes.push_back(fmt::format("{} {}", name, to_text(part)));
  }
  if (rest.value() > 0) bytes.push_back(fmt::format("all else {}", to_text(rest)));
  if (c.memory.worst.host.value() > 0)
    bytes.push_back(fmt::format("and in its host's memory {}", to_text(c.memory.worst.host)));
  const planner::Time& t = c.time;
  const auto add = [&](std::string_view name, core::Seconds part) {
    if (part / t.step >= kMoment)
      times.push_back(fmt::format("{} {} ({})", name, to_text(part), percent_text(part / t.step)));
  };
  add("compute", t.compute);
  add("exposed communication", t.exposed_communication);
  add("bubble", t.bubble);
  add("optimizer", t.optimizer);
  if (t.launch_bound) times.emplace_back("launch-bound: the host issues kernels too slowly");
  return wrapped(fmt::format("Memory of rank {}: {}", c.memory.rank, fmt::join(bytes, ", ")), 0, 2,
                 style) +
         wrapped(fmt::format("Time of a step: {}", fmt::join(times, ", ")), 0, 2, style);
}

std::string candidate_text(const Candidate& c, TextStyle style) {
  const std::string left = memory_text(c.memory, style) + stages_text(c.memory, style);
  const std::string right = communication_text(c, style) + '\n' + time_text(c.time, style);
  return beside(left, right, 4, style);
}

}  // namespace reports
