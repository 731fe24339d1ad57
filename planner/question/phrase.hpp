#pragma once
// Internal: a text put together only where it is read. Rules state what they expect at every check,
// and nearly every check holds: a Phrase keeps views and numbers and makes no string until then.
// The views must outlive it (literals and names do). Value type.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace planner {

class Phrase {
 public:
  Phrase(const char* text) : Phrase(std::string_view(text)) {}  // NOLINT: literals are phrases
  explicit Phrase(std::string_view text) : count_(1) {
    parts_[0] = {text.data(), static_cast<std::int64_t>(text.size())};
  }
  explicit Phrase(std::int64_t number) : count_(1) { parts_[0] = {nullptr, number}; }

  friend Phrase operator+(Phrase a, const Phrase& b) {
    for (int i = 0; i < b.count_ && a.count_ < kParts; ++i)
      a.parts_[static_cast<std::size_t>(a.count_++)] = b.parts_[static_cast<std::size_t>(i)];
    return a;
  }

  std::string text() const {
    std::string all;
    for (int i = 0; i < count_; ++i) {
      const Part& p = parts_[static_cast<std::size_t>(i)];
      all += p.data == nullptr ? std::to_string(p.number)
                               : std::string(p.data, static_cast<std::size_t>(p.number));
    }
    return all;
  }

 private:
  static constexpr int kParts = 10;
  struct Part {
    const char* data;                  // null: a number
    std::int64_t number;               // or the length of the text
  };
  std::array<Part, kParts> parts_;     // the first count_
  int count_ = 0;
};

}  // namespace planner
