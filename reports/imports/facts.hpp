#pragma once
// Internal to imports/: what the files of a setup say, in the planner's words. A reader of each
// format fills one; finish() makes the question and its pins of it. Value type.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/spec.hpp"
#include "planner/strategy/strategy.hpp"
#include "reports/imports/imports.hpp"
#include "reports/imports/settings.hpp"

namespace reports::imports {

// A model given by its sizes. vocabs: the sizes that its vocabulary may have, the likeliest first;
// empty: the files do not say.
struct Sizes {
  models::ModelSpec spec;
  std::vector<std::int64_t> vocabs;
};

struct Facts {
  Facts(Settings& settings_of, core::Problems& problems_of)
      : settings(settings_of), problems(problems_of) {}

  Settings& settings;
  core::Problems& problems;
  std::string framework;               // as --framework
  std::optional<std::int64_t> gpus;
  std::optional<std::int64_t> seq_len, global_batch, grad_accum;
  std::optional<std::int64_t> mtp_layers;  // modules for multi-token prediction; who trains them
  std::optional<std::int64_t> vocab_multiple;  // to which rows of the vocabulary are padded
  std::optional<std::int64_t> shard_ranks;  // data ranks among which weights are divided
  planner::Strategy strategy;
  std::vector<std::string_view> said;  // its keys that the files state
  std::vector<std::pair<std::string, std::string>> job;  // options of planner: "--precision", "fp8"
  std::optional<Sizes> sizes;
  std::string model;                   // a name that the files give it; "" none
  std::vector<std::string> notes;

  void say(std::string_view key) { said.push_back(key); }
  bool says(std::string_view key) const;
  void ask(std::string option, std::string value) {
    job.emplace_back(std::move(option), std::move(value));
  }
};

// The degrees that follow from the number of GPUs, the accumulation from the batch, the model's
// name from its sizes; options and pins.
Setup finish(Facts& facts, const Given& given);

// The greatest norm of a step's gradients, from the first of the settings that states one; else the
// framework's own. "auto" states none; 0, and what no norm reaches, are no limit.
void read_clip(Facts& facts, std::initializer_list<std::string_view> settings, double by_default);

// Readers, one a format. Problems go to the facts.
void read_megatron(Facts& facts);
void read_torchtitan(Facts& facts, const Given& given);
// module: torchtitan's module that the model is of; where: the call that names the model.
void read_torchtitan_python(Facts& facts, const Given& given, std::string_view module,
                            const std::string& where);
void read_hugging_face(Facts& facts);

// Models of the zoo that have these sizes, the one whose context is nearest first. What does not
// change memory, communication or time is not compared. O(zoo).
std::vector<std::string> models_of_sizes(const Sizes& sizes);
bool has_sizes(const Sizes& sizes, const models::ModelSpec& spec);

}  // namespace reports::imports
