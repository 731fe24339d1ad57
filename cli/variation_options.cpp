#include "cli/variation_options.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/number_list.hpp"

namespace cli {
namespace {

constexpr double kMostSlowdown = 1000;
constexpr std::int64_t kMostLasting = 100'000;

using Pairs = std::vector<std::pair<std::string, std::string>>;

bool has(const Pairs& pairs, std::string_view key) {
  return std::ranges::find(pairs, key, &Pairs::value_type::first) != pairs.end();
}

// "a=1,b=2", in order; empty: a part without '=', or a key twice.
std::optional<Pairs> pairs_of(const std::string& text) {
  Pairs pairs;
  for (const std::string& part : split_list(text)) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos || has(pairs, part.substr(0, equals))) return std::nullopt;
    pairs.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  return pairs;
}

// A number of the key, within limits.
std::optional<double> number_in(const std::string& text, double low, double high) {
  const auto value = parse_decimal(text);
  return value && *value >= low && *value <= high ? value : std::nullopt;
}

// The random kind that `text` states, whose other key is `effect`.
std::optional<planner::RandomSlow> read_kind(const std::string& text, const char* effect,
                                             double low, double high) {
  const auto pairs = pairs_of(text);
  if (!pairs || !has(*pairs, effect)) return std::nullopt;
  planner::RandomSlow kind;
  for (const auto& [key, value] : *pairs) {
    std::optional<double> number;
    if (key == "random")
      number = parse_share(value);
    else if (key == effect)
      number = number_in(value, low, high);
    else if (key == "steps") {
      const auto steps = parse_number(value);
      if (steps && *steps <= kMostLasting) number = static_cast<double>(*steps);
    }
    if (!number) return std::nullopt;
    if (key == "random") kind.probability = *number;
    if (key == "steps") kind.steps = static_cast<std::int64_t>(*number);
    if (key == "slowdown") kind.slowdown = *number;
    if (key == "share") kind.link_share = *number;
  }
  return kind;
}

// "1%x1.2": how likely, and how much.
std::optional<planner::RandomSlow> read_likely(const std::string& text, bool links) {
  const std::size_t by = text.find('x');
  if (by == std::string::npos) return std::nullopt;
  const auto likely = parse_share(text.substr(0, by));
  const auto effect = links ? number_in(text.substr(by + 1), 0.001, 1)
                            : number_in(text.substr(by + 1), 1, kMostSlowdown);
  if (!likely || !effect) return std::nullopt;
  planner::RandomSlow kind;
  kind.probability = *likely;
  (links ? kind.link_share : kind.slowdown) = *effect;
  return kind;
}

// One KEY=VALUE of --robust; false: it is none.
bool read_robust_item(const std::string& key, const std::string& value,
                      planner::RobustOptions& o) {
  if (key == "stragglers" || key == "links") {
    const auto kind = read_likely(value, key == "links");
    if (kind) o.random.push_back(*kind);
    return kind.has_value();
  }
  if (key == "quantile") {
    const auto q = parse_share(value);
    if (q && *q > 0) o.quantile = *q;
    return q && *q > 0;
  }
  if (key != "scenarios") return false;
  const auto count = parse_number(value);
  if (!count || *count > 100'000) return false;
  o.scenarios = *count;
  return true;
}

}  // namespace

std::optional<planner::RandomSlow> read_random_straggler(const std::string& text,
                                                         core::Problems& problems) {
  const auto kind = read_kind(text, "slowdown", 1, kMostSlowdown);
  if (!kind)
    problems.push_back({"--straggler", "random=SHARE,slowdown=X[,steps=N] with X from 1 to 1000",
                        '"' + text + '"', "write --straggler random=1%,slowdown=1.2,steps=50"});
  return kind;
}

std::optional<planner::RandomSlow> read_random_link(const std::string& text,
                                                    core::Problems& problems) {
  const auto kind = read_kind(text, "share", 0.001, 1);
  if (!kind)
    problems.push_back({"--link-down", "random=SHARE,share=X[,steps=N] with X from 0.001 to 1",
                        '"' + text + '"', "write --link-down random=0.1%,share=0.5,steps=20"});
  return kind;
}

std::optional<planner::RobustOptions> read_robust(const std::optional<std::string>& text,
                                                  core::Problems& problems) {
  if (!text) return std::nullopt;
  planner::RobustOptions o;
  o.random.clear();
  const auto pairs = pairs_of(*text);
  bool right = pairs.has_value();
  if (right)
    for (const auto& [key, value] : *pairs) right = right && read_robust_item(key, value, o);
  if (right && !o.random.empty()) return o;
  problems.push_back({"--robust",
                      "stragglers=SHARExSLOWDOWN or links=SHARExSHARE, or both, and if you like "
                      "quantile=0.95,scenarios=200",
                      '"' + *text + '"', "write --robust stragglers=1%x1.2,links=0.1%x0.5"});
  return std::nullopt;
}

}  // namespace cli
