#include "tools/probe/files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace probe {
namespace {

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw std::system_error(errno, std::generic_category(), what + " " + path);
}

int open_or_fail(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) fail("cannot open", path);
  return fd;
}

void write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot write", path);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::string temporary_beside(const std::string& path) {
  return path + ".tmp" + std::to_string(::getpid());
}

}  // namespace

bool is_special(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) &&
         !std::filesystem::is_regular_file(path, ignored);
}

void write_whole(const std::string& path, std::string_view text) {
  const bool direct = is_special(path);
  const std::string target = direct ? path : temporary_beside(path);
  const int fd = open_or_fail(target, direct ? 0 : O_CREAT | O_TRUNC);
  try {
    write_all(fd, text, target);
    if (!direct && ::fsync(fd) != 0) fail("cannot fsync", target);
  } catch (...) {
    ::close(fd);
    if (!direct) ::unlink(target.c_str());
    throw;
  }
  ::close(fd);
  if (!direct && std::rename(target.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(target.c_str());
    errno = error;
    fail("cannot rename to", path);
  }
}

void check_writable(const std::string& path) {
  if (is_special(path)) {
    if (std::filesystem::is_directory(path)) errno = EISDIR, fail("cannot write", path);
    ::close(open_or_fail(path, 0));
    return;
  }
  const std::string target = temporary_beside(path);
  ::close(open_or_fail(target, O_CREAT | O_TRUNC));
  ::unlink(target.c_str());
}

std::string read_or_empty(const std::string& path) {
  const std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  return text.str();
}

TemporaryFolder::TemporaryFolder() {
  const char* base = std::getenv("TMPDIR");
  path_ = std::string(base != nullptr && *base != '\0' ? base : "/tmp") + "/planner-probe-XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) fail("cannot make a folder", path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // a leftover temporary folder is no reason to fail a finished run
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace probe
