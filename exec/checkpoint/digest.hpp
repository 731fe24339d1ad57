#pragma once
// Digest: 128 bits that tell two sequences of bytes apart, by XXH3 [xxh3]. Damage, truncation and
// mix-ups of any kind change it, but for one in 2^128. It is no signature: whoever means to forge a
// file can write its digest as well. Value types; thread-compatible.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace exec {

struct Digest {
  std::uint64_t high = 0, low = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
};

// 32 hexadecimal digits, and back; nothing for any other text.
std::string to_text(const Digest& digest);
std::optional<Digest> digest_in(std::string_view text);

// How the bytes are cut into calls does not matter.
class Digester {
 public:
  Digester();
  ~Digester();
  Digester(const Digester&) = delete;
  Digester& operator=(const Digester&) = delete;
  void add(std::span<const std::byte> bytes);
  Digest value() const;                // of what was added so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest digest_of(std::string_view text);

}  // namespace exec
