#include "core/untrusted.hpp"

#include <fmt/format.h>

namespace core {
namespace {

unsigned byte_of(char c) { return static_cast<unsigned char>(c); }

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return byte_of(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
  const bool beyond = lead == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

char32_t code_point(std::string_view text, std::size_t length) {
  constexpr unsigned kBitsOfLead[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t point = byte_of(text[0]) & kBitsOfLead[length];
  for (std::size_t i = 1; i < length; ++i) point = (point << 6) | (byte_of(text[i]) & 0x3F);
  return point;
}

bool is_hidden(char32_t point) {
  return point < 0x20 || (point >= 0x7F && point <= 0x9F) ||
         (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
}

std::optional<std::string> hidden_in(std::string_view text) {
  std::optional<std::string> first;
  for_each_character(
      text, [](std::string_view) {},
      [&](char32_t point, bool is_byte) {
        if (first) return;
        const auto number = static_cast<unsigned>(point);
        first = is_byte ? fmt::format("the byte 0x{:02x}, which is not UTF-8", number)
                        : fmt::format("the character U+{:04X}", number);
      });
  return first;
}

std::string visible(std::string_view text) {
  std::string out;
  for_each_character(
      text, [&](std::string_view character) { out += character; },
      [&](char32_t point, bool) {
        const auto number = static_cast<unsigned>(point);
        out += number < 0x100 ? fmt::format("\\x{:02x}", number)
                              : fmt::format("\\u{:04x}", number);
      });
  return out;
}

}  // namespace core
