#pragma once
// Child processes of this same executable, with a hard time limit: nothing a child does (hang in a
// driver, die of a signal) can hang or end the parent. Children write to stderr only. One thread.

#include <sys/types.h>

#include <csignal>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace probe {

struct ChildSpec {
  std::vector<std::string> arguments;                          // without the program name
  std::vector<std::pair<std::string, std::string>> environment;  // set on top of the parent's
  std::string without_prefix;  // parent variables that begin so are left out; "" keeps all
};

struct Ending {
  enum class Kind { exited, signalled, timed_out, stopped };
  Kind kind = Kind::exited;
  int code = 0;  // exit status or signal number

  bool good() const { return kind == Kind::exited && code == 0; }
};

// "exited with status 3", "was ended by signal 11", "was stopped after its time limit", ...
std::string to_text(const Ending& ending);

// Starts this executable anew (posix_spawn of /proc/self/exe). Throws std::system_error.
pid_t spawn_self(const ChildSpec& spec);

// Waits for all of them. At the deadline, when `stop` becomes non-zero, or when one ends badly,
// the others are killed (and left behind if the kernel cannot end them within 5 s).
std::vector<Ending> wait_all(std::span<const pid_t> children, double seconds,
                             const volatile std::sig_atomic_t& stop);

// In a child: ask the kernel to end this process when its parent ends, however that happens.
void die_with_parent();

}  // namespace probe
