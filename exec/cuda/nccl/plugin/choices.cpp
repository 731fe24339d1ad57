#include "exec/cuda/nccl/plugin/choices.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <utility>

#include "exec/cuda/nccl/plugin/abi.hpp"

namespace exec::cuda::nccl {
namespace {

constexpr std::array<std::pair<const char*, int>, 4> kFunctions{{{"broadcast", kBroadcastCall},
                                                                 {"all_gather", kAllGatherCall},
                                                                 {"reduce_scatter",
                                                                  kReduceScatterCall},
                                                                 {"all_reduce", kAllReduceCall}}};

std::optional<int> index_of(std::span<const char* const> names, std::string_view name) {
  const auto at = std::ranges::find_if(names, [&](const char* n) { return name == n; });
  if (at == names.end()) return std::nullopt;
  return static_cast<int>(at - names.begin());
}

std::optional<std::int64_t> number_from(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0) return std::nullopt;
  return value;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; (at = line.find_first_not_of(' ', at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

std::optional<Choice> choice_from(const std::vector<std::string_view>& words) {
  if (words.size() != 6) return std::nullopt;
  const auto function = function_from_name(words[0]);
  const auto ranks = number_from(words[1]), bytes = number_from(words[2]);
  const auto algorithm = algorithm_from_name(words[3]);
  if (!function || !ranks || !bytes || !algorithm) return std::nullopt;
  Choice c{*function, static_cast<int>(*ranks), *bytes, *algorithm, {}, {}};
  if (words[4] != "auto") {
    c.protocol = protocol_from_name(words[4]);
    if (!c.protocol) return std::nullopt;
  }
  if (words[5] != "auto") {
    const auto channels = number_from(words[5]);
    if (!channels) return std::nullopt;
    c.channels = static_cast<int>(*channels);
  }
  return c;
}

}  // namespace

std::optional<int> function_from_name(std::string_view name) {
  for (const auto& [text, function] : kFunctions)
    if (name == text) return function;
  return std::nullopt;
}

std::optional<int> algorithm_from_name(std::string_view name) {
  return index_of(kAlgorithmNames, name);
}

std::optional<int> protocol_from_name(std::string_view name) {
  return index_of(kProtocolNames, name);
}

std::string to_text(const std::vector<Choice>& choices) {
  std::string text;
  for (const Choice& c : choices) {
    for (const auto& [name, function] : kFunctions)
      if (function == c.function) text += name;
    text += ' ' + std::to_string(c.ranks) + ' ' + std::to_string(c.bytes) + ' ' +
            kAlgorithmNames[c.algorithm] + ' ' +
            (c.protocol ? kProtocolNames[*c.protocol] : "auto") + ' ' +
            (c.channels ? std::to_string(*c.channels) : "auto") + '\n';
  }
  return text;
}

std::optional<std::vector<Choice>> choices_from(std::string_view text, int& wrong) {
  std::vector<Choice> choices;
  for (wrong = 1; !text.empty(); ++wrong) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const auto words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    const auto choice = choice_from(words);
    if (!choice) return std::nullopt;
    choices.push_back(*choice);
  }
  return choices;
}

const Choice* choose(const std::vector<Choice>& choices, int function, int ranks,
                     std::int64_t bytes) {
  const auto far = [&](const Choice& c) {
    return std::abs(std::log(static_cast<double>(c.bytes)) -
                    std::log(static_cast<double>(std::max<std::int64_t>(bytes, 1))));
  };
  const Choice* nearest = nullptr;
  for (const Choice& c : choices) {
    if (c.function != function || c.ranks != ranks) continue;
    if (nearest == nullptr || far(c) < far(*nearest)) nearest = &c;
  }
  return nearest;
}

bool apply(const Choice& choice, float* costs, int algorithms, int protocols) {
  if (choice.algorithm >= algorithms) return false;
  float* const row = costs + static_cast<std::ptrdiff_t>(choice.algorithm) * protocols;
  int best = -1;
  for (int p = 0; p < protocols; ++p) {
    if (row[p] == kIgnored || (choice.protocol && *choice.protocol != p)) continue;
    if (best < 0 || row[p] < row[best]) best = p;
  }
  if (best < 0) return false;
  row[best] = 0;
  return true;
}

}  // namespace exec::cuda::nccl
