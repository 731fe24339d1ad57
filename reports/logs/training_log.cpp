#include "reports/logs/training_log.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/json.hpp"
#include "reports/logs/execution_trace.hpp"
#include "reports/logs/memory_snapshot.hpp"
#include "reports/logs/pickle.hpp"
#include "reports/logs/profile.hpp"

namespace reports::logs {
namespace {

constexpr double kMebi = 1024.0 * 1024, kGibi = 1024 * kMebi;

// A figure of a line: the text before it, and what its unit is worth.
struct Mark {
  std::string_view before;
  double unit = 1;
};
// before: empty where the format does not print it.
struct Format {
  std::string_view name, source;
  Rate rate{};
  Mark step;
  std::string_view beside;             // another text of the lines that hold the step
  std::string_view never{};            // and one of lines that hold something else
  Mark allocated, reserved, batch;
  bool whole_run = false;
  bool suffixes = false;               // "1.23K"
};

constexpr std::array kFormats{
    Format{.name = "Megatron-LM",
           .source = "NVIDIA/Megatron-LM d98e8a6, megatron/training/training.py (training_log) and "
                     "utils/common_utils.py (report_memory)",
           .rate = Rate::seconds,
           .step = {"elapsed time per iteration (ms): ", 1e-3},
           .beside = "iteration",
           .allocated = {"max allocated: ", kMebi},
           .reserved = {"max reserved: ", kMebi},
           .batch = {"global batch size: "}},
    Format{.name = "torchtitan",
           .source = "pytorch/torchtitan 00fbaaf, torchtitan/components/metrics.py "
                     "(MetricsProcessor.log)",
           .rate = Rate::tokens_per_second_per_gpu,
           .step = {"tps: "},
           .beside = "step: ",
           .never = "validate step: ",
           .allocated = {},
           .reserved = {"memory: ", kGibi},
           .batch = {}},
    Format{.name = "DeepSpeed",
           .source = "deepspeedai/DeepSpeed 038beb6, deepspeed/utils/timer.py "
                     "(ThroughputTimer.stop)",
           .rate = Rate::samples_per_second,
           .step = {"CurrSamplesPerSec="},
           .beside = "global_step=",
           .allocated = {"MaxMemAllocated=", kGibi},
           .reserved = {},
           .batch = {}},
    Format{.name = "nanotron",
           .source = "huggingface/nanotron a5f8fb1, src/nanotron/trainer.py (train_step_logs) and "
                     "logging/base.py (human_format, log_memory)",
           .rate = Rate::seconds,
           .step = {"elapsed_time_per_iteration_ms: ", 1e-3},
           .beside = "iteration: ",
           .allocated = {"Peak allocated ", kMebi},
           .reserved = {"Peak reserved: ", kMebi},
           .batch = {"global_batch_size: "},
           .suffixes = true},
    Format{.name = "Hugging Face Trainer",
           .source = "huggingface/transformers 007360d, src/transformers/trainer_utils.py "
                     "(speed_metrics)",
           .rate = Rate::samples_per_second,
           .step = {"train_samples_per_second"},
           .beside = "train_runtime",
           .allocated = {},
           .reserved = {},
           .batch = {},
           .whole_run = true},
};

// Without the colours that a terminal is told.
std::string without_colours(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      const std::size_t end = line.find_first_of("mKHJ", i);
      if (end == std::string_view::npos) break;
      i = end;
    } else if (line[i] != '\r') {
      plain += line[i];
    }
  }
  return plain;
}

constexpr std::string_view kSuffixes = "KMBTP";

// The word of a figure: up to what cannot be of a number. "MiB" is no suffix.
std::string_view word_at(std::string_view text, bool suffixes) {
  constexpr std::string_view kBefore = "'\": ";  // of a dictionary
  text.remove_prefix(std::min(text.find_first_not_of(kBefore), text.size()));
  std::size_t end = text.find_first_not_of("0123456789.,+-eEnaifNAIF");
  end = std::min(end, text.size());
  const bool alone =
      end + 1 >= text.size() || std::isalpha(static_cast<unsigned char>(text[end + 1])) == 0;
  if (suffixes && end < text.size() && alone &&
      kSuffixes.find(text[end]) != std::string_view::npos)
    return text.substr(0, end + 1);
  while (end > 0 && (text[end - 1] == ',' || text[end - 1] == '.')) --end;
  return text.substr(0, end);
}

std::optional<double> parsed(std::string_view word, bool suffixes) {
  double factor = 1;
  if (suffixes && !word.empty() && kSuffixes.find(word.back()) != std::string_view::npos) {
    factor = std::pow(1000.0, 1 + static_cast<double>(kSuffixes.find(word.back())));
    word.remove_suffix(1);
  }
  std::string digits(word);
  std::erase(digits, ',');
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty())
    return std::nullopt;
  return value * factor;
}

class Reader {
 public:
  Reader(const Format& format, const std::string& name) : format_(format), name_(name) {
    log_.format = format.name;
    log_.source = format.source;
    log_.rate = format.rate;
    log_.whole_run = format.whole_run;
  }

  void line(std::string_view text, int number) {
    line_ = number;
    const auto has = [&](std::string_view part) {
      return !part.empty() && text.find(part) != std::string_view::npos;
    };
    if (has(format_.never)) return;
    const bool step = has(format_.beside);
    if (step)
      if (const auto value = figure(text, format_.step))
        log_.steps.push_back({number, *value});
    if (step && !format_.batch.before.empty())
      if (const auto batch = figure(text, format_.batch)) take_batch(std::llround(*batch));
    peak(text, format_.allocated, log_.allocated);
    peak(text, format_.reserved, log_.reserved);
  }

  const TrainingLog& log() const { return log_; }
  const core::Problems& problems() const { return problems_; }

 private:
  // Above 0 and finite, else a problem; nothing where the line does not have it.
  std::optional<double> figure(std::string_view text, const Mark& mark) {
    if (mark.before.empty()) return std::nullopt;
    const std::size_t at = text.find(mark.before);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view word = word_at(text.substr(at + mark.before.size()),
                                           format_.suffixes);
    const auto value = parsed(word, format_.suffixes);
    if (value && std::isfinite(*value) && *value > 0) return *value * mark.unit;
    constexpr std::size_t kMost = 20;
    if (problems_.size() < kMost)
      problems_.push_back({fmt::format("{}:{} {}", name_, line_, mark.before),
                           "a number above 0", fmt::format("\"{}\"", word),
                           "leave the line out if it is no measurement"});
    return std::nullopt;
  }

  void peak(std::string_view text, const Mark& mark, std::optional<core::Bytes>& most) {
    const auto bytes = figure(text, mark);
    constexpr double kMost = 1e15;
    if (!bytes || *bytes > kMost) return;
    const core::Bytes here{std::llround(*bytes)};
    if (!most || here > *most) most = here;
  }

  void take_batch(std::int64_t batch) {
    if (log_.global_batch && *log_.global_batch != batch && !changed_) {
      changed_ = true;
      problems_.push_back({fmt::format("{}:{} {}", name_, line_, format_.batch.before),
                           fmt::format("{}, as the lines before", *log_.global_batch),
                           std::to_string(batch),
                           "keep the part of the log with one global batch"});
    }
    if (!log_.global_batch) log_.global_batch = batch;
  }

  const Format& format_;
  const std::string& name_;
  TrainingLog log_;
  core::Problems problems_;
  int line_ = 0;
  bool changed_ = false;
};

// transformers' trainer_state.json: what the last lines of a run say, as JSON.
core::Result<TrainingLog> read_trainer_state(std::string_view text, const std::string& name) {
  const auto root = core::parse_json(text, name);
  if (!root.ok()) return root.problems();
  const Format& format = kFormats.back();
  const core::Json* const history = root->find("log_history");
  Reader reader(format, name);
  if (history != nullptr && history->is_array())
    for (const core::Json& entry : history->items())
      if (const core::Json* const speed = entry.find(format.step.before))
        reader.line(fmt::format("{} {}: {}", format.beside, format.step.before,
                                core::dump(*speed, 0)), speed->line());
  if (!reader.problems().empty()) return reader.problems();
  if (reader.log().steps.empty())
    return core::Problem{name, fmt::format("{} in log_history", format.step.before), "none",
                         "the run must have ended: it is written there at the end"};
  return reader.log();
}

bool is_trainer_state(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' &&
         text.find("\"log_history\"") != std::string_view::npos;
}

}  // namespace

core::Result<TrainingLog> read_log(std::string_view text, const std::string& name) {
  if (text.starts_with("\x1f\x8b"))
    return core::Problem{name, "text", "a gzip archive", "unpack it (gunzip)"};
  if (is_execution_trace(name)) return read_execution_trace(text, name);
  if (is_pickle(text)) return read_snapshot(text, name);
  if (is_trainer_state(text)) return read_trainer_state(text, name);
  if (is_profile(text)) return read_profile(text, name);
  std::vector<Reader> readers;
  for (const Format& format : kFormats) readers.emplace_back(format, name);
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = without_colours(text.substr(at, end - at));
    at = end + 1;
    ++number;
    for (Reader& reader : readers) reader.line(line, number);
  }
  // A figure that cannot be is a line of its format, too.
  const auto lines = [](const Reader& r) { return r.log().steps.size() + r.problems().size(); };
  const auto best = std::ranges::max_element(readers, {}, lines);
  if (lines(*best) == 0) {
    std::vector<std::string_view> names;
    for (const Format& format : kFormats) names.push_back(format.name);
    return core::Problem{name,
                         fmt::format("lines of {}, a profile of torch.profiler, a snapshot of "
                                     "torch.cuda.memory or a Chakra trace (.et)",
                                     fmt::join(names, ", ")),
                         "none of them", "name the log of rank 0, as the framework prints it"};
  }
  if (!best->problems().empty()) return best->problems();
  if (best->log().steps.empty())
    return core::Problem{name, fmt::format("steps of {}", best->log().format), "none", ""};
  return best->log();
}

}  // namespace reports::logs
