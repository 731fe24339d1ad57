#include "exec/interpret/corpus.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

namespace exec {
namespace {

constexpr std::size_t kMostOfPipe = std::size_t{4} << 30;
constexpr std::size_t kLlmcHeaderBytes = 256 * 4;
constexpr std::size_t kPieceTokens = std::size_t{1} << 18;

// Files of tokens as karpathy/llm.c writes them (dev/data/data_common.py): a header of 256 i32
// {magic, version, tokens, 0...}, then the tokens.
struct LlmcKind {
  std::int32_t magic, version;
  std::size_t token_bytes;
};
constexpr LlmcKind kLlmcKinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};  // GPT-2's, Llama 3's

// Little-endian, as this machine is; too large ones become INT32_MAX, which is in no vocabulary.
template <class Token>
void widen(const std::vector<char>& bytes, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Token token = 0;
    std::memcpy(&token, bytes.data() + sizeof token * i, sizeof token);
    out[i] = static_cast<std::int32_t>(std::min<std::uint32_t>(token, INT32_MAX));
  }
}

}  // namespace

core::Result<Corpus> Corpus::open(const std::string& path, std::int64_t vocab) {
  auto file = core::PieceFile::open(path, kMostOfPipe);
  if (!file.ok()) return file.problems();
  Corpus corpus(std::move(*file));
  if (const core::Status found = corpus.find_layout(path); !found.ok()) return found.problems();
  if (const core::Status read = corpus.read_once(path, vocab); !read.ok()) return read.problems();
  return corpus;
}

core::Status Corpus::find_layout(const std::string& path) {
  std::array<std::int32_t, 3> header{};  // little-endian, as this machine is
  const std::size_t there = std::min<std::uint64_t>(file_.size(), sizeof header);
  const core::Status read = file_.read(0, {reinterpret_cast<char*>(header.data()), there});
  if (!read.ok()) return read;
  const auto* const kind = std::ranges::find(kLlmcKinds, header[0], &LlmcKind::magic);
  if (there < sizeof header[0] || kind == std::end(kLlmcKinds)) return core::Done{};
  if (file_.size() < kLlmcHeaderBytes)
    return core::Problem{path, fmt::format("a header of {} bytes", kLlmcHeaderBytes),
                         fmt::format("{} bytes", file_.size()), "fetch or write it again"};
  if (header[1] != kind->version)
    return core::Problem{path, fmt::format("version {} of this file of tokens", kind->version),
                         std::to_string(header[1]), "write it with llm.c's dev/data"};
  const std::uint64_t bytes = file_.size() - kLlmcHeaderBytes;
  if (header[2] < 0 || static_cast<std::uint64_t>(header[2]) * kind->token_bytes != bytes)
    return core::Problem{path, fmt::format("the {} tokens that its header says", header[2]),
                         fmt::format("{} bytes of {} a token", bytes, kind->token_bytes),
                         "fetch or write it again"};
  first_byte_ = kLlmcHeaderBytes;
  token_bytes_ = kind->token_bytes;
  tokens_ = bytes / token_bytes_;
  return core::Done{};
}

core::Status Corpus::read_once(const std::string& path, std::int64_t vocab) {
  constexpr std::uint64_t kPrime = 0x100000001b3ULL;
  std::vector<std::int32_t> tokens;
  std::int32_t greatest = -1;
  std::uint64_t place = 0;
  for (std::uint64_t from = 0; from < tokens_; from += tokens.size()) {
    tokens.resize(std::min<std::uint64_t>(kPieceTokens, tokens_ - from));
    if (const core::Status read = piece(from, tokens); !read.ok()) return read;
    std::uint64_t sum = checksum_;
    for (const std::int32_t token : tokens)
      sum = (sum ^ static_cast<std::uint32_t>(token)) * kPrime;
    checksum_ = sum;
    const auto most = std::ranges::max_element(tokens);
    if (*most <= greatest) continue;
    greatest = *most;
    place = from + static_cast<std::uint64_t>(most - tokens.begin());
  }
  if (greatest >= vocab)
    return core::Problem{fmt::format("{} token {}", path, place),
                         fmt::format("tokens below the vocabulary's {}", vocab),
                         std::to_string(greatest), "tokenise with the model's vocabulary"};
  return core::Done{};
}

core::Status Corpus::piece(std::uint64_t from, std::span<std::int32_t> out) const {
  std::vector<char> bytes(out.size() * token_bytes_);
  const core::Status read = file_.read(first_byte_ + from * token_bytes_, bytes);
  if (!read.ok()) return read;
  if (token_bytes_ == 1) widen<std::uint8_t>(bytes, out);
  if (token_bytes_ == 2) widen<std::uint16_t>(bytes, out);
  if (token_bytes_ == 4) widen<std::uint32_t>(bytes, out);
  return core::Done{};
}

void Corpus::read(std::uint64_t from, std::span<std::int32_t> out) const {
  while (!out.empty()) {
    from %= tokens_;
    const std::size_t n = std::min<std::uint64_t>(out.size(), tokens_ - from);
    if (const core::Status read = piece(from, out.first(n)); !read.ok())
      throw std::runtime_error(core::to_text(read.problems()));
    from += n;
    out = out.subspan(n);
  }
}

}  // namespace exec
