#include "cli/sweep_axes.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "cli/gpu_count.hpp"
#include "cli/number_list.hpp"
#include "planner/strategy/keys.hpp"

namespace cli {
namespace {

// One option or key that varies.
struct Axis {
  std::string name;                    // "precision", "tensor"
  std::optional<std::string>* option = nullptr;  // null: a pin
  std::vector<std::string> values;
};

// Options whose value is a list of its own.
constexpr std::string_view kOwnLists[] = {"--lora-targets"};
// Options that count in k = 1024.
constexpr std::string_view kCounted[] = {"--gpus", "--seq", "--global-batch"};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// "8..64", and not "../site.json".
bool is_range(std::string_view text) {
  const std::size_t dots = text.find("..");
  return dots != std::string_view::npos && is_digit(text.front()) &&
         text.find('/') == std::string_view::npos;
}

core::Result<std::vector<std::string>> values_of(std::string_view text, std::string_view option) {
  if (text.find(';') != std::string_view::npos) return split_list(text, ';');
  if (std::ranges::find(kOwnLists, option) != std::end(kOwnLists))
    return std::vector{std::string(text)};
  const bool counted = std::ranges::find(kCounted, option) != std::end(kCounted);
  const bool named = option == "--gpus" && counted_gpu(text.substr(0, text.find(',')));
  if (named || (!counted && !is_range(text))) return split_list(text, ',');
  const auto numbers = parse_number_list(text, option);
  if (!numbers.ok()) return numbers.problems();
  std::vector<std::string> values;
  for (const std::int64_t n : *numbers) values.push_back(std::to_string(n));
  return values;
}

std::string name_of(std::string_view option) {
  option.remove_prefix(std::min(option.find_first_not_of('-'), option.size()));
  return std::string(option);
}

// A key by the planner's own name for it; another text comes back, and is refused as a pin.
std::string key_name(const std::string& typed) {
  const planner::StrategyKey* key = planner::strategy_key_meant(typed);
  return key == nullptr ? typed : std::string(key->name);
}

core::Result<std::vector<Axis>> axes_of(const std::vector<NamedValue>& named,
                                        const std::vector<std::string>& each) {
  std::vector<Axis> axes;
  core::Problems problems;
  const auto add = [&](Axis axis, std::string_view text, std::string_view option) {
    auto values = values_of(text, option);
    if (!values.ok()) {
      core::append(problems, values);
      return;
    }
    axis.values = std::move(values).value();
    if (axis.values.size() > 1 || axis.option == nullptr) axes.push_back(std::move(axis));
    else if (*axis.option) **axis.option = axis.values.front();  // "2k" is 2048
  };
  for (const NamedValue& n : named)
    if (*n.value) add({name_of(n.name), n.value, {}}, **n.value, n.name);
  for (const std::string& text : each) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos)
      problems.push_back({"--each", "KEY=VALUE,VALUE", fmt::format("\"{}\"", text),
                          "write --each tensor=1,2,4"});
    else
      add({key_name(text.substr(0, equals)), nullptr, {}},
          std::string_view(text).substr(equals + 1), "--each");
  }
  if (!problems.empty()) return problems;
  // Numbers of GPUs beside each other, whatever else varies.
  std::stable_partition(axes.begin(), axes.end(),
                        [](const Axis& axis) { return axis.name != "gpus"; });
  return axes;
}

}  // namespace

core::Result<std::vector<SweepPoint>> sweep_points(PlanOptions& options,
                                                   const std::vector<NamedValue>& named,
                                                   const std::vector<std::string>& each) {
  auto axes = axes_of(named, each);
  if (!axes.ok()) return axes.problems();
  std::size_t count = 1;
  for (const Axis& axis : *axes) count = std::min(count * axis.values.size(), 2 * kMostPoints);
  if (count > kMostPoints)
    return core::Problem{"command line", fmt::format("at most {} points", kMostPoints), "more",
                         "sweep over fewer values"};
  std::vector<SweepPoint> points;
  for (std::size_t i = 0; i < count; ++i) {
    SweepPoint point;
    std::vector<std::string> pins;
    std::size_t rest = i;
    for (auto axis = axes->rbegin(); axis != axes->rend(); ++axis) {
      const std::string& value = axis->values[rest % axis->values.size()];
      rest /= axis->values.size();
      if (axis->option != nullptr) *axis->option = value;
      else pins.push_back(axis->name + '=' + value);
      point.settings.insert(point.settings.begin(), {axis->name, value});
    }
    point.options = options;
    point.options.pins.insert(point.options.pins.end(), pins.begin(), pins.end());
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace cli
