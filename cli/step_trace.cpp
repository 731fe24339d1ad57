#include "cli/step_trace.hpp"

#include <array>

#include "core/file.hpp"

namespace cli {
namespace {

using StepTraceOption = std::pair<const char*, const std::optional<std::string>*>;

std::array<StepTraceOption, 5> named(const StepTraceWords& w) {
  return {{{"--trace", &w.file},
           {"--trace-format", &w.format},
           {"--detail", &w.detail},
           {"--ranks", &w.ranks},
           {"--micro-batches", &w.micro_batches}}};
}

// The format that is named, else the one that the file's name says.
program::TraceFormat format_of(const StepTraceWords& words, core::Problems& problems) {
  if (words.format && *words.format != "json" && *words.format != "perfetto")
    problems.push_back({"--trace-format", "json or perfetto", '"' + *words.format + '"', ""});
  const bool packets = words.format ? *words.format == "perfetto"
                                    : words.file->ends_with(".pftrace") ||
                                          words.file->ends_with(".perfetto-trace");
  return packets ? program::TraceFormat::perfetto : program::TraceFormat::json;
}

std::optional<program::IndexRanges> ranges_of(const std::optional<std::string>& text,
                                              std::string_view option, core::Problems& problems) {
  if (!text) return std::nullopt;
  core::Result<program::IndexRanges> ranges = program::parse_index_ranges(*text, option);
  if (ranges.ok()) return std::move(ranges).value();
  core::append(problems, ranges);
  return std::nullopt;
}

}  // namespace

std::vector<std::string> StepTraceWords::given() const {
  std::vector<std::string> names;
  for (const auto& [name, word] : named(*this))
    if (*word) names.emplace_back(name);
  return names;
}

std::vector<std::string> StepTraceWords::words() const {
  std::vector<std::string> words;
  for (const auto& [name, word] : named(*this))
    if (*word) words.insert(words.end(), {name, **word});
  return words;
}

void add_step_trace_options(OptionSet& set, StepTraceWords& words, std::string_view what) {
  set.group("Trace for ui.perfetto.dev (by default as much as a browser opens)");
  set.text("--trace", words.file, "FILE", what);
  set.text("--trace-format", words.format, "FORMAT",
           "json, or perfetto: binary and far smaller (default where FILE ends in .pftrace)");
  set.text("--detail", words.detail, "WHAT", "slices of the trace: block (default) or op");
  set.text("--ranks", words.ranks, "N,N-N,...", "show these ranks, or all");
  set.text("--micro-batches", words.micro_batches, "N..N", "show these micro-batches, or all");
}

std::optional<StepTrace> read_step_trace(const StepTraceWords& words, core::Problems& problems) {
  if (!words.file) {
    for (const std::string& name : words.given())
      problems.push_back({name, "--trace FILE beside it", "none", "write --trace step.json"});
    return std::nullopt;
  }
  if (words.detail && *words.detail != "block" && *words.detail != "op")
    problems.push_back({"--detail", "block or op", '"' + *words.detail + '"', ""});
  StepTrace trace;
  trace.every_action = words.detail == "op";
  trace.choice.format = format_of(words, problems);
  trace.choice.most_bytes = program::kBrowserBytes;
  trace.choice.ranks = ranges_of(words.ranks, "--ranks", problems);
  trace.choice.micro_batches = ranges_of(words.micro_batches, "--micro-batches", problems);
  if (const core::Status target = core::check_writable(*words.file); !target.ok())
    core::append(problems, target);
  return trace;
}

}  // namespace cli
