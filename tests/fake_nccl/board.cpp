#include "tests/fake_nccl/board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace fake_nccl {
namespace {

constexpr std::size_t kText = 400;

struct Slot {
  std::atomic<std::uint64_t> stuck_at;  // the board's changes, plus 1; 0: not stuck
  char text[kText];
};

}  // namespace

struct Board::Page {
  std::atomic<int> left;
  std::atomic<std::uint64_t> changes;
  Slot ranks[kMostRanks];
};

static std::string place() {
  const char* const given = std::getenv("TMPDIR");
  return given != nullptr ? given : "/tmp";
}

bool Board::is_released() { return ::access((place() + "/released").c_str(), F_OK) == 0; }

std::string Board::make_folder() {
  std::string folder = place() + "/fake-nccl-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no folder for the fake NCCL");
  const int file = ::open((folder + "/board").c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(Page)) != 0)
    throw std::runtime_error("no board for the fake NCCL");
  ::close(file);
  return folder;
}

Board* Board::open(const std::string& folder, int rank, int ranks) {
  return new Board(folder, rank, ranks);
}

Board::Board(std::string folder, int rank, int ranks)
    : folder_(std::move(folder)), rank_(rank), ranks_(ranks) {
  const int file = ::open((folder_ + "/board").c_str(), O_RDWR);
  void* const page =
      file < 0 ? MAP_FAILED
               : ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) ::close(file);
  if (page == MAP_FAILED || ranks > kMostRanks) throw std::runtime_error("no board at " + folder_);
  page_ = static_cast<Page*>(page);
}

void Board::write(const std::string& name, const std::vector<std::byte>& bytes) {
  const std::string part = folder_ + "/." + name, whole = folder_ + "/" + name;
  std::FILE* const file = std::fopen(part.c_str(), "wb");
  if (file == nullptr) throw std::runtime_error("cannot write " + part);
  const bool all = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (std::fclose(file) != 0 || !all || std::rename(part.c_str(), whole.c_str()) != 0)
    throw std::runtime_error("cannot write " + whole);
  changed();
}

bool Board::has(const std::string& name) const {
  return ::access((folder_ + "/" + name).c_str(), F_OK) == 0;
}

std::optional<std::vector<std::byte>> Board::read(const std::string& name) const {
  std::FILE* const file = std::fopen((folder_ + "/" + name).c_str(), "rb");
  if (file == nullptr) return std::nullopt;
  std::vector<std::byte> bytes;
  std::array<std::byte, 65536> piece{};
  for (std::size_t n = 0; (n = std::fread(piece.data(), 1, piece.size(), file)) > 0;)
    bytes.insert(bytes.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(n));
  std::fclose(file);
  return bytes;
}

std::uint64_t Board::changes() const { return page_->changes.load(); }
void Board::changed() { ++page_->changes; }

void Board::stuck(std::uint64_t then, const std::string& what) {
  Slot& slot = page_->ranks[rank_];
  if (slot.stuck_at.load() == then + 1) return;
  std::snprintf(slot.text, kText, "%s", what.c_str());
  slot.stuck_at.store(then + 1);
}

void Board::leave() {
  std::error_code ignored;
  if (++page_->left == ranks_) std::filesystem::remove_all(folder_, ignored);
}

std::string Board::circle() const {
  const std::uint64_t now = changes();
  std::string text;
  for (int r = 0; r < ranks_; ++r) {
    const Slot& slot = page_->ranks[r];
    if (slot.stuck_at.load() != now + 1) return "";
    text += (r > 0 ? "; " : "") + ("rank " + std::to_string(r)) + " waits in " + slot.text;
  }
  return changes() == now ? text : "";
}

}  // namespace fake_nccl
