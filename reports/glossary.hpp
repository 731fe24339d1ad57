#pragma once
// What every word means that the tool prints or takes: keys and values of the strategy and the job,
// terms of memory and time, collectives and algorithms. The entries are data (glossary.json); a
// word may have several, one of each kind ("optimizer" is a job key, a memory term and a time
// term). Pictures of schedules and the table of sharding are made by the code that plans, when they
// are asked for. Pure; thread-safe.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "reports/text.hpp"

namespace reports {

struct GlossaryEntry {
  std::string kind, word;              // "sharding", "zero3"; "memory term", "live"
  std::string text;                    // one to three sentences
  std::string formula;                 // may be empty
  std::string source;                  // keys of docs/references.md in brackets, or a file
};

// In the order of the file.
std::span<const GlossaryEntry> glossary();
const GlossaryEntry* find_entry(std::string_view kind, std::string_view word);

// All entries of a word as people type it: "zero3", "ZeRO-3", "--seq", "tp", "sharding=zero3",
// "memory.live". A problem suggests the nearest words.
core::Result<std::vector<const GlossaryEntry*>> look_up(std::string_view typed);

// Definition, formula, values, picture and source, one entry after the other.
std::string glossary_text(const std::vector<const GlossaryEntry*>& entries, TextStyle style);
// {"schema": "words/1", "words": [{"word", "kind", "text", "formula", "picture", "source"}]}
std::string glossary_json(const std::vector<const GlossaryEntry*>& entries);

}  // namespace reports
