#include <algorithm>
#include <cstring>
#include <string>

#include "cli/kept_output.hpp"
#include "cli/process.hpp"
#include "core/untrusted.hpp"

namespace cli {

core::Status write_stdout(std::string_view text) {
  if (KeptOutput* kept = kept_output()) {
    kept->out += text;
    return core::Done{};
  }
  if (const int error = write_stream(Stream::out, text))
    return core::Problem{"standard output", "to take the whole output", std::strerror(error), "",
                         core::ProblemKind::failed_running};
  return core::Done{};
}

// To standard error. Nobody is left to tell when this fails.
static void write_lines(std::string_view lines) {
  if (KeptOutput* kept = kept_output()) kept->reasons += lines;
  else write_stream(Stream::error, lines);
}

void write_reason(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (kept_output() == nullptr) lines += "planner: ";
    lines.append(core::visible(text.substr(0, end))).append(1, '\n');
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  write_lines(lines);
}

void write_note(std::string_view text) { write_lines("note: " + core::visible(text) + '\n'); }

void write_row_problems(const core::Problems& problems) {
  constexpr std::size_t kShown = 20;
  for (std::size_t i = 0; i < std::min(problems.size(), kShown); ++i)
    write_reason(core::to_text(problems[i]));
  if (problems.size() > kShown)
    write_reason(std::to_string(problems.size() - kShown) + " more problems of rows");
}

}  // namespace cli
