#pragma once
// Configurations read, and what was read of them in a form that tests compare.

#include <algorithm>
#include <string>
#include <vector>

#include "reports/imports/imports.hpp"
#include "tests/catch.hpp"

namespace imports_test {

using reports::imports::Given;
using reports::imports::Setup;

inline core::Result<Setup> tried(const std::string& text, const std::string& name = "train.sh",
                                 const Given& given = {}) {
  const std::vector<reports::imports::File> files{{name, text}};
  return reports::imports::read_setup(files, given);
}

inline Setup imported(const std::string& text, const std::string& name = "train.sh",
                      const Given& given = {}) {
  const auto setup = tried(text, name, given);
  if (!setup.ok()) FAIL(core::to_text(setup.problems()));
  return *setup;
}

inline bool pins(const Setup& setup, const std::string& pin) {
  return std::ranges::count(setup.pins, pin) > 0;
}

inline std::string option(const Setup& setup, const std::string& name) {
  for (const auto& [key, value] : setup.options)
    if (key == name) return value;
  return "";
}

// Whether a table of settings names it; text: part of what it says there.
inline bool names(const std::vector<reports::imports::SettingNote>& notes, const std::string& key,
                  const std::string& text = "") {
  return std::ranges::any_of(notes, [&](const auto& note) {
    return note.key == key && note.text.find(text) != std::string::npos;
  });
}

// What refuses it says all of these.
inline bool refuses(const core::Result<Setup>& setup, std::initializer_list<const char*> words) {
  if (setup.ok()) return false;
  const std::string text = core::to_text(setup.problems());
  INFO(text);
  return std::ranges::all_of(words, [&](const char* word) {
    const bool has = text.find(word) != std::string::npos;
    CHECK(has);
    return has;
  });
}

}  // namespace imports_test
