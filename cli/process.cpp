#include "cli/process.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/kept_output.hpp"

namespace cli {
namespace {

// Lock-free, as signal handlers need them. A signal comes to any thread: one that finds no write
// under way may be held up before the process ends, and another thread begins a write meanwhile.
// Each side says what it does before it looks at the other, so that one of them gives way.
std::atomic<int> writing = 0;          // writes under way, or about to be
std::atomic<bool> stopping = false;    // no write begins now
std::atomic<int> pending = 0;          // the signal; other threads look at it
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

[[noreturn]] void end_by_signal(int signal) {
  const char text[] = "planner: interrupted\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, sizeof text - 1);
  ::_exit(128 + signal);
}

// A library that is refused memory or threads ends its process so (OpenBLAS's blas_memory_alloc
// and blas_thread_init raise SIGINT): that is no interruption.
[[noreturn]] void end_by_library() {
  const char text[] =
      "planner: a library of this process was refused memory or threads; allow it more (ulimit -v, "
      "ulimit -u) or run fewer ranks\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, sizeof text - 1);
  ::_exit(kFailed);
}

void on_signal(int signal, siginfo_t* info, void*) {
  if (info->si_code == SI_TKILL && info->si_pid == ::getpid()) end_by_library();
  const bool second = pending != 0;
  pending = signal;
  stopping = true;
  if (writing == 0 || second) end_by_signal(signal);
  stopping = false;
}

void hold(int fd, int flags) {
  if (::fcntl(fd, F_GETFD) >= 0) return;
  // The lowest free number is fd, as those below are held.
  [[maybe_unused]] const int held = ::open("/dev/null", flags);
}

void handle(int signal) {
  struct sigaction previous{};
  ::sigaction(signal, nullptr, &previous);
  if ((previous.sa_flags & SA_SIGINFO) == 0 && previous.sa_handler == SIG_IGN)
    return;  // started by nohup or in the background
  struct sigaction action{};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO;        // no SA_RESTART: a blocked open ends
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void prepare_process() {
  hold(STDIN_FILENO, O_RDONLY);
  hold(STDOUT_FILENO, O_RDONLY);  // writing to it fails, as to a closed one
  hold(STDERR_FILENO, O_WRONLY);
  // For the binaries that this one starts: their matrix library makes its threads as it is loaded,
  // before anything can be said of one that the system refuses, and none of them is used.
  ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
  // Each arena of the allocator reserves 64 MiB of addresses for a thread: under a limit of address
  // space that is what runs out. Without one, threads that share an arena wait for each other.
  rlimit addresses{};
  if (::getrlimit(RLIMIT_AS, &addresses) != 0 || addresses.rlim_cur != RLIM_INFINITY)
    ::mallopt(M_ARENA_MAX, 1);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  handle(SIGINT);
  handle(SIGTERM);
}

WriteInProgress::WriteInProgress() {
  ++writing;
  while (stopping) ::sched_yield();
}
WriteInProgress::~WriteInProgress() {
  if (--writing == 0 && pending != 0) end_by_signal(pending);
}

const std::atomic<int>& pending_signal() { return pending; }

int write_stream(Stream stream, std::string_view text) {
  const int fd = stream == Stream::out ? STDOUT_FILENO : STDERR_FILENO;
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

bool stdout_has_colour() {
  const char* terminal = std::getenv("TERM");
  const char* no_colour = std::getenv("NO_COLOR");
  return kept_output() == nullptr && ::isatty(STDOUT_FILENO) != 0 && terminal != nullptr &&
         std::string_view(terminal) != "dumb" && (no_colour == nullptr || *no_colour == '\0');
}

bool stderr_is_terminal() {
  return kept_output() == nullptr && ::isatty(STDERR_FILENO) != 0;
}

int stdout_columns() {
  if (const char* columns = std::getenv("COLUMNS")) {
    int number = 0;
    const std::string_view text(columns);
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (read.ec == std::errc() && read.ptr == text.data() + text.size() && number > 0)
      return number;
  }
  winsize size{};
  if (kept_output() != nullptr) return 0;
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view text(value);
    for (std::string_view end : {"UTF-8", "utf8", "utf-8", "UTF8"})
      if (text.find(end) != std::string_view::npos) return true;
    return false;
  }
  return false;
}

static std::filesystem::path binary_path() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path("./planner") : self;
}

std::string binary_folder() { return binary_path().parent_path().string(); }
std::string sibling(std::string_view name) {
  return (binary_path().parent_path() / name).string();
}
std::string binary_name() { return binary_path().filename().string(); }

}  // namespace cli
