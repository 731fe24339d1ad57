#include "exec/checkpoint/digest.hpp"

#include <charconv>

#include <fmt/format.h>

#define XXH_INLINE_ALL  // the header holds the whole library: nothing to load at run time
#include <xxhash.h>

#include "core/check.hpp"

namespace exec {

std::string to_text(const Digest& digest) {
  return fmt::format("{:016x}{:016x}", digest.high, digest.low);
}

std::optional<Digest> digest_in(std::string_view text) {
  constexpr std::size_t kHalf = 16;
  if (text.size() != 2 * kHalf) return std::nullopt;
  const auto half = [&](std::size_t from) -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    const char *const begin = text.data() + from, *const end = begin + kHalf;
    const auto read = std::from_chars(begin, end, value, 16);
    if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
    return value;
  };
  const auto high = half(0), low = half(kHalf);
  if (!high || !low) return std::nullopt;
  return Digest{*high, *low};
}

struct Digester::State {
  XXH3_state_t xxh3;
};

Digester::Digester() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh3); }
Digester::~Digester() = default;

void Digester::add(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto done = XXH3_128bits_update(&state_->xxh3, bytes.data(), bytes.size());
  PLANNER_CHECK(done == XXH_OK, "XXH3 takes any bytes");
}

Digest Digester::value() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh3);
  return {hash.high64, hash.low64};
}

Digest digest_of(std::string_view text) {
  Digester digester;
  digester.add(std::as_bytes(std::span(text.data(), text.size())));
  return digester.value();
}

}  // namespace exec
