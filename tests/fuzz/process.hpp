#pragma once
// The real binary on input that may be anything: run under limits, and judged by how it ended.
// Uses fork, files in the current folder and the clock; not thread-safe.

#include <string>
#include <vector>

namespace fuzz {

using Words = std::vector<std::string>;

struct Limits {
  double seconds = 1;  // of CPU: the machine may be busy
  long resident_kib = 512 * 1024;
  // Told to stop (SIGTERM) after so long, 0: never. It must then end by 143 at once.
  double told_after_seconds = 0;
};

struct Outcome {
  int code = -1;  // -1: ended by a signal
  int signal = 0;
  bool hung = false;   // killed here, because it neither worked nor ended
  bool told = false;   // to stop
  double seconds = 0;  // of CPU
  long resident_kib = 0;
  std::string reason;  // standard error
};

// binary with these words in the current folder; its standard error is in stderr.txt there.
Outcome run(const std::string& binary, const Words& words, const Limits& limits);

// What is wrong with an outcome; "" for nothing. Good ends are 0, 1 and 2, with a reason unless 0.
std::string complaint(const Outcome& outcome, const Limits& limits);

std::string read_text(const std::string& path);
void write_text(const std::string& path, const std::string& text);

// As a person would type them, long ones cut.
std::string shown(const Words& words);

}  // namespace fuzz
