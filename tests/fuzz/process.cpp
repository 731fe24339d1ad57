#include "tests/fuzz/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include <fmt/format.h>

namespace fuzz {
namespace {

constexpr rlim_t kAddressSpace = rlim_t{2} << 30;
constexpr double kHangs = 60;  // s in which it does not work; what works is ended by its limit

double now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

[[noreturn]] void become(const std::string& binary, Words words, const Limits& limits) {
  const int null = ::open("/dev/null", O_RDWR);
  const int reason = ::open("stderr.txt", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(null, STDIN_FILENO);
  ::dup2(null, STDOUT_FILENO);
  ::dup2(reason, STDERR_FILENO);
  const auto cpu = static_cast<rlim_t>(limits.seconds + 4);
  const rlimit memory{kAddressSpace, kAddressSpace}, time{cpu, cpu}, core{0, 0};
  ::setrlimit(RLIMIT_AS, &memory);
  ::setrlimit(RLIMIT_CPU, &time);
  ::setrlimit(RLIMIT_CORE, &core);
  words.insert(words.begin(), "planner");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(binary.c_str(), pointers.data());
  ::_exit(126);
}

// Clock ticks of CPU that a process has taken, or -1.
long ticks_of(pid_t child) {
  const std::string stat = read_text(fmt::format("/proc/{}/stat", child));
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return -1;
  std::istringstream fields(stat.substr(name_end + 1));
  constexpr int kBefore = 11;  // from the state to utime
  std::string skipped;
  for (int i = 0; i < kBefore; ++i) fields >> skipped;
  long user = 0, system = 0;
  return fields >> user >> system ? user + system : -1;
}

// Waits for the child's end, told to stop and killed in time.
int wait_for(pid_t child, const Limits& limits, Outcome& outcome, rusage& used) {
  const double start = now();
  double worked_at = start, pause = 1e-4;
  long ticks = 0;
  for (int status = 0;;) {
    if (::wait4(child, &status, WNOHANG, &used) == child) return status;
    const double passed = now() - start;
    if (limits.told_after_seconds > 0 && !outcome.told && passed > limits.told_after_seconds) {
      ::kill(child, SIGTERM);
      outcome.told = true;
    }
    if (now() - worked_at > kHangs && !outcome.hung) {
      const long more = ticks_of(child);
      outcome.hung = more <= ticks;
      ticks = more;
      worked_at = now();
      if (outcome.hung) ::kill(child, SIGKILL);
    }
    const timespec rest{0, static_cast<long>(pause * 1e9)};
    ::nanosleep(&rest, nullptr);
    pause = pause < 1e-2 ? 1.3 * pause : pause;
  }
}

}  // namespace

Outcome run(const std::string& binary, const Words& words, const Limits& limits) {
  const pid_t child = ::fork();
  if (child == 0) become(binary, words, limits);
  Outcome outcome;
  rusage used{};
  const int status = wait_for(child, limits, outcome, used);
  if (WIFEXITED(status)) outcome.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  outcome.seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  outcome.resident_kib = used.ru_maxrss;
  outcome.reason = read_text("stderr.txt");
  return outcome;
}

std::string complaint(const Outcome& o, const Limits& limits) {
  if (o.hung) return "it hangs";
  if (o.signal != 0) return fmt::format("ended by signal {}", o.signal);
  if (o.told && o.code == 143) return "";
  if (o.code < 0 || o.code > 2) return fmt::format("exit {}", o.code);
  if (o.code != 0 && o.reason.empty()) return fmt::format("exit {} without a reason", o.code);
  if (o.reason.find("internal error") != std::string::npos) return "an internal error";
  if (o.seconds > limits.seconds) return fmt::format("{:.2f} s of CPU", o.seconds);
  if (o.resident_kib > limits.resident_kib) return fmt::format("{} KiB of memory", o.resident_kib);
  return "";
}

std::string read_text(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string shown(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += fmt::format(" '{}'", word.substr(0, 60));
  return text;
}

}  // namespace fuzz
