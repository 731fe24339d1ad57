#include "tools/probe/child.hpp"

#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <system_error>
#include <thread>

extern char** environ;

namespace probe {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> child_environment(const ChildSpec& spec) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!spec.without_prefix.empty() && text.starts_with(spec.without_prefix)) continue;
    out.push_back(text);
  }
  for (const auto& [name, value] : spec.environment) out.push_back(name + "=" + value);
  return out;
}

// True when the child has ended; fills `ending` unless it already says why we killed it.
bool reap(pid_t child, int flags, Ending& ending) {
  int status = 0;
  const pid_t got = ::waitpid(child, &status, flags);
  if (got != child) return false;
  if (ending.kind != Ending::Kind::exited) return true;
  if (WIFSIGNALED(status)) {
    ending = {Ending::Kind::signalled, WTERMSIG(status)};
  } else {
    ending = {Ending::Kind::exited, WEXITSTATUS(status)};
  }
  return true;
}

// Reaps a killed child. One that is stuck inside a driver call cannot end: after 5 s it is left.
void bury(pid_t child, Ending& ending) {
  for (int i = 0; i < 500 && !reap(child, WNOHANG, ending); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

std::string to_text(const Ending& ending) {
  switch (ending.kind) {
    case Ending::Kind::exited: return "exited with status " + std::to_string(ending.code);
    case Ending::Kind::signalled: return "was ended by signal " + std::to_string(ending.code);
    case Ending::Kind::timed_out: return "was killed at its time limit";
    case Ending::Kind::stopped: return "was killed because the run or another process ended";
  }
  return "";
}

pid_t spawn_self(const ChildSpec& spec) {
  std::array<char, 4096> self{};
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size() - 1);
  if (length <= 0) throw std::system_error(errno, std::generic_category(), "/proc/self/exe");

  std::vector<std::string> arguments{self.data()};
  arguments.insert(arguments.end(), spec.arguments.begin(), spec.arguments.end());
  std::vector<std::string> environment = child_environment(spec);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = -1;
  const int error = ::posix_spawn(&child, self.data(), &actions, nullptr,
                                  pointers(arguments).data(), pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), "posix_spawn");
  return child;
}

std::vector<Ending> wait_all(std::span<const pid_t> children, double seconds,
                             const volatile std::sig_atomic_t& stop) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  std::vector<Ending> endings(children.size());
  std::vector<bool> ended(children.size(), false);
  std::size_t left = children.size();
  bool bad = false;
  while (left > 0) {
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (ended[i] || !reap(children[i], WNOHANG, endings[i])) continue;
      ended[i] = true;
      --left;
      bad = bad || !endings[i].good();
    }
    const bool late = Clock::now() >= deadline;
    if (left > 0 && (late || bad || stop != 0)) break;
    if (left > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const auto why = bad || stop != 0 ? Ending::Kind::stopped : Ending::Kind::timed_out;
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (ended[i]) continue;
    endings[i] = {why, 0};
    ::kill(children[i], SIGKILL);
    bury(children[i], endings[i]);
  }
  return endings;
}

void die_with_parent() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace probe
