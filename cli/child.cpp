#include "cli/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "cli/process.hpp"

namespace cli {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kEndsWithin = 8s;       // of being asked to
constexpr int kLook = 100;             // ms between looks at signals

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    close();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

struct Pipe { Descriptor read, write; };

core::Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return core::Problem{"a pipe", "to be made", std::strerror(errno), "",
                         core::ProblemKind::failed_running};
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

// In the child, where only what signal handlers may call is safe. Never returns.
[[noreturn]] void become(char* const* words, int out, int err, int failed, pid_t parent) {
  ::setpgid(0, 0);  // a terminal's interrupt reaches the parent alone, which passes it on
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (::dup2(nothing, STDIN_FILENO) >= 0 && ::dup2(out, STDOUT_FILENO) >= 0 &&
      ::dup2(err, STDERR_FILENO) >= 0) {
    for (int signal : {SIGPIPE, SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
    ::execv(words[0], words);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(failed, &error, sizeof error);
  ::_exit(127);
}

// Appends what is there. False: the other end is closed.
bool take(int fd, std::string& text) {
  std::array<char, 65536> buffer{};
  const ssize_t got = ::read(fd, buffer.data(), buffer.size());
  if (got > 0) text.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

void hand_over_lines(std::string& text, const std::function<void(std::string_view)>& line,
                     bool all) {
  std::size_t at = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', at)) {
    line(std::string_view(text).substr(at, end - at));
    at = end + 1;
  }
  text.erase(0, at);
  if (all && !text.empty()) line(text);
}

class Child {
 public:
  Child(pid_t pid, Pipe out, Pipe err) : pid_(pid), out_(std::move(out)), err_(std::move(err)) {
    out_.write.close();
    err_.write.close();
  }

  // Reads until both streams are closed, or the child is gone and nothing more comes.
  void read_all(std::string& output, std::size_t most,
                const std::function<void(std::string_view)>& line) {
    std::string errors;
    std::array<pollfd, 2> watched{pollfd{out_.read.get(), POLLIN, 0},
                                  pollfd{err_.read.get(), POLLIN, 0}};
    while ((watched[0].fd >= 0 || watched[1].fd >= 0) && output.size() <= most) {
      const int ready = ::poll(watched.data(), watched.size(), kLook);
      pass_on_signal();
      if (ready <= 0 && gone()) break;
      if (ready <= 0) continue;
      if (watched[0].revents != 0 && !take(watched[0].fd, output)) watched[0].fd = -1;
      if (watched[1].revents != 0 && !take(watched[1].fd, errors)) watched[1].fd = -1;
      hand_over_lines(errors, line, false);
    }
    hand_over_lines(errors, line, true);
  }

  int wait() {
    while (!gone()) {
      pass_on_signal();
      ::poll(nullptr, 0, 10);
    }
    return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  }

  void end() { ::kill(-pid_, SIGKILL); }

 private:
  bool gone() {
    if (!reaped_) reaped_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
    return reaped_;
  }

  void pass_on_signal() {
    if (pending_signal() == 0 || reaped_) return;
    if (!asked_) {
      asked_ = Clock::now();
      ::kill(pid_, SIGTERM);
    }
    if (Clock::now() > *asked_ + kEndsWithin) end();
  }

  pid_t pid_;
  Pipe out_, err_;
  int status_ = 0;
  bool reaped_ = false;
  std::optional<Clock::time_point> asked_;
};

}  // namespace

core::Result<ChildEnding> follow_child(const std::vector<std::string>& words,
                                       std::size_t most_output,
                                       const std::function<void(std::string_view)>& error_line) {
  core::Result<Pipe> out = make_pipe(), err = make_pipe(), failed = make_pipe();
  for (const auto* made : {&out, &err, &failed})
    if (!made->ok()) return made->problems();
  std::vector<std::string> copies = words;
  std::vector<char*> pointers;
  for (std::string& word : copies) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const WriteInProgress until_it_is_gone;  // an interrupt is passed on, and answered at the end
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0)
    become(pointers.data(), out->write.get(), err->write.get(), failed->write.get(), parent);
  const int fork_error = errno;
  failed->write.close();
  int error = pid < 0 ? fork_error : 0;
  if (pid > 0)
    while (::read(failed->read.get(), &error, sizeof error) < 0 && errno == EINTR) {}
  if (error != 0) {
    if (pid > 0) ::waitpid(pid, nullptr, 0);
    return core::Problem{words.front(), "a program that starts", std::strerror(error), "",
                         core::ProblemKind::failed_running};
  }
  Child child(pid, std::move(out).value(), std::move(err).value());
  ChildEnding ending;
  child.read_all(ending.output, most_output, error_line);
  if (ending.output.size() > most_output) child.end();
  ending.code = child.wait();
  if (ending.output.size() > most_output)
    return core::Problem{words.front(), "less output", "more than it can rightly have", "",
                         core::ProblemKind::failed_running};
  return ending;
}

std::string find_program(std::string_view name) {
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    std::string candidate(rest.substr(0, end));
    candidate += candidate.empty() ? "./" : "/";
    candidate += name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return "";
}

}  // namespace cli
