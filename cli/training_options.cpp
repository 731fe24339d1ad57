#include "cli/training_options.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/number_list.hpp"
#include "cli/output.hpp"

namespace cli {
namespace {

struct NamedOption {
  const char* name;
  const std::optional<std::string>* word;
};

std::array<NamedOption, 8> named(const TrainingWords& w) {
  return {{{"--lr", &w.lr},
           {"--warmup", &w.warmup},
           {"--decay", &w.decay},
           {"--lr-end", &w.lr_end},
           {"--decay-steps", &w.decay_steps},
           {"--weight-decay", &w.weight_decay},
           {"--betas", &w.betas},
           {"--eps", &w.eps}}};
}

std::optional<double> number(const std::optional<std::string>& text, std::string_view option,
                             core::Problems& problems) {
  if (!text) return std::nullopt;
  const auto value = parse_decimal(*text);
  if (!value)
    problems.push_back({std::string(option), "a number, as 0.1 or 6e-4",
                        fmt::format("\"{}\"", *text), ""});
  return value;
}

std::optional<exec::Decay> decay_of(const std::optional<std::string>& text,
                                    core::Problems& problems) {
  if (!text) return std::nullopt;
  const auto at = std::ranges::find(exec::kDecays, std::string_view(*text),
                                    [](exec::Decay d) { return exec::name(d); });
  if (at != exec::kDecays.end()) return *at;
  problems.push_back({"--decay", "constant, cosine or linear", fmt::format("\"{}\"", *text), ""});
  return std::nullopt;
}

void read_betas(const std::optional<std::string>& text, exec::TrainingWishes& wishes,
                core::Problems& problems) {
  if (!text) return;
  const std::vector<std::string> parts = split_list(*text);
  const bool few = !parts.empty() && parts.size() <= wishes.betas.size();
  for (std::size_t i = 0; few && i < parts.size(); ++i) wishes.betas[i] = parse_decimal(parts[i]);
  const bool numbers = few && std::all_of(wishes.betas.begin(),
                                          wishes.betas.begin() + std::ssize(parts),
                                          [](const auto& beta) { return beta.has_value(); });
  if (numbers) return;
  wishes.betas = {};
  problems.push_back({"--betas", "one or two numbers, as 0.9,0.95", fmt::format("\"{}\"", *text),
                      ""});
}

}  // namespace

std::vector<std::string> TrainingWords::words() const {
  std::vector<std::string> all;
  for (const auto& [name, word] : named(*this))
    if (*word) all.insert(all.end(), {name, **word});
  return all;
}

void add_training_options(OptionSet& set, TrainingWords& words) {
  set.group("Training");
  set.text("--lr", words.lr, "X", "learning rate (the optimizer's default: 0.001 for adamw)");
  set.text("--warmup", words.warmup, "N", "steps in which it grows to that (0)");
  set.text("--decay", words.decay, "HOW", "how it falls then: constant (default), cosine, linear");
  set.text("--lr-end", words.lr_end, "X", "learning rate at the end of the decay (0)");
  set.text("--decay-steps", words.decay_steps, "N",
           "step at which the decay ends, the warm-up included (the run's last)");
  set.text("--weight-decay", words.weight_decay, "X",
           "of matrices, not of norms and biases (0.01 for adamw, else 0)");
  set.text("--betas", words.betas, "B1,B2",
           "decay of the optimizer's moments (0.9,0.999 for adamw)");
  set.text("--eps", words.eps, "X", "what is added to the divisor of an update (1e-8 for adamw)");
}

exec::TrainingWishes read_training(const TrainingWords& words, core::Problems& problems) {
  exec::TrainingWishes wishes;
  wishes.learning_rate = number(words.lr, "--lr", problems);
  wishes.learning_rate_end = number(words.lr_end, "--lr-end", problems);
  wishes.weight_decay = number(words.weight_decay, "--weight-decay", problems);
  wishes.epsilon = number(words.eps, "--eps", problems);
  wishes.warmup_steps = whole_number(words.warmup, "--warmup", 0, problems);
  wishes.decay_steps = whole_number(words.decay_steps, "--decay-steps", 1, problems);
  wishes.decay = decay_of(words.decay, problems);
  read_betas(words.betas, wishes, problems);
  return wishes;
}

}  // namespace cli
