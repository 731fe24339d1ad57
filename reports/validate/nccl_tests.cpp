#include "reports/validate/nccl_tests.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/read_number.hpp"
#include "reports/validate/collective_row.hpp"
#include "reports/validate/collectives.hpp"

namespace reports::validation {
namespace {

constexpr std::int64_t kMostTimedBytes = std::int64_t{1} << 44;

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != line.npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

std::size_t index_of(const std::vector<std::string_view>& words, std::string_view wanted) {
  return static_cast<std::size_t>(std::ranges::find(words, wanted) - words.begin());
}

// "#  Rank  0 Group  0 Pid 24365 on ip-10-0-0-1 device  0 [0x10] NVIDIA A100-SXM4-80GB"
struct Ranks {
  std::map<std::string, int, std::less<>> by_host;
  std::string gpu;

  void read(const std::vector<std::string_view>& words) {
    const std::size_t on = index_of(words, "on"), device = index_of(words, "device");
    if (words.size() < 3 || words[1] != "Rank" || on + 1 >= words.size()) return;
    ++by_host[std::string(words[on + 1])];
    gpu.clear();
    for (std::size_t i = device + 3; i < words.size(); ++i)
      gpu += (gpu.empty() ? "" : " ") + std::string(words[i]);
  }
  int count() const {
    int sum = 0;
    for (const auto& [host, ranks] : by_host) sum += ranks;
    return sum;
  }
  bool even() const {
    for (const auto& [host, ranks] : by_host)
      if (ranks != by_host.begin()->second) return false;
    return !by_host.empty();
  }
};

// size count type redop root, then time algbw busbw #wrong out of place and in place; older
// releases, and some programs, leave out redop or root, so columns are counted from the end.
std::optional<core::Problem> read_row(const std::vector<std::string_view>& words,
                                      const std::string& where, Timing& timing) {
  constexpr std::size_t kHalf = 4, kLeast = 3 + 2 * kHalf;
  const auto bytes = core::number_in<std::int64_t>(words[0]);
  if (words.size() < kLeast || !bytes || *bytes < 0 || *bytes > kMostTimedBytes)
    return core::Problem{where, "a row of nccl-tests: size, count, type, ..., two times", "another",
                         ""};
  const auto time = core::number_in<double>(words[words.size() - 2 * kHalf]);
  const std::string_view wrong = words[words.size() - kHalf - 1];
  if (!time || !(*time > 0))
    return core::Problem{where, "a time in microseconds",
                         std::string(words[words.size() - 2 * kHalf]), ""};
  if (wrong != "0" && wrong != "N/A")
    return core::Problem{where, "no wrong values", std::string(wrong) + " of them",
                         "collectives that compute wrong values are not worth timing"};
  timing.bytes = core::Bytes(*bytes);
  timing.time = core::Seconds(*time * 1e-6);
  return std::nullopt;
}

std::string_view name_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

core::Result<TimedCollectives> read_output(std::string_view text, std::string_view file) {
  TimedCollectives out;
  Ranks ranks;
  std::optional<Pattern> pattern;
  core::Problems problems;
  int line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::vector<std::string_view> words = words_of(text.substr(at, end - at));
    at = end + 1;
    ++line_number;
    if (words.empty()) continue;
    if (words[0].front() == '#') {
      ranks.read(words);
      if (const std::size_t i = index_of(words, "starting:"); i + 1 < words.size())
        pattern = pattern_called(words[i + 1]);
      continue;
    }
    if (!core::number_in<std::int64_t>(words[0])) continue;  // what a launcher or NCCL_DEBUG prints
    Timing timing;
    if (auto bad = read_row(words, fmt::format("{}:{}", file, line_number), timing))
      problems.push_back(*std::move(bad));
    else if (timing.bytes.value() > 0)
      out.timings.push_back(timing);
  }
  if (!problems.empty()) return problems;
  if (!pattern) pattern = pattern_called(name_of(file));
  const std::string where(file);
  if (!pattern)
    return core::Problem{where, "the name of a collective", "none in the output",
                         "begin the file's name with it: one of " + pattern_names()};
  if (!ranks.even())
    return core::Problem{where,
                         "a line \"# Rank ... on HOST device ...\" for each rank, as many on each "
                         "host",
                         fmt::format("{} ranks on {} hosts", ranks.count(), ranks.by_host.size()),
                         "keep the first lines that nccl-tests print"};
  if (ranks.count() < 2)
    return core::Problem{where, "at least two ranks", "one", "-g 8, or mpirun"};
  if (out.timings.empty())
    return core::Problem{where, "a row of nccl-tests for each size", "none", ""};
  for (Timing& t : out.timings) {
    t.pattern = *pattern;
    t.gpus = ranks.count();
    t.nodes = static_cast<int>(ranks.by_host.size());
  }
  out.gpu = ranks.gpu;
  return out;
}

core::Result<TimedCollectives> read_csv(std::string_view text, std::string_view file) {
  TimedCollectives out;
  const core::Result<core::CsvTable> table = core::parse_csv(text, file, &out.problems);
  if (!table.ok()) return table.problems();
  core::Problems missing;
  if (!table->require_columns({"n_gpus", "nodes", "collective", "bytes"}, missing)) return missing;
  for (const core::CsvRow& cells : table->rows()) {
    Timing timing;
    const auto reason = read_timing(cells, timing, out.problems);
    if (reason && !reason->empty())
      out.problems.push_back({fmt::format("{}:{}", file, cells.line()), "a timing of a collective",
                              "a row that " + *reason, ""});
    if (!reason) out.timings.push_back(timing);
    out.gpu = cells.text("gpu");
  }
  if (out.timings.empty())
    return core::Problem{std::string(file), "at least one timing", "none",
                         out.problems.empty() ? "" : core::to_text(out.problems.front())};
  return out;
}

}  // namespace

core::Result<TimedCollectives> read_timed_collectives(std::string_view text,
                                                      std::string_view file) {
  return holds_collectives(text) ? read_csv(text, file) : read_output(text, file);
}

}  // namespace reports::validation
