#include "core/folder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "core/file.hpp"

namespace core {
namespace {

namespace fs = std::filesystem;

Problem failed(const std::string& path, const char* expected, int error) {
  return {path, expected, std::strerror(error), "", ProblemKind::failed_running};
}

// Not there before, but for what a killed process of the same id left.
std::string temporary_beside(const fs::path& target) {
  static std::atomic<unsigned> count{0};
  return (target.parent_path() / fmt::format(".planner-{}-{}.folder", ::getpid(), count++))
      .string();
}

// Both names keep a folder at every moment; file systems that cannot swap say EINVAL.
int swap_folders(const std::string& a, const std::string& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  const std::string aside = temporary_beside(b);
  if (::rename(b.c_str(), aside.c_str()) != 0) return errno;
  if (::rename(a.c_str(), b.c_str()) == 0) return ::rename(aside.c_str(), a.c_str()) ? errno : 0;
  const int error = errno;
  return ::rename(aside.c_str(), b.c_str()) != 0 ? errno : error;
}

}  // namespace

Result<NewFolder> NewFolder::at(const std::string& path, const Names& replaceable) {
  if (path.empty()) return Problem{"", "the name of a folder to write", "an empty name", ""};
  std::error_code error;
  fs::path target = fs::weakly_canonical(path, error);
  if (error) return Problem{path, "a folder to write", error.message(), ""};
  if (!target.has_filename()) target = target.parent_path();
  if (fs::exists(target, error)) {
    if (!fs::is_directory(target, error))
      return Problem{path, "a folder, or a new name", "a file", "name another"};
    for (const fs::directory_entry& entry : fs::directory_iterator(target, error)) {
      const std::string name = entry.path().filename().string();
      if (!replaceable(name))
        return Problem{path, "a new folder, or one of the same kind of files",
                       fmt::format("\"{}\" in it", name), "name another"};
    }
    if (error) return Problem{path, "a folder that can be read", error.message(), ""};
  }
  std::string temporary;
  do temporary = temporary_beside(target);
  while (!fs::create_directory(temporary, error) && !error);
  if (error) {
    const bool absent = !fs::exists(target.parent_path());
    return Problem{path, absent ? "its folder to be there" : "a place that takes new folders",
                   error.message(),
                   absent ? fmt::format("make it: mkdir -p '{}'", target.parent_path().string())
                          : ""};
  }
  return NewFolder(target.string(), std::move(temporary));
}

NewFolder::NewFolder(NewFolder&& other) noexcept
    : target_(std::move(other.target_)), temporary_(std::exchange(other.temporary_, {})) {}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

Status NewFolder::write(const std::string& name, std::string_view bytes) {
  return write_atomically(temporary_ + '/' + name, bytes);
}

Status NewFolder::commit() {
  std::error_code error;
  const bool replaces = fs::exists(target_, error) && !fs::is_empty(target_, error);
  int wrong = 0;
  if (replaces) wrong = swap_folders(temporary_, target_);
  else if (std::rename(temporary_.c_str(), target_.c_str()) != 0) wrong = errno;
  if (wrong != 0) return failed(target_, "a folder that takes its new name", wrong);
  if (!replaces) temporary_.clear();   // else it is the old one, which goes
  return Done{};
}

}  // namespace core
