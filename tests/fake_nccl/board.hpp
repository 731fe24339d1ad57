#pragma once
// Board: what the processes of one job over the fake NCCL share: a folder, whose name is the
// unique id, with a file for each message, and a page of memory that counts every change and says
// which ranks are stuck. Thread-safe; processes may end at any moment.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fake_nccl {

class Board {
 public:
  static constexpr int kMostRanks = 64;

  // A new folder, for an id.
  static std::string make_folder();
  // The test has put a file `released` where the folders are.
  static bool is_released();
  // Lives until the process ends, as work may refer to it.
  static Board* open(const std::string& folder, int rank, int ranks);
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // Appears at once and whole; a change.
  void write(const std::string& name, const std::vector<std::byte>& bytes);
  bool has(const std::string& name) const;
  std::optional<std::vector<std::byte>> read(const std::string& name) const;

  std::uint64_t changes() const;
  void changed();
  // This rank could do nothing when the board was `then`, and waits for `what`.
  void stuck(std::uint64_t then, const std::string& what);
  // This rank is done with it: the last one removes the folder.
  void leave();
  // All ranks are stuck at this very board: what each waits for; empty: they are not.
  std::string circle() const;

 private:
  struct Page;
  Board(std::string folder, int rank, int ranks);

  const std::string folder_;
  const int rank_, ranks_;
  Page* page_ = nullptr;
};

}  // namespace fake_nccl
