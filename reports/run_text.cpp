#include "reports/run_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "reports/other_hardware.hpp"

namespace reports {
namespace {

using core::to_text;
using exec::RunRecord;

template <class T>
std::string known(const std::optional<T>& value) {
  return value ? to_text(*value) : std::string("-");
}

std::string loss_text(const RunRecord& r, TextStyle style) {
  if (r.loss.empty()) return "";
  std::string text = fmt::format("loss {:.6g} at the first step, {:.6g} at the last",
                                 r.loss.front(), r.loss.back());
  if (r.job.mtp_layers > 0)
    text += fmt::format("; {:g} times that of the tokens further on is in it",
                        models::kMtpLossWeight);
  if (r.loss.back() > 1.02 * r.loss.front())
    text += ". It rose: a lower --lr, or a --warmup, may help";
  return wrapped(text, 2, 4, style);
}

std::string data_text(const RunRecord& r, TextStyle style) {
  const auto data = r.environment.find("data");
  if (data == r.environment.end()) return "";
  return wrapped("data: " + data->second, 2, 4, style);
}

std::string training_text(const RunRecord& r, TextStyle style) {
  if (!r.training) return "";
  return wrapped(std::string(planner::optimizer(r.job.optimizer).name) + " with " +
                     exec::to_text(*r.training, r.job.optimizer),
                 2, 4, style);
}

// A dynamic scale comes down by the first steps that it leaves out.
std::string loss_scale_text(const RunRecord& r, TextStyle style) {
  if (!r.loss_scale) return "";
  const std::int64_t skipped = r.loss_scale->skipped_steps;
  std::string text = fmt::format("loss scale {:.9g} at the end", r.loss_scale->last);
  if (skipped == 0)
    text += ", and every step updated the weights";
  else
    text += fmt::format("; {} of {} steps updated nothing, because gradients overflowed in fp16",
                        core::count_text(skipped), core::count_text(r.steps));
  if (skipped > 0 && skipped == r.steps)
    text += ". Nothing was trained: more --steps let the scale come down";
  return wrapped(text, 2, 4, style);
}

std::string staleness_text(const RunRecord& r, TextStyle style) {
  if (!r.staleness) return "";
  return wrapped(fmt::format("{} asynchronous pushes, with weights {:.2f} updates of others old on "
                             "average, {} at most",
                             core::count_text(r.staleness->pushes), r.staleness->mean,
                             r.staleness->max),
                 2, 4, style);
}

std::string memory_text(const exec::MeasuredMemory& m, TextStyle style) {
  Table table({{"memory of rank " + std::to_string(m.rank), Align::left}, {""}});
  for (std::size_t i = 0; i < m.terms.size(); ++i)
    table.add({std::string(program::name(static_cast<program::Term>(i))), known(m.terms[i])});
  table.add({"live (their sum)", known(m.live)});
  if (m.device) table.add({"device (all)", known(m.device)});
  return '\n' + table.text(style);
}

std::string communication_text(const RunRecord& r, TextStyle style) {
  if (r.communication.empty()) return "\n  communication: none\n";
  Table table({{"communication", Align::left}, {"algorithm", Align::left}, {"ranks"}, {"calls"},
               {"payload"}, {"wire"}, {"busy"}});
  for (const exec::MeasuredCommunication& e : r.communication)
    table.add({e.what + ' ' + e.collective, e.algorithm, std::to_string(e.group_size),
               e.count ? core::count_text(*e.count) : "-", known(e.payload),
               known(e.wire_per_rank), known(e.seconds)});
  return '\n' + table.text(style);
}

// The kernels that took longest.
std::string device_times_text(const RunRecord& r, TextStyle style) {
  constexpr std::size_t kMost = 8;
  if (!r.device_times) return "";
  const exec::MeasuredDeviceTimes& t = *r.device_times;
  Table table({{"kernel of the last step", Align::left}, {"calls"}, {"total"}});
  for (std::size_t i = 0; i < std::min(kMost, t.kernels.size()); ++i)
    table.add({t.kernels[i].name, core::count_text(t.kernels[i].calls),
               to_text(t.kernels[i].total)});
  return '\n' +
         wrapped(fmt::format("the last step: actions {} by their events, kernels {}, {} between "
                             "kernels",
                             to_text(t.events), to_text(t.busy), to_text(t.gaps)),
                 2, 4, style) +
         table.text(style);
}

}  // namespace

std::string run_text(const RunRecord& r, TextStyle style) {
  const std::string title =
      fmt::format("{}: {} on {} ({}, {} ranks)", r.model.name,
                  r.steps == 1 ? "1 step" : fmt::format("{} steps", r.steps), r.device,
                  r.backend + " backend, " + r.communicator + " communicator", r.ranks);
  std::string text = painted(wrapped(title, 0, 2, style), Ink::heading, style);
  text += wrapped(planner::to_text(r.candidate.strategy), 2, 4, style);
  if (r.scaled_from)
    text += wrapped("scaled down from the plan: " + planner::to_text(r.scaled_from->figures), 2, 4,
                    style);
  if (const auto other = other_hardware(r))
    text += wrapped("planned for " + other->planned_for + ": times are not comparable", 2, 4,
                    style);
  if (r.emulated_links) text += "  links are emulated\n";
  text += data_text(r, style) + loss_text(r, style) + training_text(r, style) +
          loss_scale_text(r, style);
  text += wrapped(fmt::format("step {} median (p10 {}, p90 {})", known(r.time.step_median),
                              known(r.time.step_p10), known(r.time.step_p90)),
                  2, 4, style);
  text += staleness_text(r, style);
  return text + memory_text(r.memory, style) + communication_text(r, style) +
         device_times_text(r, style);
}

}  // namespace reports
