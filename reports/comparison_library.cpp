#include "reports/comparison_library.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

namespace reports {
namespace {

using program::LibraryCalls;
using Calls = std::vector<LibraryCalls>;
using Value = std::optional<double>;

template <class Number>
Value sum(const Calls& calls, Number number) {
  if (calls.empty()) return std::nullopt;
  double total = 0;
  for (const LibraryCalls& c : calls) total += static_cast<double>(number(c));
  return total;
}

std::map<std::string, double> counts_by(const Calls& calls, std::string LibraryCalls::* name) {
  std::map<std::string, double> counts;
  for (const LibraryCalls& c : calls) counts[c.*name] += static_cast<double>(c.count);
  return counts;
}

Value channels(const Calls& calls) {
  if (calls.empty()) return std::nullopt;
  return std::ranges::max(calls, {}, &LibraryCalls::channels).channels;
}

std::string counted(std::int64_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

// "12 calls by ring, ll128, 24 channels".
std::string words(const Calls& calls) {
  std::string text;
  for (const LibraryCalls& c : calls)
    text += fmt::format("{}{} by {}, {}, {}", text.empty() ? "" : "; ", counted(c.count, "call"),
                        c.algorithm, c.protocol, counted(c.channels, "channel"));
  return text;
}

// Whether both run as many calls in each way. Sizes stand in terms of their own.
bool alike(Calls a, Calls b) {
  const auto kind = [](const LibraryCalls& c) {
    return std::tie(c.algorithm, c.protocol, c.channels, c.count);
  };
  const auto order = [&](const LibraryCalls& x, const LibraryCalls& y) {
    return kind(x) < kind(y);
  };
  std::ranges::sort(a, order);
  std::ranges::sort(b, order);
  return std::ranges::equal(a, b, {}, kind, kind);
}

}  // namespace

void add_library(const std::string& key, const Calls& planned, const Calls& ran,
                 Comparison& comparison) {
  if (ran.empty()) return;
  const std::string prefix = "communication." + key + ".nccl.";
  const auto add = [&](std::string_view name, TermUnit unit, Value predicted, Value measured,
                       bool assumed) {
    comparison.terms.push_back(
        {.term = fmt::format("{}{}", prefix, name), .unit = unit, .predicted = predicted,
         .measured = measured, .assumed = assumed});
  };
  const auto count = [](const LibraryCalls& c) { return c.count; };
  const auto payload = [](const LibraryCalls& c) { return c.payload.value(); };
  // Without an assumption the plan says nothing of these.
  add("count", TermUnit::count, sum(planned, count), sum(ran, count), planned.empty());
  add("payload_bytes", TermUnit::bytes, sum(planned, payload), sum(ran, payload),
      planned.empty());
  for (const auto name : {&LibraryCalls::algorithm, &LibraryCalls::protocol}) {
    const auto assumed = counts_by(planned, name), measured = counts_by(ran, name);
    std::map<std::string, double> all = assumed;
    all.insert(measured.begin(), measured.end());
    for (const auto& entry : all) {
      const std::string& word = entry.first;
      const auto of = [&](const auto& counts) {
        const auto at = counts.find(word);
        return at == counts.end() ? 0.0 : at->second;
      };
      add(word + ".count", TermUnit::count,
          planned.empty() ? Value() : Value(of(assumed)), of(measured), true);
    }
  }
  add("channels", TermUnit::count, channels(planned), channels(ran), true);
  if (!planned.empty() && !alike(planned, ran))
    comparison.library.push_back(fmt::format("{}: expected NCCL to run {}; it ran {}.", key,
                                             words(planned), words(ran)));
}

}  // namespace reports
