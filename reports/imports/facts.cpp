// From what the files say to the question: degrees that follow, the model's name, options and pins.
#include "reports/imports/facts.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/zoo.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/keys.hpp"

namespace reports::imports {
namespace {

std::vector<std::string> pins_of(const Facts& f) {
  std::vector<std::string> pins;
  for (const planner::StrategyKey& key : planner::strategy_keys()) {
    if (!f.says(key.name)) continue;
    pins.push_back(fmt::format("{}={}", key.name,
                               key.name == "checkpoint" ? planner::checkpoint_text(f.strategy)
                                                        : planner::value_text(key, f.strategy)));
  }
  return pins;
}

constexpr std::int64_t kMostRanks = std::int64_t{1} << 20, kMostSamples = std::int64_t{1} << 30;

void set_data_ranks(Facts& f) {
  planner::Strategy& s = f.strategy;
  for (const std::int64_t n : {f.gpus.value_or(1), s.tensor, s.pipeline, s.context})
    if (n > kMostRanks)
      f.problems.push_back({"the number of GPUs and the degrees", fmt::format("at most {}",
                                                                              kMostRanks),
                            std::to_string(n), ""});
  if (!f.gpus || !f.problems.empty()) return;
  const std::int64_t ranks = s.tensor * s.pipeline * s.context;
  if (*f.gpus % ranks != 0) {
    f.problems.push_back(
        {"the number of GPUs",
         fmt::format("a multiple of {}, tensor {} x pipeline {} x context {}", ranks, s.tensor,
                     s.pipeline, s.context),
         std::to_string(*f.gpus), "say another number with --gpus"});
    return;
  }
  s.data = *f.gpus / ranks;
  f.say("data");
  if (s.data_ranks() == 1) s.sharding = planner::Sharding::none;  // nothing to divide it over
  const std::int64_t group = f.shard_ranks.value_or(s.data) * s.context;
  s.shard_group = s.sharding == planner::Sharding::none ? 1 : group;
  if (s.sharding != planner::Sharding::none && group < s.data_ranks()) f.say("shard_group");
  if (s.data_ranks() == 1) std::erase(f.said, std::string_view("overlap"));
}

// The batch, the micro-batch and the accumulation, two of which state the third.
void set_batch(Facts& f) {
  planner::Strategy& s = f.strategy;
  if (!f.gpus || !f.says("micro_batch")) return;
  const std::int64_t at_once = s.micro_batch * s.data;
  if (!f.global_batch && f.grad_accum && *f.grad_accum <= kMostSamples / at_once)
    f.global_batch = at_once * *f.grad_accum;
  if (!f.global_batch) return;
  if (*f.global_batch % at_once != 0) {
    f.problems.push_back({"the global batch",
                          fmt::format("a multiple of {}, micro_batch {} x data {}", at_once,
                                      s.micro_batch, s.data),
                          std::to_string(*f.global_batch), "say another number of --gpus"});
    return;
  }
  s.grad_accum = *f.global_batch / at_once;
  if (f.grad_accum && *f.grad_accum != s.grad_accum)
    f.problems.push_back({"gradient accumulation",
                          fmt::format("{}, as the batches and data {} say", s.grad_accum, s.data),
                          std::to_string(*f.grad_accum), "say the number of GPUs with --gpus"});
}

void set_model(Facts& f, const Given& given, Setup& setup) {
  setup.model = given.model.empty() ? f.model : given.model;
  if (!f.sizes) return;
  Sizes& sizes = *f.sizes;
  if (!setup.model.empty()) {
    const auto named = models::find_model(setup.model);
    if (named.ok() && !has_sizes(sizes, *named))
      f.notes.push_back(fmt::format("model: {} as asked for, although the files state other sizes",
                                    setup.model));
    return;
  }
  if (given.vocab) sizes.vocabs = {*given.vocab};
  constexpr std::int64_t kAny = 2;      // passes the check where nobody says
  sizes.spec.vocab = sizes.vocabs.empty() ? kAny : sizes.vocabs.front();
  if (core::Problems problems = models::check_spec(sizes.spec); !problems.empty()) {
    f.problems.insert(f.problems.end(), problems.begin(), problems.end());
    return;
  }
  const std::vector<std::string> names = models_of_sizes(sizes);
  if (!names.empty()) {
    setup.model = names.front();
    const std::vector<std::string> others(names.begin() + 1, names.end());
    f.notes.push_back(fmt::format("model: {} has these sizes{}{}", names.front(),
                                  others.empty() ? "" : "; so has ",
                                  fmt::join(others, ", ")));
    return;
  }
  if (sizes.vocabs.empty()) {
    f.problems.push_back({"the model", "the size of its vocabulary", "none",
                          "say it with --vocab, or name the model with --model"});
    return;
  }
  if (sizes.vocabs.size() > 1)
    f.notes.push_back(fmt::format("model: a vocabulary of {}, one more than --vocab-size says: the "
                                  "end of a text", sizes.spec.vocab));
  sizes.spec.name = "imported";
  sizes.spec.default_seq_len = f.seq_len.value_or(sizes.spec.positions);
  sizes.spec.default_global_batch = f.global_batch.value_or(1);
  setup.spec = sizes.spec;
}

// A model that has modules for multi-token prediction is planned with them, unless asked not to.
void set_modules(const Facts& f, Setup& setup) {
  if (!f.mtp_layers) return;
  const auto model = setup.spec ? core::Result<models::ModelSpec>(*setup.spec)
                                : models::find_model(setup.model);
  const bool has = model.ok() && model->mtp_layers > 0;
  if (has || *f.mtp_layers > 0)
    setup.options.emplace_back("--mtp", std::to_string(*f.mtp_layers));
}

// Whether the framework stores more rows of the vocabulary than the plan counts.
void check_padding(Facts& f, const Setup& setup) {
  if (!f.vocab_multiple || !f.problems.empty()) return;
  std::int64_t vocab = setup.spec ? setup.spec->vocab : 0;
  if (vocab == 0)
    if (const auto model = models::find_model(setup.model); model.ok()) vocab = model->vocab;
  const auto rounded = [&](std::int64_t unit) { return (vocab + unit - 1) / unit * unit; };
  const std::int64_t stored = rounded(*f.vocab_multiple * f.strategy.tensor),
                     planned = rounded(f.strategy.tensor);
  if (stored == planned) return;
  f.settings.leave_default(
      "--make-vocab-size-divisible-by", std::to_string(*f.vocab_multiple),
      fmt::format("{} rows of the vocabulary are stored; {} are planned, rounded up to a multiple "
                  "of the tensor ranks alone", stored, planned));
}

}  // namespace

bool Facts::says(std::string_view key) const {
  return std::ranges::find(said, key) != said.end();
}

void read_clip(Facts& f, std::initializer_list<std::string_view> settings, double by_default) {
  std::optional<double> clip;
  for (const std::string_view key : settings) {
    const bool open = std::ranges::any_of(f.settings.all(), [&](const Setting& one) {
      return one.key == key && (one.value() == "auto" || one.value() == "None");
    });
    if (open) f.settings.take(key, "--clip");
    else if (const auto stated = f.settings.number(key, "--clip"); !clip) clip = stated;
  }
  const double most = clip.value_or(by_default);
  if (most > 0 && most < planner::kMostClip) f.ask("--clip", fmt::format("{}", most));
}

Setup finish(Facts& f, const Given& given) {
  Setup setup;
  if (given.gpus) f.gpus = given.gpus;
  if (f.problems.empty()) set_data_ranks(f);
  if (f.problems.empty()) set_batch(f);
  if (f.problems.empty()) set_model(f, given, setup);
  if (!f.gpus)
    f.notes.emplace_back("the files do not say how many GPUs: say it with --gpus, and the degree "
                         "of data parallelism follows");
  setup.gpus = f.gpus;
  if (f.seq_len) setup.options.emplace_back("--seq", std::to_string(*f.seq_len));
  if (f.global_batch)
    setup.options.emplace_back("--global-batch", std::to_string(*f.global_batch));
  setup.options.emplace_back("--framework", f.framework);
  for (auto& option : f.job) setup.options.push_back(option);
  setup.pins = pins_of(f);
  if (f.problems.empty()) set_modules(f, setup);
  check_padding(f, setup);
  setup.notes = f.notes;
  for (const std::string& text : f.settings.defaults()) setup.notes.push_back(text);
  return setup;
}

}  // namespace reports::imports
