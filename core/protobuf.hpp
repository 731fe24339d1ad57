#pragma once
// The wire format of protobuf [protobuf], by hand: messages are made field by field, and read field
// by field without copying. A message that protobuf's own library would write of the same fields in
// the same order has the same bytes.
//
// ProtoReader never reads beyond its bytes and allocates nothing; what is damaged is a ProtoFault
// with the position in the file. Value types; thread-compatible.

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace core {

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

class ProtoMessage {
 public:
  // uint64, int64 (two's complement, ten bytes when negative), bool and enums.
  void number(int field, std::uint64_t value) {
    put_key(field, Wire::varint);
    put_varint(value);
  }
  // As proto3 has it for fields outside a oneof: zero is what is absent.
  void number_unless_zero(int field, std::uint64_t value) {
    if (value != 0) number(field, value);
  }
  // fixed64: eight bytes, the lowest first.
  void fixed(int field, std::uint64_t value) {
    put_key(field, Wire::fixed64);
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(value >> 8 * i & 0xff);
  }
  void text(int field, std::string_view value) {
    put_key(field, Wire::bytes);
    put_varint(value.size());
    bytes_ += value;
  }
  void message(int field, const ProtoMessage& value) { text(field, value.bytes_); }
  // A repeated number, packed; none is nothing.
  void numbers(int field, std::span<const std::uint64_t> values) {
    if (values.empty()) return;
    ProtoMessage packed;
    for (const std::uint64_t value : values) packed.put_varint(value);
    message(field, packed);
  }
  const std::string& bytes() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }
  void clear() { bytes_.clear(); }

  // As one of a sequence: behind its length.
  void append_delimited(std::string& out) const {
    ProtoMessage length;
    length.put_varint(bytes_.size());
    out += length.bytes_;
    out += bytes_;
  }

 private:
  void put_key(int field, Wire wire) {
    put_varint((static_cast<std::uint64_t>(field) << 3) | static_cast<std::uint64_t>(wire));
  }
  // Seven bits a byte, the lowest first; the top bit says that more follow.
  void put_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

struct ProtoFault {
  std::size_t offset = 0;              // from the start of the file
  const char* expected = "";
};

class ProtoReader {
 public:
  // base: where in the file the bytes begin.
  explicit ProtoReader(std::string_view bytes, std::size_t base = 0) : bytes_(bytes), base_(base) {}

  // The next field; false: there is none, or fault() says why not.
  bool next() {
    if (at_ == bytes_.size() || fault_) return false;
    start_ = base_ + at_;
    const std::optional<std::uint64_t> key = varint();
    if (!key) return false;
    if (*key >> 3 == 0 || *key >> 3 >= std::uint64_t{1} << 29)
      return fail(start_, "the number of a field, 1 to 536870911");
    field_ = static_cast<int>(*key >> 3);
    wire_ = static_cast<Wire>(*key & 7);
    return value();
  }
  // One of a sequence of messages, each behind its length; nullopt: the end, or fault().
  std::optional<ProtoReader> next_message() {
    if (at_ == bytes_.size() || fault_) return std::nullopt;
    start_ = base_ + at_;
    const std::optional<std::uint64_t> size = varint();
    if (!size || !take(*size)) return std::nullopt;
    return message();
  }
  // The next of packed numbers.
  std::optional<std::uint64_t> next_packed() {
    if (at_ == bytes_.size() || fault_) return std::nullopt;
    return varint();
  }

  int field() const { return field_; }
  Wire wire() const { return wire_; }
  std::uint64_t number() const { return number_; }       // of varint, fixed64 and fixed32
  std::string_view text() const { return text_; }        // of bytes
  ProtoReader message() const { return ProtoReader(text_, text_base_); }
  std::size_t offset() const { return start_; }          // of this field or message
  const std::optional<ProtoFault>& fault() const { return fault_; }

 private:
  bool fail(std::size_t offset, const char* expected) {
    fault_ = ProtoFault{offset, expected};
    return false;
  }
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) {
        fail(base_ + at_, "the rest of a number, not the end");
        return std::nullopt;
      }
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      if (shift == 63 && byte > 1) break;
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail(start_, "a number of at most 64 bits");
    return std::nullopt;
  }
  bool take(std::uint64_t size) {
    if (size > bytes_.size() - at_) return fail(start_, "as many bytes as its length says");
    const auto whole = static_cast<std::size_t>(size);
    text_ = bytes_.substr(at_, whole);
    text_base_ = base_ + at_;
    at_ += whole;
    return true;
  }
  bool fixed(std::size_t size) {
    if (!take(size)) return false;
    number_ = 0;
    for (std::size_t i = size; i-- > 0;)
      number_ = number_ << 8 | static_cast<unsigned char>(text_[i]);
    return true;
  }
  bool value() {
    switch (wire_) {
      case Wire::varint:
        if (const auto read = varint()) return number_ = *read, true;
        return false;
      case Wire::bytes:
        if (const auto size = varint()) return take(*size);
        return false;
      case Wire::fixed64: return fixed(8);
      case Wire::fixed32: return fixed(4);
    }
    return fail(start_, "a wire type of protobuf: 0, 1, 2 or 5");
  }

  std::string_view bytes_, text_;
  std::size_t base_, at_ = 0, start_ = 0, text_base_ = 0;
  int field_ = 0;
  Wire wire_{};
  std::uint64_t number_ = 0;
  std::optional<ProtoFault> fault_;
};

}  // namespace core
