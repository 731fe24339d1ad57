#pragma once
// Damage, deterministic for a seed: to a command line and to the text of a JSON file. What comes
// out may still be valid. Thread-compatible.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fuzz {

// Numbers in [0, end) from a seeded generator. REQUIRES: end >= 1.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::size_t below(std::size_t end);

 private:
  std::uint64_t state_;
};

// One or two of: a value replaced, a word dropped, doubled, swapped, inserted or broken.
std::vector<std::string> mutate_words(std::vector<std::string> words, Dice& dice);
// One to three of: cut short, a byte changed, a piece dropped or doubled, a value replaced by
// another kind, by another or an extreme number, by something deep or long.
std::string mutate_json(std::string text, Dice& dice);
// One to three of: a number becomes another, a text another of the same file. It stays JSON, and
// mostly of its schema: what it says is no longer so.
std::string lie_in_json(std::string text, Dice& dice);

}  // namespace fuzz
