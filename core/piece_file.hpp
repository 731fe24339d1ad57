#pragma once
// A file that is read piece by piece, however large it is.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/result.hpp"

namespace core {

// Pieces are read from wherever they lie; the file takes no memory. A pipe, which has no places,
// and a file that the Call of this thread brought (call.hpp) are kept in memory. Immutable;
// thread-safe.
class PieceFile {
 public:
  // Refused: what cannot be opened; of a pipe more than max_in_memory bytes.
  static Result<PieceFile> open(const std::string& path, std::size_t max_in_memory);
  PieceFile(PieceFile&&) noexcept;
  PieceFile& operator=(PieceFile&&) noexcept;
  ~PieceFile();

  std::uint64_t size() const;  // bytes, as it was opened
  // All of `out`, from byte `at` on. REQUIRES: it lies within size(). Errors, of kind
  // failed_running: the device's, or a file that was cut since.
  Status read(std::uint64_t at, std::span<char> out) const;

 private:
  struct Source;
  explicit PieceFile(std::unique_ptr<Source> source);
  std::unique_ptr<Source> source_;
};

}  // namespace core
