#pragma once
// Python's pickle [pickle], protocols 2 to 5, of plain data: numbers, texts, lists, tuples and
// dictionaries. An operation that would make an object of a class, or call anything, is refused;
// nothing of a pickle is ever run. Pure; thread-safe.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace reports::logs {

// Values refer to the text that was read, which must outlive this, and to each other: a value that
// the pickle names twice is there once, and may hold itself.
class Pickle {
 public:
  // integer: of 60 bits; one that is larger is of the kind other, and so are real numbers, which no
  // reader here needs.
  enum class Kind : std::uint8_t { none, boolean, integer, other, text, list, dictionary };

  class Value {
   public:
    Value() = default;
    Value(Kind kind, std::int64_t payload)
        : bits_(static_cast<std::uint64_t>(payload) << kKindBits |
                static_cast<std::uint64_t>(kind)) {}
    Kind kind() const { return static_cast<Kind>(bits_ & ((1U << kKindBits) - 1)); }
    std::int64_t payload() const { return static_cast<std::int64_t>(bits_) >> kKindBits; }

   private:
    static constexpr int kKindBits = 4;
    std::uint64_t bits_ = 0;           // none
  };

  // Memory: at most kMemory times the text and kLeast bytes; what would take more is refused, and
  // so is a text of kMostText bytes or more. Problems: what is no such pickle, with the byte where.
  static constexpr std::size_t kMemory = 6, kLeast = 65536, kMostText = std::size_t{1} << 30;
  static core::Result<Pickle> read(std::string_view text, const std::string& name);

  Value root() const { return root_; }
  // The elements of a list; keys and values in turn of a dictionary; of all others none.
  template <class Visit>
  void each(Value container, const Visit& visit) const {
    if (container.kind() != Kind::list && container.kind() != Kind::dictionary) return;
    std::size_t at = containers_[static_cast<std::size_t>(container.payload())].first;
    while (at != 0) {
      const Part part(values_[at]);
      for (std::size_t i = 1; i <= part.length; ++i) visit(values_[at + i]);
      at = part.next;
    }
  }
  // Of a dictionary the value of a key that is a text; none where it lacks that.
  Value find(Value dictionary, std::string_view key) const;
  std::string_view text(Value value) const;  // empty where it is no text
  std::optional<std::int64_t> integer(Value value) const;

 private:
  friend class PickleReader;

  // A container grows by parts, each a header and values behind it. Deques, which do not hold
  // twice what they need while they grow.
  struct Part {
    static constexpr int kBits = 30;
    explicit Part(Value header)
        : next(static_cast<std::size_t>(header.payload() >> kBits)),
          length(static_cast<std::size_t>(header.payload() & ((1LL << kBits) - 1))) {}
    Part(std::size_t next_part, std::size_t values) : next(next_part), length(values) {}
    Value header() const {
      return {Kind::other, static_cast<std::int64_t>(next << kBits | length)};
    }
    std::size_t next = 0, length = 0;  // 0: it is the last
  };
  struct Container {
    std::uint32_t first = 0, last = 0;  // parts, by their headers' places; 0: it is empty
  };

  std::string_view text_;
  std::deque<Value> values_{Value()};  // the first place is no part's
  std::deque<Container> containers_;
  Value root_;
};

// Whether the text begins as a pickle of these protocols.
bool is_pickle(std::string_view text);

}  // namespace reports::logs
