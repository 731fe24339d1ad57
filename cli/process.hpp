#pragma once
// The process around a verb: exit codes, signals, standard output. Process-wide state; call
// prepare_process() first, from the main thread. Where a thread's output is kept (kept_output.hpp),
// what is written here goes there.

#include <atomic>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace cli {

// Design, command line: 0 done; 1 a valid question whose answer is no; 2 bad input, found before
// work; 3 failed while running; 130 interrupted.
inline constexpr int kDone = 0, kAnswerIsNo = 1, kBadInput = 2, kFailed = 3,
                     kInterrupted = 130;

// Standard streams that are closed are held, so that no file takes their number; a reader that
// left and a file too large are errors of write(), not signals; OPENBLAS_NUM_THREADS is 1 for
// children; SIGINT and SIGTERM end the process with 130 and 143, after a write in progress is whole
// (a second one ends it at once).
void prepare_process();

// While one lives, a signal waits for the end of the write.
class WriteInProgress {
 public:
  WriteInProgress();
  WriteInProgress(const WriteInProgress&) = delete;
  WriteInProgress& operator=(const WriteInProgress&) = delete;
  ~WriteInProgress();
};

// The signal that waits for the end of a write, which a long one looks at; 0: none.
const std::atomic<int>& pending_signal();

enum class Stream : bool { out, error };
// All of the text to a stream of the process; 0 or errno.
int write_stream(Stream stream, std::string_view text);

// All of the text, or a problem of kind failed_running: closed, full, or a reader that left.
core::Status write_stdout(std::string_view text);
// Every line is prefixed "planner: ", and hidden characters are made visible.
void write_reason(std::string_view text);
// A line "note: ..." on standard error.
void write_note(std::string_view text);
// Problems of rows that were left out: the first twenty, and how many more there are.
void write_row_problems(const core::Problems& problems);

bool stdout_has_colour();  // a terminal that is not dumb, and NO_COLOR is not set
bool stderr_is_terminal();
// Columns of the reader: COLUMNS when it is a whole number, else of the terminal that standard
// output is; 0 where neither says.
int stdout_columns();
// Whether LC_ALL, LC_CTYPE or LANG (the first that is set) names UTF-8.
bool locale_is_utf8();

// Folder of the running binary, where its siblings lie, and its name there.
std::string binary_folder();
std::string binary_name();
// The path of a binary beside this one.
std::string sibling(std::string_view name);

}  // namespace cli
