#pragma once
// What reads text of strangers, as functions of bytes. Each ends normally whatever the bytes are:
// what is wrong with them is a problem that it returns; a broken promise ends the process
// (PLANNER_CHECK). libFuzzer calls them (libfuzzer_main.cpp), and a test replays the corpus
// (replay_main.cpp).

#include <span>
#include <string_view>

namespace fuzz {

struct Target {
  std::string_view name;               // its folder in corpus/
  bool (*run)(std::string_view bytes);  // whether they were read, not refused
};
std::span<const Target> targets();

// Null: no such target.
const Target* find_target(std::string_view name);

}  // namespace fuzz
