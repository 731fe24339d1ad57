#include "core/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/call.hpp"
#include "core/piece_file.hpp"

namespace core {
namespace {

namespace fs = std::filesystem;

Problem cannot_open(const std::string& path, std::string expected, int error,
                    std::string fix = "") {
  return {path, std::move(expected), std::strerror(error), std::move(fix)};
}

Problem cannot_write(const std::string& path, int error) {
  return {path, "to write it whole", std::strerror(error),
          error == ENOSPC || error == EDQUOT ? "free some space, or write elsewhere" : "",
          ProblemKind::failed_running};
}

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  // 0, or the error that a delayed write met.
  int close() {
    const int failed = ::close(std::exchange(fd_, -1));
    return failed ? errno : 0;
  }

 private:
  int fd_;
};

// 0 or errno.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

// Where the bytes go: links resolved, so that the temporary lies in the folder of the file itself.
struct Target {
  fs::path path;
  fs::path folder;
  std::optional<mode_t> mode;  // of the file that is there
  bool direct = false;         // written to, not replaced
};

Result<Target> find_target(const std::string& path) {
  if (path.empty()) return Problem{"", "the name of a file to write", "an empty name", ""};
  struct stat info{};
  Target target{path, {}, {}, false};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode))
      return cannot_open(path, "a file to write", EISDIR, "name a file inside it");
    const bool stands_for_stream = path.starts_with("/dev/") || path.starts_with("/proc/");
    target.direct = !S_ISREG(info.st_mode) || stands_for_stream;
    target.mode = info.st_mode & 07777;
    std::error_code ignored;
    const fs::path resolved = fs::canonical(path, ignored);
    if (!ignored) target.path = resolved;
    if (target.direct) target.path = path;
  } else if (errno != ENOENT) {
    return cannot_open(path, "a file to write", errno);
  }
  target.folder = target.path.parent_path();
  if (target.folder.empty()) target.folder = ".";
  if (!target.direct && ::stat(target.folder.c_str(), &info) != 0)
    return cannot_open(path, "its folder to be there", errno,
                       fmt::format("make it: mkdir -p '{}'", target.folder.string()));
  if (target.mode && ::access(target.path.c_str(), W_OK) != 0)
    return cannot_open(path, "a file that may be written", errno);
  return target;
}

constexpr unsigned kMostStale = 100'000;

// A new file beside the target, unlinked on destruction unless renamed to it.
class Temporary {
 public:
  explicit Temporary(const Target& target)
      : file_(open_new(target.folder, path_)), error_(file_.get() < 0 ? errno : 0) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (error_ == 0 && !renamed_) ::unlink(path_.c_str());
  }

  int open_error() const { return error_; }

  // 0 or errno.
  int become(const Target& target, std::string_view text) {
    if (target.mode && ::fchmod(file_.get(), *target.mode) != 0) return errno;
    if (const int error = write_all(file_.get(), text)) return error;
    if (::fsync(file_.get()) != 0) return errno;
    if (const int error = file_.close()) return error;
    if (::rename(path_.c_str(), target.path.c_str()) != 0) return errno;
    renamed_ = true;
    return 0;
  }

 private:
  // A descriptor, or -1 and errno. Process ids repeat, in containers soon: what a killed process
  // left keeps its name, and the next one is taken.
  static int open_new(const fs::path& folder, fs::path& path) {
    static std::atomic<unsigned> count{0};
    for (unsigned tries = 0;; ++tries) {
      path = folder / fmt::format(".planner-{}-{}.tmp", ::getpid(), count.fetch_add(1));
      const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd >= 0 || errno != EEXIST || tries == kMostStale) return fd;
    }
  }

  fs::path path_;
  Descriptor file_;
  int error_;
  bool renamed_ = false;
};

// The rename itself must survive a crash. File systems without fsync of folders say EINVAL.
int sync_folder(const fs::path& folder) {
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return errno == EACCES ? 0 : errno;  // writable but not readable
  return ::fsync(fd.get()) != 0 && errno != EINVAL ? errno : 0;
}

Status write_directly(const std::string& path, std::string_view text) {
  Descriptor fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (fd.get() < 0) return cannot_open(path, "a target that can be opened", errno);
  if (const int error = write_all(fd.get(), text)) return cannot_write(path, error);
  if (const int error = fd.close()) return cannot_write(path, error);
  return Done{};
}

}  // namespace

static constexpr std::size_t kPiece = std::size_t{1} << 16;  // that is read at once

namespace {

// A file that can be read and its status, or why not.
Status open_to_read(const std::string& path, Descriptor& fd, struct stat& status) {
  fd = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0)
    return cannot_open(path, "a file that can be read", errno);
  // Some devices never end; a terminal does.
  if (S_ISCHR(status.st_mode) && ::isatty(fd.get()) == 0)
    return Problem{path, "a file or a pipe", "a device", ""};
  return Done{};
}

Problem too_long(const std::string& path, std::size_t max_bytes) {
  return {path, fmt::format("at most {} bytes", max_bytes), "more", ""};
}

Result<std::string> read_all(const std::string& path, const Descriptor& fd,
                             const struct stat& status, std::size_t max_bytes) {
  std::string text;
  if (S_ISREG(status.st_mode)) {
    if (static_cast<std::uintmax_t>(status.st_size) > max_bytes) return too_long(path, max_bytes);
    text.reserve(static_cast<std::size_t>(status.st_size) + kPiece);
  }
  while (text.size() <= max_bytes) {
    const std::size_t before = text.size();
    text.resize(before + kPiece);
    const ssize_t got = ::read(fd.get(), text.data() + before, kPiece);
    const int error = errno;
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
    if (got < 0 && error != EINTR) return cannot_open(path, "a file that can be read", error);
  }
  return too_long(path, max_bytes);
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  if (const std::string* brought = file_of_call(path)) {
    if (brought->size() > max_bytes) return too_long(path, max_bytes);
    return *brought;
  }
  Descriptor fd(-1);
  struct stat status {};
  if (const Status opened = open_to_read(path, fd, status); !opened.ok()) return opened.problems();
  return read_all(path, fd, status, max_bytes);
}

bool path_exists(const std::string& path) {
  std::error_code error;
  return file_of_call(path) != nullptr || fs::exists(path, error);
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::string absolute_path(const std::string& path) {
  std::error_code error;
  return fs::absolute(path, error).lexically_normal().string();
}

struct PieceFile::Source {
  std::string path;
  Descriptor fd{-1};  // of a regular file
  std::uint64_t size = 0;
  std::string text;  // of another
};

PieceFile::PieceFile(std::unique_ptr<Source> source) : source_(std::move(source)) {}
PieceFile::PieceFile(PieceFile&&) noexcept = default;
PieceFile& PieceFile::operator=(PieceFile&&) noexcept = default;
PieceFile::~PieceFile() = default;

Result<PieceFile> PieceFile::open(const std::string& path, std::size_t max_in_memory) {
  auto source = std::make_unique<Source>();
  source->path = path;
  const auto keep = [&](Result<std::string> text) -> Result<PieceFile> {
    if (!text.ok()) return text.problems();
    source->text = std::move(*text);
    source->size = source->text.size();
    return PieceFile(std::move(source));
  };
  if (file_of_call(path) != nullptr) return keep(read_file(path, max_in_memory));
  struct stat status {};
  if (const Status opened = open_to_read(path, source->fd, status); !opened.ok())
    return opened.problems();
  if (!S_ISREG(status.st_mode)) {
    const Descriptor fd = std::move(source->fd);
    return keep(read_all(path, fd, status, max_in_memory));
  }
  source->size = static_cast<std::uint64_t>(status.st_size);
  return PieceFile(std::move(source));
}

std::uint64_t PieceFile::size() const {
  return source_->size;
}

Status PieceFile::read(std::uint64_t at, std::span<char> out) const {
  if (source_->fd.get() < 0) {
    std::memcpy(out.data(), source_->text.data() + at, out.size());
    return Done{};
  }
  while (!out.empty()) {
    const ssize_t got = ::pread(source_->fd.get(), out.data(), out.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      Problem problem =
          got < 0 ? cannot_open(source_->path, "a file that can be read", errno)
                  : Problem{source_->path, fmt::format("the {} bytes that it had", source_->size),
                            fmt::format("{} of them", at), "do not change it while it is read"};
      problem.kind = ProblemKind::failed_running;
      return problem;
    }
    at += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return Done{};
}

Status check_writable(const std::string& path) {
  const Result<Target> target = find_target(path);
  if (!target) return target.problems();
  if (target->direct) return Done{};
  // Only making a file tells whether one can be made: root, read-only mounts, quotas.
  const Temporary probe(*target);
  if (probe.open_error() != 0)
    return cannot_open(path, "a folder that takes new files", probe.open_error());
  return Done{};
}

Status write_atomically(const std::string& path, std::string_view text) {
  const Result<Target> target = find_target(path);
  if (!target) return target.problems();
  if (target->direct) return write_directly(path, text);
  Temporary file(*target);
  if (file.open_error() != 0)
    return cannot_open(path, "a folder that takes new files", file.open_error());
  if (const int error = file.become(*target, text)) return cannot_write(path, error);
  if (const int error = sync_folder(target->folder)) return cannot_write(path, error);
  return Done{};
}

}  // namespace core
