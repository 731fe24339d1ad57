#pragma once
// A configuration that a user already runs, as a question of the planner with pins: the way back
// from emit/. It reads a script or an argument list of Megatron-LM, torchtitan's TOML and its
// Python, DeepSpeed's JSON, accelerate's YAML, and TrainingArguments of transformers as JSON.
// Scripts and Python are read as text, never run. Every setting is read, known to have no influence
// on memory, communication or time (settings.json), or named as not read. Pure; thread-safe.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"
#include "models/spec.hpp"
#include "reports/imports/settings.hpp"
#include "reports/text.hpp"

namespace reports::imports {

struct File {
  std::string name, text;
};

// What the user says beside the files, which stands where they say something else.
struct Given {
  std::optional<std::int64_t> gpus, vocab;
  std::string model;                   // as --model; its sizes are not read from the files then
  // Of scripts; of Python also settings by their names, "training.steps".
  std::map<std::string, std::string> variables;
  std::string config{};  // the function of a Python file that is meant
};

struct Setup {
  std::vector<std::string> formats;  // "megatron"; "torchtitan_python"; "deepspeed", "trainer"
  std::optional<std::int64_t> gpus;
  std::string model;                   // as --model takes it; "": sizes that no known model has
  std::optional<models::ModelSpec> spec;  // of those sizes
  // Options of planner but --model and --gpus, in their order: "--seq", "4096".
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<std::string> pins;       // "tensor=8"
  std::vector<SettingNote> read, not_read, without_influence;
  std::vector<std::string> notes;
};

// Files of one setup: scripts follow each other as if the later read the earlier in; of the other
// formats each file adds what it says. Problems: a file of no known format, a value that cannot be,
// settings that contradict each other; each with its file and line.
core::Result<Setup> read_setup(std::span<const File> files, const Given& given);

// The answer as text, but for the command; and its part of import/1.
std::string setup_text(const Setup& setup, TextStyle style);
core::Json setup_json(const Setup& setup);

}  // namespace reports::imports
