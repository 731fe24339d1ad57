#include "reports/candidate_text.hpp"

#include <fmt/format.h>

#include "core/parse_units.hpp"

namespace reports {
namespace {

using core::to_text;
using planner::Candidate;

constexpr int kBar = 32;

std::string headline(const Candidate& c) {
  const planner::Uncertainty& u = c.uncertainty;
  const std::int64_t tokens = static_cast<std::int64_t>(c.throughput.tokens_per_second);
  return wrapped(planner::to_text(c.strategy), 2, 4) +
         wrapped(fmt::format("step {} ({} to {}), {} tokens/s", to_text(c.time.step),
                             to_text(u.step_low), to_text(u.step_high), core::count_text(tokens)),
                 2, 4) +
         wrapped(fmt::format("{:.0f} TFLOP/s of the model per GPU, mfu {}",
                             c.throughput.model_tflops_per_gpu, percent_text(c.throughput.mfu)),
                 2, 4);
}

std::string memory_text(const planner::Memory& memory, TextStyle style) {
  const planner::MemoryTerms& m = memory.worst;
  Table table({{"", Align::left}, {""}, {"", Align::left}});
  const auto add = [&](std::string_view name, core::Bytes bytes) {
    const double share = memory.usable.value() > 0 ? bytes / memory.usable : 0;
    table.add({std::string(name), to_text(bytes), bar(share, kBar)});
  };
  for (int i = 0; i < program::kTerms; ++i)
    add(program::name(static_cast<program::Term>(i)), m.terms[static_cast<std::size_t>(i)]);
  add("live (their sum)", m.live);
  add("allocator", m.reserved - m.live);
  add("workspace", m.workspace);
  add("context", m.context);
  add("communicators", m.communicators);
  add("device (all)", m.device);
  const bool fits = m.device <= memory.usable;
  const std::string title = fmt::format(
      "  memory of rank {}: {} of {} usable", memory.rank, to_text(m.device),
      to_text(memory.usable));
  return '\n' + painted(title, fits ? Ink::good : Ink::bad, style) + '\n' + table.text();
}

std::string communication_text(const Candidate& c) {
  if (c.communication.empty()) return "\n  communication: none\n";
  Table table({{"communication", Align::left}, {"algorithm", Align::left}, {"ranks"}, {"calls"},
               {"payload"}, {"wire"}, {"busy"}});
  for (const planner::CommunicationEntry& e : c.communication)
    table.add({e.what + ' ' + e.collective, e.algorithm, std::to_string(e.group_size),
               core::count_text(e.count), to_text(e.payload), to_text(e.wire_per_rank),
               to_text(e.seconds)});
  return '\n' + table.text();
}

std::string time_text(const planner::Time& t) {
  Table table({{"time of a step", Align::left}, {""}, {""}, {"", Align::left}});
  const auto add = [&](std::string_view name, core::Seconds seconds) {
    const double share = t.step.value() > 0 ? seconds / t.step : 0;
    table.add({std::string(name), to_text(seconds), percent_text(share), bar(share, kBar)});
  };
  add("compute", t.compute);
  add("exposed communication", t.exposed_communication);
  add("bubble", t.bubble);
  add("optimizer", t.optimizer);
  std::string text = '\n' + table.text();
  text += fmt::format("  communication is busy {} in all\n", to_text(t.communication));
  if (t.launch_bound)
    text += "  launch-bound: the host cannot issue kernels as fast as the GPU runs them\n";
  return text;
}

}  // namespace

std::string candidate_text(const Candidate& c, TextStyle style) {
  return headline(c) + memory_text(c.memory, style) + communication_text(c) + time_text(c.time);
}

}  // namespace reports
