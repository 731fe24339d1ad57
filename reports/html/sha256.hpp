#pragma once
// SHA-256 in base64, as a content security policy names a script [fips180-4]. Pure; thread-safe.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace reports::html {

std::array<std::uint8_t, 32> sha256(std::string_view text);
std::string sha256_base64(std::string_view text);

}  // namespace reports::html
