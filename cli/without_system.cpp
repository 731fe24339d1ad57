// The process around a verb where there is none (WebAssembly in a browser): every output is kept
// (kept_output.hpp), the reader reads UTF-8, and the browser itself is the sandbox.

#include "cli/process.hpp"
#include "cli/sandbox.hpp"

namespace cli {

WriteInProgress::WriteInProgress() = default;
WriteInProgress::~WriteInProgress() = default;

int write_stream(Stream, std::string_view) { return 0; }

bool stdout_has_colour() { return false; }
bool stderr_is_terminal() { return false; }
int stdout_columns() { return 0; }
bool locale_is_utf8() { return true; }

void add_sandbox_option(OptionSet&, std::optional<std::string>&) {}
core::Status enter_sandbox(const std::optional<std::string>&,
                           const std::vector<std::optional<std::string>>&) {
  return core::Done{};
}

}  // namespace cli
