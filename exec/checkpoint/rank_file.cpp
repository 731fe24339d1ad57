#include "exec/checkpoint/rank_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace exec {
namespace {

constexpr std::uint64_t kMagic = 0x31545043'4e4c5031ULL;  // its bytes change with the byte order
constexpr std::size_t kPiece = std::size_t{1} << 20;

// FNV-1a over words of eight bytes, in four lanes that do not wait for each other; the last block
// of 32 bytes is filled up with zeros. How the bytes were cut into calls does not matter.
class Checksum {
 public:
  void add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (held_ == 0 && bytes.size() >= kBlock) {
        fold(bytes.data());
        bytes = bytes.subspan(kBlock);
        continue;
      }
      const std::size_t n = std::min(kBlock - held_, bytes.size());
      std::memcpy(block_ + held_, bytes.data(), n);
      held_ += n;
      bytes = bytes.subspan(n);
      if (held_ == kBlock) fold(block_), held_ = 0;
    }
  }
  std::uint64_t value() {
    if (held_ > 0) {
      std::memset(block_ + held_, 0, kBlock - held_);
      fold(block_);
      held_ = 0;
    }
    std::uint64_t all = 0xcbf29ce484222325ULL;
    for (const std::uint64_t lane : lanes_) all = (all ^ lane) * 0x100000001b3ULL;
    return all;
  }

 private:
  static constexpr std::size_t kBlock = 32;
  void fold(const std::byte* block) {
    for (std::size_t lane = 0; lane < 4; ++lane) {
      std::uint64_t word = 0;
      std::memcpy(&word, block + 8 * lane, 8);
      lanes_[lane] = (lanes_[lane] ^ word) * 0x100000001b3ULL;
    }
  }
  std::uint64_t lanes_[4] = {1, 2, 3, 4};
  std::byte block_[kBlock] = {};
  std::size_t held_ = 0;
};

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
  void write(std::span<const std::byte> bytes, Checksum* sum) {
    while (!bytes.empty() && ok()) {
      const auto piece = bytes.first(std::min(kPiece, bytes.size()));
      if (sum != nullptr) sum->add(piece);
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
    return got;
  }
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
  int fd_ = -1;
  int error_ = 0;
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

core::Bytes rank_file_bytes(const RankState& state) {
  std::size_t bytes = 3 * sizeof(std::uint64_t) + state.loss.size() * sizeof(double);
  for (const auto& buffer : state.buffers) bytes += buffer.size();
  return core::Bytes(static_cast<std::int64_t>(bytes));
}

core::Status write_rank_file(const std::string& path, const RankState& state) {
  File file(path, O_WRONLY | O_CREAT | O_TRUNC);
  Checksum sum;
  file.write(bytes_of(kMagic), &sum);
  const std::uint64_t losses = state.loss.size();
  file.write(bytes_of(losses), &sum);
  file.write(std::as_bytes(std::span(state.loss)), &sum);
  for (const auto& buffer : state.buffers) file.write(buffer, &sum);
  file.write(bytes_of(sum.value()), nullptr);
  file.close();
  if (!file.ok()) return file.problem(core::ProblemKind::failed_running);
  return core::Done{};
}

core::Status check_rank_file(const std::string& path, core::Bytes bytes) {
  struct stat info{};
  const bool there = ::stat(path.c_str(), &info) == 0;
  const char* const fix = "remove this step's folder to go on from the one before it";
  if (!there || info.st_size != bytes.value())
    return core::Problem{path, fmt::format("a file of {} bytes", bytes.value()),
                         there ? fmt::format("{} bytes", info.st_size) : std::strerror(errno), fix};
  File file(path, O_RDONLY);
  Checksum sum;
  std::vector<std::byte> piece(kPiece);
  std::uint64_t stated = 0;
  for (auto left = static_cast<std::size_t>(bytes.value()) - sizeof stated; left > 0;) {
    const std::size_t got = file.read(std::span(piece).first(std::min(left, piece.size())));
    if (got == 0) break;
    sum.add(std::span(piece).first(got));
    left -= got;
  }
  file.read(std::as_writable_bytes(std::span(&stated, 1)));
  if (!file.ok()) return file.problem(core::ProblemKind::bad_input);
  if (stated != sum.value())
    return core::Problem{path, "what was written, by its checksum", "other bytes", fix};
  return core::Done{};
}

core::Status read_rank_file(const std::string& path, RankState& state) {
  File file(path, O_RDONLY);
  std::uint64_t head[2] = {};
  std::size_t got = file.read(std::as_writable_bytes(std::span(head)));
  const bool ours = got == sizeof head && head[0] == kMagic;
  std::size_t expected = sizeof head;
  if (ours) {
    state.loss.resize(head[1]);
    got += file.read(std::as_writable_bytes(std::span(state.loss)));
    expected += state.loss.size() * sizeof(double);
    for (const auto& buffer : state.buffers) {
      got += file.read(buffer);
      expected += buffer.size();
    }
  }
  if (!file.ok()) return file.problem(core::ProblemKind::bad_input);
  if (!ours || got != expected)
    return core::Problem{path, "the state of a rank of this plan, written on a machine like this",
                         "another file", ""};
  return core::Done{};
}

}  // namespace exec
