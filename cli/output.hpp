#pragma once
// Output: what every verb takes (--json, --out, --seed, --quiet) and where its answer goes.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/option_set.hpp"
#include "core/result.hpp"
#include "reports/next_steps.hpp"
#include "reports/text.hpp"

namespace cli {

struct OutputOptions {
  bool json = false;
  bool quiet = false;
  std::optional<std::string> out;
  std::optional<std::string> seed;
};

void add_output_options(OptionSet& options, OutputOptions& output, std::string_view file);

// Before work starts: whether --seed is a whole number and --out can be written, if given.
core::Status check_output(const OutputOptions& output);

// The machine form goes to --out, and to standard output with --json; the page goes to standard
// output without it. The file first: a reader of the page finds it whole.
core::Status deliver(const OutputOptions& output, std::string_view machine_form,
                     const std::function<std::string()>& page);

// One line on standard error, written over as work goes on; nothing where that is no terminal or
// --quiet was given. clear() before anything else is printed. Where output is kept, its progress is
// told instead.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(std::string_view text);
  void clear();

 private:
  std::function<void(std::string_view)> told_;
  bool wanted_, shown_ = false;
};

// How pages look to the reader of standard output: the width of the terminal (COLUMNS wins; 80
// where nobody says; held to what a page can use), colour and block characters where they show.
reports::TextStyle page_style();

// The end of a page: what to type next.
std::string next_text(const std::vector<reports::NextStep>& steps);

// Tells what is done, a line each, on a standard error that is a terminal or where output is kept;
// else, or if quiet, none.
std::function<void(std::string_view)> progress_on_terminal(bool quiet);

// Says why on standard error, one line each, and gives the exit code.
int refuse(const core::Problems& problems);

// What the verb's --help or a mistaken command line ends with; empty: go on.
std::optional<int> ended_by(OptionSet& options, Arguments arguments);

// A whole number >= low of an option that was given; problems name the option.
std::optional<std::int64_t> whole_number(const std::optional<std::string>& text,
                                         std::string_view option, std::int64_t low,
                                         core::Problems& problems);

// Of --threads: 0 where it was not given, which means all there are.
int thread_count(const std::optional<std::string>& text, core::Problems& problems);

}  // namespace cli
