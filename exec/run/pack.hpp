#pragma once
// Values as bytes, for processes of one binary to send each other. Not a file format: no version,
// no byte order. Value types; thread-compatible.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/check.hpp"

namespace exec {

class Packer {
 public:
  template <class T>
  void value(const T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  void text(std::string_view t) {
    value(t.size());
    bytes_.append(t);
  }
  template <class T>
  void values(const std::vector<T>& all) {
    value(all.size());
    for (const T& v : all) value(v);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what a Packer wrote, in the same order; anything else is a bug and hits a CHECK.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  T value() {
    static_assert(std::is_trivially_copyable_v<T>);
    T v;
    std::memcpy(&v, piece(sizeof v).data(), sizeof v);
    return v;
  }
  std::string text() { return std::string(piece(value<std::size_t>())); }
  template <class T>
  std::vector<T> values() {
    std::vector<T> all;
    for (auto n = value<std::size_t>(); n > 0; --n) all.push_back(value<T>());
    return all;
  }
  bool done() const { return rest_.empty(); }

 private:
  std::string_view piece(std::size_t size) {
    PLANNER_CHECK(size <= rest_.size(), "the bytes end early");
    const std::string_view head = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return head;
  }
  std::string_view rest_;
};

}  // namespace exec
