#include "cli/output.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "cli/kept_output.hpp"
#include "cli/process.hpp"
#include "core/file.hpp"
#include "core/parse_units.hpp"

namespace cli {

void add_output_options(OptionSet& options, OutputOptions& output, std::string_view file) {
  options.group("Output");
  options.flag("--json", output.json, "print JSON on standard output, and nothing else there");
  options.text("--out", output.out, "FILE",
               fmt::format("write {} to FILE, completely or not at all", file));
  options.text("--seed", output.seed, "N", "seed of everything random (1)");
  options.flag("--quiet", output.quiet, "no progress on standard error");
}

core::Status check_output(const OutputOptions& output) {
  core::Problems problems;
  whole_number(output.seed, "--seed", 0, problems);
  if (output.out)
    if (const core::Status status = core::check_writable(*output.out); !status.ok())
      for (core::Problem p : status.problems()) {
        p.where = "--out " + p.where;
        problems.push_back(std::move(p));
      }
  if (problems.empty()) return core::Done{};
  return problems;
}

core::Status deliver(const OutputOptions& output, std::string_view machine_form,
                     const std::function<std::string()>& page) {
  const WriteInProgress whole;
  if (output.out) {
    const core::Status written = core::write_atomically(*output.out, machine_form);
    if (!written.ok()) return written;
  }
  if (!output.json) return write_stdout(page());
  if (KeptOutput* kept = kept_output()) kept->page = page();
  return write_stdout(machine_form);
}

// Empty: output is not kept, or nobody asks, or quiet.
static std::function<void(std::string_view)> kept_progress(bool quiet) {
  const KeptOutput* kept = kept_output();
  return kept == nullptr || quiet ? nullptr : kept->progress;
}

ProgressLine::ProgressLine(bool quiet)
    : told_(kept_progress(quiet)), wanted_(!quiet && stderr_is_terminal()) {}

void ProgressLine::show(std::string_view text) {
  if (told_) told_(text);
  if (!wanted_) return;
  shown_ = true;
  std::string line;  // a file's name may hold anything
  for (const char c : text.substr(0, 70)) line += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  fmt::print(stderr, "\r\033[K{}", line);
}

void ProgressLine::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

reports::TextStyle page_style() {
  const int columns = stdout_columns();
  return {.colour = stdout_has_colour(),
          .unicode = locale_is_utf8(),
          .width = columns == 0 ? reports::kWidth
                                : std::clamp(columns, reports::kMinWidth, reports::kMaxWidth)};
}

std::string next_text(const std::vector<reports::NextStep>& steps) {
  return reports::next_steps_text(steps, page_style());
}

std::function<void(std::string_view)> progress_on_terminal(bool quiet) {
  if (auto told = kept_progress(quiet)) return told;
  if (quiet || !stderr_is_terminal()) return {};
  return [](std::string_view done) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(done.size()), done.data());
  };
}

int refuse(const core::Problems& problems) {
  write_reason(core::to_text(problems));
  return core::exit_code(problems);
}

std::optional<int> ended_by(OptionSet& options, Arguments arguments) {
  const auto parsed = options.parse(arguments);
  if (!parsed.ok()) return refuse(parsed.problems());
  if (!parsed.value()) return std::nullopt;
  const core::Status shown = write_stdout(*parsed.value());
  return shown.ok() ? kDone : refuse(shown.problems());
}

std::optional<std::int64_t> whole_number(const std::optional<std::string>& text,
                                         std::string_view option, std::int64_t low,
                                         core::Problems& problems) {
  if (!text) return std::nullopt;
  const core::Result<std::int64_t> value = core::parse_count(*text, option);
  if (value.ok() && *value >= low) return *value;
  problems.push_back({std::string(option), fmt::format("an integer >= {}", low),
                      fmt::format("\"{}\"", *text),
                      value.ok() ? "" : "write it as 4096, 500B or 1.5T"});
  return std::nullopt;
}

int thread_count(const std::optional<std::string>& text, core::Problems& problems) {
  constexpr std::int64_t kMostThreads = 1024;
  const auto asked = whole_number(text, "--threads", 1, problems).value_or(0);
  return static_cast<int>(std::min(asked, kMostThreads));
}

}  // namespace cli
