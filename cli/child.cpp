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

constexpr auto kEndsWithin = 8s;        // of being asked to
constexpr auto kOthersWithin = 3500ms;  // of one that failed
constexpr int kLook = 100;              // ms between looks at signals
constexpr int kLookAtEnd = 10;          // ms, where only the end is awaited

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

// What exec takes, made before the fork.
class ExecWords {
 public:
  explicit ExecWords(const ChildStart& start) : words_(start.words) {
    for (std::string& word : words_) argv_.push_back(word.data());
    argv_.push_back(nullptr);
    for (char** v = environ; *v != nullptr; ++v) {
      const std::string_view set(*v);
      if (!start.environment.contains(std::string(set.substr(0, set.find('=')))))
        variables_.emplace_back(set);
    }
    for (const auto& [name, value] : start.environment)
      variables_.push_back(std::string(name).append("=").append(value));
    for (std::string& variable : variables_) envp_.push_back(variable.data());
    envp_.push_back(nullptr);
  }
  char* const* argv() const { return argv_.data(); }
  char* const* envp() const { return envp_.data(); }

 private:
  std::vector<std::string> words_, variables_;
  std::vector<char*> argv_, envp_;
};

// In the child, where only what signal handlers may call is safe. Never returns.
[[noreturn]] void become(const ExecWords& words, int keeps, int out, int err, int failed,
                         pid_t parent) {
  ::setpgid(0, 0);  // a terminal's interrupt reaches the parent alone, which passes it on
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);
  if (keeps >= 0) ::fcntl(keeps, F_SETFD, 0);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (::dup2(nothing, STDIN_FILENO) >= 0 && ::dup2(out, STDOUT_FILENO) >= 0 &&
      ::dup2(err, STDERR_FILENO) >= 0) {
    for (int signal : {SIGPIPE, SIGINT, SIGTERM}) ::signal(signal, SIG_DFL);
    ::execve(words.argv()[0], words.argv(), words.envp());
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

using Lines = std::function<void(std::string_view)>;

class Child {
 public:
  Child(pid_t pid, Pipe out, Pipe err) : pid_(pid), out_(std::move(out)), err_(std::move(err)) {
    out_.write.close();
    err_.write.close();
  }

  bool reading() const { return out_.read.get() >= 0 || err_.read.get() >= 0; }
  void watch(std::vector<pollfd>& watched) const {
    for (const Pipe* pipe : {&out_, &err_}) watched.push_back({pipe->read.get(), POLLIN, 0});
  }
  // events: of its two streams. What is there is taken; a stream that is closed is let go, and both
  // are where the child is gone and nothing comes.
  void read(const pollfd* events, const Lines& line) {
    const bool quiet = events[0].revents == 0 && events[1].revents == 0;
    if (events[0].revents != 0 && !take(out_.read.get(), ending.output)) out_.read.close();
    if (events[1].revents != 0 && !take(err_.read.get(), errors_)) err_.read.close();
    if (quiet && reaped_) {
      out_.read.close();
      err_.read.close();
    }
    hand_over_lines(errors_, line, err_.read.get() < 0);
    if (err_.read.get() < 0) errors_.clear();
  }

  // Whether it has ended; then `ending` has its code.
  bool gone() {
    int status = 0;
    if (reaped_ || ::waitpid(pid_, &status, WNOHANG) != pid_) return reaped_;
    reaped_ = true;
    ending.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    ending.code = ending.signal != 0 ? 128 + ending.signal : WEXITSTATUS(status);
    return true;
  }
  bool reaped() const { return reaped_; }
  void ask_to_end() const {
    if (!reaped_) ::kill(pid_, SIGTERM);
  }
  void end() {
    if (reaped_) return;
    ending.ended_here = true;
    ::kill(-pid_, SIGKILL);
  }

  ChildEnding ending;

 private:
  pid_t pid_;
  Pipe out_, err_;
  std::string errors_;
  bool reaped_ = false;
};

core::Problem start_problem(const ChildStart& start, int error) {
  return {start.words.front(), "a program that starts", std::strerror(error), "",
          core::ProblemKind::failed_running};
}

core::Result<Child> start_child(const ChildStart& start) {
  core::Result<Pipe> out = make_pipe(), err = make_pipe(), failed = make_pipe();
  for (const auto* made : {&out, &err, &failed})
    if (!made->ok()) return made->problems();
  const ExecWords words(start);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0)
    become(words, start.keeps, out->write.get(), err->write.get(), failed->write.get(), parent);
  if (pid < 0) return start_problem(start, errno);
  failed->write.close();
  int error = 0;
  while (::read(failed->read.get(), &error, sizeof error) < 0 && errno == EINTR) {}
  if (error != 0) {
    ::waitpid(pid, nullptr, 0);
    return start_problem(start, error);
  }
  return Child(pid, std::move(out).value(), std::move(err).value());
}

// All that one call started.
class Family {
 public:
  explicit Family(const Lines& line) : line_(line) {}
  ~Family() { end_all(); }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  void add(Child&& child) { children_.push_back(std::move(child)); }

  // False: one wrote more than it may.
  bool follow(std::size_t most_output) {
    while (any_is_there()) {
      std::vector<pollfd> watched;
      for (const Child& child : children_) child.watch(watched);
      const bool reading =
          std::ranges::any_of(children_, [](const Child& c) { return c.reading(); });
      ::poll(watched.data(), watched.size(), reading ? kLook : kLookAtEnd);
      pass_on_signal();
      for (std::size_t i = 0; i < children_.size(); ++i) {
        Child& child = children_[i];
        note_end(child);
        if (child.reading()) child.read(&watched[2 * i], line_);
        if (child.ending.output.size() > most_output) return false;
      }
      if (Clock::now() > others_until_) end_all_now();
    }
    return true;
  }

  std::vector<ChildEnding> endings() {
    std::vector<ChildEnding> all;
    for (Child& child : children_) all.push_back(std::move(child.ending));
    return all;
  }

 private:
  bool any_is_there() {
    return std::ranges::any_of(children_,
                               [](Child& c) { return c.reading() || !c.reaped(); });
  }

  void note_end(Child& child) {
    if (child.reaped() || !child.gone()) return;
    child.ending.order = ended_++;
    if (child.ending.code != 0)
      others_until_ = std::min(others_until_, Clock::now() + kOthersWithin);
  }

  void pass_on_signal() {
    if (pending_signal() == 0) return;
    if (asked_until_ == kNever) {
      asked_until_ = Clock::now() + kEndsWithin;
      for (const Child& child : children_) child.ask_to_end();
    }
    if (Clock::now() > asked_until_) end_all_now();
  }

  void end_all_now() {
    for (Child& child : children_) child.end();
  }
  void end_all() {
    end_all_now();
    for (Child& child : children_)
      while (!child.gone()) ::poll(nullptr, 0, kLookAtEnd);
  }

  const Lines& line_;
  std::vector<Child> children_;
  int ended_ = 0;
  // When all are ended by force: after they were asked to end, and after one has failed.
  static constexpr Clock::time_point kNever = Clock::time_point::max();
  Clock::time_point asked_until_ = kNever, others_until_ = kNever;
};

}  // namespace

core::Result<std::vector<ChildEnding>> follow_children(const std::vector<ChildStart>& starts,
                                                       std::size_t most_output,
                                                       const Lines& error_line) {
  const WriteInProgress until_all_are_gone;  // an interrupt is passed on, and answered at the end
  Family family(error_line);
  for (const ChildStart& start : starts) {
    core::Result<Child> child = start_child(start);
    if (!child.ok()) return child.problems();
    family.add(std::move(child).value());
  }
  if (!family.follow(most_output))
    return core::Problem{starts.front().words.front(), "less output",
                         "more than it can rightly have", "", core::ProblemKind::failed_running};
  return family.endings();
}

core::Result<ChildEnding> follow_child(const std::vector<std::string>& words,
                                       std::size_t most_output, const Lines& error_line) {
  auto endings = follow_children({{words, {}, -1}}, most_output, error_line);
  if (!endings.ok()) return endings.problems();
  return std::move(endings->front());
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
