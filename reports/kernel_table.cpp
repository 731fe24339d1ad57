#include "reports/kernel_table.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/json.hpp"
#include "core/parse_units.hpp"

namespace reports {
namespace {

using planner::KernelTime;

constexpr std::size_t kShown = 24;

double share_of(core::Seconds part, core::Seconds all) {
  return all.value() > 0 ? part / all : 0;
}

// The rate of what sets the roofline.
std::string rate_text(const KernelTime& k) {
  if (k.time.value() <= 0) return "-";
  if (k.by_compute) return fmt::format("{:.3g} TFLOP/s", k.flops.value() / k.time.value() / 1e12);
  return core::to_text(
      core::BytesPerSecond(static_cast<double>(k.bytes.value()) / k.time.value()));
}

}  // namespace

std::string kernel_table_text(const planner::Plan& plan, const planner::KernelTimes& times,
                              TextStyle style) {
  std::string text = wrapped(
      fmt::format("Kernels of rank {} in one step, predicted, and the roofline of {}: what the "
                  "same work would take at least at the peak of its data sheet or at the bandwidth "
                  "of its memory ({}), with each operand moved once.",
                  times.rank, plan.profile.gpu.id,
                  core::to_text(plan.profile.gpu.memory_bandwidth)),
      0, 0, style);
  Table table({{"kernel", Align::left}, {"calls"}, {"time"}, {"share"}, {"rate"}, {"roofline"},
               {"of it"}});
  const auto add = [&](const std::string& name, std::int64_t count, core::Seconds time,
                       const std::string& rate, core::Seconds roofline) {
    table.add({name, count > 0 ? fmt::format("{}", count) : "", core::to_text(time),
               percent_text(share_of(time, times.time)), rate, core::to_text(roofline),
               percent_text(share_of(roofline, time))});
  };
  const std::size_t shown = std::min(times.kernels.size(), kShown);
  KernelTime others;
  for (std::size_t i = 0; i < times.kernels.size(); ++i) {
    const KernelTime& k = times.kernels[i];
    if (i < shown) {
      add(k.kernel, k.count, k.time, rate_text(k), k.roofline);
      continue;
    }
    others.count += k.count;
    others.time += k.time;
    others.roofline += k.roofline;
  }
  if (const std::size_t rest = times.kernels.size() - shown; rest > 0)
    add(fmt::format("{} others", rest), others.count, others.time, "", others.roofline);
  if (times.host.value() > 0)
    table.add({"waiting for the host to issue them", "", core::to_text(times.host),
               percent_text(share_of(times.host, times.time)), "", "", ""});
  add("sum", 0, times.time, "", times.roofline);
  table.paint_last(Ink::heading);
  return text + table.text(style);
}

std::string kernel_table_json(const planner::Plan& plan, const planner::KernelTimes& times) {
  core::Json kernels = core::Json::array();
  for (const KernelTime& k : times.kernels)
    kernels.push_back(core::Json::object({{"kernel", k.kernel},
                                          {"count", k.count},
                                          {"time", k.time.value()},
                                          {"flops", k.flops.value()},
                                          {"bytes", k.bytes.value()},
                                          {"roofline", k.roofline.value()},
                                          {"limit", k.by_compute ? "compute" : "memory"}}));
  return core::dump(core::Json::object({{"schema", "kernels/1"},
                                        {"model", plan.model.name},
                                        {"gpu", plan.profile.gpu.id},
                                        {"strategy", to_text(plan.chosen->strategy)},
                                        {"rank", times.rank},
                                        {"kernels", kernels},
                                        {"host", times.host.value()},
                                        {"time", times.time.value()},
                                        {"roofline", times.roofline.value()}})) +
         '\n';
}

}  // namespace reports
