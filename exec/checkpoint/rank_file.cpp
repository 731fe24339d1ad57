#include "exec/checkpoint/rank_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "exec/checkpoint/names.hpp"

namespace exec {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

// What a file begins with.
struct Header {
  std::uint64_t magic = 0x32545043'4e4c5031ULL;  // its bytes change with the byte order
  RankOf whose;
  std::uint64_t losses = 0;
};
static_assert(std::has_unique_object_representations_v<Header>, "no padding");

class File {
 public:
  File(std::string path, int flags) : path_(std::move(path)) {
    do fd_ = ::open(path_.c_str(), flags | O_CLOEXEC, 0666);
    while (fd_ < 0 && errno == EINTR);
    if (fd_ < 0) fail(errno);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }

  bool ok() const { return error_ == 0; }
  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty() && ok()) {
      const auto piece = bytes.first(std::min(kPiece, bytes.size()));
      digester_.add(piece);
      bytes_ += std::ssize(piece);
      write_piece(piece);
      bytes = bytes.subspan(piece.size());
    }
  }
  // Fewer only at the end of the file.
  std::size_t read(std::span<std::byte> bytes) {
    std::size_t got = 0;
    while (got < bytes.size() && ok()) {
      const ssize_t n = ::read(fd_, bytes.data() + got, bytes.size() - got);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail(errno);
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    digester_.add(bytes.first(got));
    bytes_ += static_cast<std::int64_t>(got);
    return got;
  }
  // Of all that was read or written.
  RankFile so_far() const { return {bytes_, digester_.value()}; }
  // Until it is on the disk.
  void close() {
    if (ok() && ::fsync(fd_) != 0) fail(errno);
    if (ok() && ::close(std::exchange(fd_, -1)) != 0) fail(errno);
  }
  core::Problem problem(core::ProblemKind kind) const {
    const bool full = error_ == ENOSPC || error_ == EDQUOT || error_ == EFBIG;
    return {path_, "a checkpoint file that can be read and written whole", std::strerror(error_),
            full ? "free some space, or name another --checkpoint-dir" : "", kind};
  }

 private:
  void fail(int error) { error_ = error; }
  void write_piece(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail(errno);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }

  std::string path_;
  Digester digester_;
  std::int64_t bytes_ = 0;
  int fd_ = -1;
  int error_ = 0;
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

std::string in_words(const RankOf& whose) {
  return fmt::format("rank {} after step {}", whose.rank, whose.steps_done);
}

core::Problem damaged(const std::string& path, std::string expected, std::string found) {
  return {path, std::move(expected), std::move(found), kGoBack};
}

core::Status check_size(const std::string& path, const RankFile& listed) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0)
    return damaged(path, fmt::format("a file of {} bytes", listed.bytes), std::strerror(errno));
  if (!S_ISREG(info.st_mode) || info.st_size != listed.bytes)
    return damaged(path, fmt::format("a file of {} bytes", listed.bytes),
                   fmt::format("{} bytes", info.st_size));
  return core::Done{};
}

// Of a file of the size that is listed: its header, with nothing in it believed but this.
core::Status read_header(File& file, const std::string& path, const RankOf& whose, Header& header) {
  header = {};
  const Header ours;
  const std::size_t got = file.read(std::as_writable_bytes(std::span(&header, 1)));
  if (!file.ok()) return file.problem(core::ProblemKind::bad_input);
  if (got != sizeof header || header.magic != ours.magic)
    return damaged(path, "the state of a rank, written on a machine of this byte order",
                   "another file");
  if (header.whose.rank != whose.rank || header.whose.steps_done != whose.steps_done)
    return damaged(path, "the state of " + in_words(whose), "that of " + in_words(header.whose));
  if (header.whose.trained_on != whose.trained_on)
    return damaged(path, "the state of this run", "that of another one");
  return core::Done{};
}

core::Status check_digest(const std::string& path, const File& file, const RankFile& listed) {
  const RankFile read = file.so_far();
  if (read.bytes == listed.bytes && read.digest == listed.digest) return core::Done{};
  return damaged(path, "what was written, of digest " + to_text(listed.digest),
                 "other bytes, of digest " + to_text(read.digest));
}

}  // namespace

core::Result<RankFile> write_rank_file(const std::string& path, const RankOf& whose,
                                       const RankState& state) {
  File file(path, O_WRONLY | O_CREAT | O_TRUNC);
  Header header;
  header.whose = whose;
  header.losses = state.loss.size();
  file.write(std::as_bytes(std::span(&header, 1)));
  file.write(std::as_bytes(std::span(state.loss)));
  for (const auto& buffer : state.buffers) file.write(buffer);
  file.close();
  if (!file.ok()) return file.problem(core::ProblemKind::failed_running);
  return file.so_far();
}

core::Status check_rank_file(const std::string& path, const RankOf& whose, const RankFile& listed) {
  if (core::Status size = check_size(path, listed); !size.ok()) return size;
  File file(path, O_RDONLY);
  Header header;
  if (core::Status head = read_header(file, path, whose, header); !head.ok()) return head;
  std::vector<std::byte> piece(kPiece);
  while (file.read(piece) == piece.size()) continue;
  if (!file.ok()) return file.problem(core::ProblemKind::bad_input);
  return check_digest(path, file, listed);
}

core::Status read_rank_file(const std::string& path, const RankOf& whose, const RankFile& listed,
                            RankState& state) {
  if (core::Status size = check_size(path, listed); !size.ok()) return size;
  File file(path, O_RDONLY);
  Header header;
  if (core::Status head = read_header(file, path, whose, header); !head.ok()) return head;
  std::uint64_t rest = static_cast<std::uint64_t>(listed.bytes) - sizeof header;
  std::uint64_t buffers = 0;
  for (const auto& buffer : state.buffers) buffers += buffer.size();
  if (rest < buffers || (rest -= buffers) % sizeof(double) != 0 ||
      header.losses != rest / sizeof(double))
    return damaged(path, fmt::format("{} bytes of this plan's state and the losses", buffers),
                   fmt::format("{} losses and a file of {} bytes", header.losses, listed.bytes));
  state.loss.resize(header.losses);
  file.read(std::as_writable_bytes(std::span(state.loss)));
  for (const auto& buffer : state.buffers) file.read(buffer);
  if (!file.ok()) return file.problem(core::ProblemKind::bad_input);
  return check_digest(path, file, listed);
}

}  // namespace exec
