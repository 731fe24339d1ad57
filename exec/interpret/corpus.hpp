#pragma once
// The tokens of a file, read where a sample asks for them: a corpus may be larger than memory.
// Immutable after opening; thread-safe.

#include <cstdint>
#include <span>
#include <string>

#include "core/piece_file.hpp"

namespace exec {

class Corpus {
 public:
  // llm.c's .bin (header of 256 i32: magic 20240520, version 1, count; then u16; or 20240801,
  // version 7, count; then u32), or any other file as one token per byte. All of it is read once.
  // Errors: unreadable, not what its header says, a token that is not below `vocab`.
  static core::Result<Corpus> open(const std::string& path, std::int64_t vocab);

  std::uint64_t tokens() const { return tokens_; }
  // FNV-1a over the tokens, each as 32 bits.
  std::uint64_t checksum() const { return checksum_; }
  // Tokens from `from` on; behind the last one comes the first. REQUIRES: there is one.
  // Throws std::runtime_error where the file can no longer be read.
  void read(std::uint64_t from, std::span<std::int32_t> out) const;

 private:
  explicit Corpus(core::PieceFile file) : file_(std::move(file)), tokens_(file_.size()) {}
  core::Status find_layout(const std::string& path);
  core::Status read_once(const std::string& path, std::int64_t vocab);
  core::Status piece(std::uint64_t from, std::span<std::int32_t> out) const;

  core::PieceFile file_;
  std::uint64_t first_byte_ = 0, tokens_ = 0;
  std::size_t token_bytes_ = 1;
  std::uint64_t checksum_ = 0xcbf29ce484222325ULL;
};

}  // namespace exec
