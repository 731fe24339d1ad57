#include "reports/logs/profile.hpp"

#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "core/intervals.hpp"
#include "core/json.hpp"

namespace reports::logs {
namespace {

using core::Json;

std::string_view text_of(const Json& event, std::string_view key) {
  const Json* const value = event.find(key);
  return value != nullptr && value->is_string() ? std::string_view(value->as_string())
                                                : std::string_view();
}

std::optional<double> number_of(const Json* value) {
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const double number = value->as_double();
  return std::isfinite(number) && std::abs(number) < 1e18 ? std::optional(number) : std::nullopt;
}

class ProfileReader {
 public:
  explicit ProfileReader(const std::string& name) : name_(name) {
    log_.format = kProfile;
    log_.source = "PyTorch 2.15, torch/profiler/profiler.py: ProfilerStep, export_chrome_trace";
    log_.rate = Rate::seconds;
  }

  void event(const Json& event) {
    const std::string_view category = text_of(event, "cat"), what = text_of(event, "name");
    if (what == "[memory]") return memory(event.find("args"));
    if (text_of(event, "ph") != "X") return;
    const bool step = category == "user_annotation" && what.starts_with("ProfilerStep#");
    if (!step && category != "kernel") return;
    const auto start = number_of(event.find("ts")), length = number_of(event.find("dur"));
    if (!start || !length || *length < 0 || (step && *length == 0)) return refuse(event, what);
    if (step) log_.steps.push_back({event.line(), *length * 1e-6});
    else if (what.find("nccl") != std::string_view::npos)
      exchanges_.push_back({*start, *start + *length});
    else kernels_.push_back({*start, *start + *length});
  }

  core::Result<TrainingLog> ended() && {
    if (!problems_.empty()) return problems_;
    if (log_.steps.empty())
      return core::Problem{name_, "steps (ProfilerStep#N) in traceEvents", "none",
                           "profile with a schedule, and call prof.step() at the end of each step"};
    if (!kernels_.empty()) {
      const double each = 1e-6 / static_cast<double>(log_.steps.size());
      const core::Intervals kernels = core::joined(std::move(kernels_)),
                            exchanges = core::joined(std::move(exchanges_));
      log_.device = {core::Seconds(core::length(kernels) * each),
                     core::Seconds(core::length(exchanges) * each),
                     core::Seconds(core::uncovered(exchanges, kernels) * each)};
    }
    return std::move(log_);
  }

 private:
  // What the allocator of a GPU says, where memory was profiled.
  void memory(const Json* args) {
    constexpr double kGpu = 1;         // c10::DeviceType::CUDA
    if (args == nullptr || !args->is_object()) return;
    if (number_of(args->find("Device Type")) != kGpu) return;
    peak(args->find("Total Allocated"), log_.allocated);
    peak(args->find("Total Reserved"), log_.reserved);
  }

  static void peak(const Json* value, std::optional<core::Bytes>& most) {
    const auto bytes = number_of(value);
    constexpr double kMost = 1e15;
    if (!bytes || *bytes <= 0 || *bytes > kMost) return;
    const core::Bytes here{std::llround(*bytes)};
    if (!most || here > *most) most = here;
  }

  void refuse(const Json& event, std::string_view what) {
    constexpr std::size_t kMost = 20;
    if (problems_.size() < kMost)
      problems_.push_back({fmt::format("{}:{} {}", name_, event.line(), what),
                           "ts and dur in microseconds, dur above 0", "another",
                           "export the trace by prof.export_chrome_trace"});
  }

  const std::string& name_;
  TrainingLog log_;
  core::Problems problems_;
  std::vector<core::Interval> kernels_, exchanges_;  // microseconds
};

}  // namespace

bool is_profile(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' &&
         text.find("\"traceEvents\"") != std::string_view::npos;
}

core::Result<TrainingLog> read_profile(std::string_view text, const std::string& name) {
  const auto root = core::parse_json(text, name);
  if (!root.ok()) return root.problems();
  const Json* const events = root->find("traceEvents");
  ProfileReader reader(name);
  if (events != nullptr && events->is_array())
    for (const Json& event : events->items())
      if (event.is_object()) reader.event(event);
  return std::move(reader).ended();
}

}  // namespace reports::logs
