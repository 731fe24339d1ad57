#pragma once
// SHA-256 [fips180-4] and HMAC-SHA-256 [rfc2104]: digests that name a content, and proofs of a
// shared secret that do not show it. Pure; thread-safe.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace core {

using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::string_view text);
Digest hmac_sha256(std::string_view key, std::string_view text);

// Takes the same time wherever they differ.
bool same(const Digest& a, const Digest& b);

// As a content security policy names a script.
std::string sha256_base64(std::string_view text);

}  // namespace core
