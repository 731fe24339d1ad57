#include "cli/failure_options.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/choose.hpp"
#include "cli/number_list.hpp"
#include "cli/output.hpp"
#include "core/parse_units.hpp"

namespace cli {
namespace {

using hw_profiles::Failing;
using hw_profiles::FailureRate;

constexpr double kLongestTime = 1e12;      // seconds
constexpr std::int64_t kMostSpareNodes = 1 << 20;

using Named = std::pair<const char*, const std::optional<std::string>*>;

std::array<Named, 9> beside_rates(const FailureWords& w) {
  return {Named{"--save", &w.save},
          {"--storage", &w.storage},
          {"--saves", &w.saves},
          {"--save-every", &w.save_every},
          {"--detect", &w.detect},
          {"--restart", &w.restart},
          {"--spare-nodes", &w.spare_nodes},
          {"--repair", &w.repair},
          {"--horizon", &w.horizon}};
}

std::optional<engine::Saving> saving_from(std::string_view text) {
  for (const auto s : {engine::Saving::sync, engine::Saving::async, engine::Saving::memory})
    if (name(s) == text) return s;
  return std::nullopt;
}

void read_saves(const FailureWords& w, engine::Saving& saving, core::Problems& problems) {
  choose(w.saves, "--saves", saving_from, {"sync", "async", "memory"}, saving, problems);
}

std::optional<core::BytesPerSecond> read_storage(const FailureWords& w,
                                                 core::Problems& problems) {
  if (!w.storage) return std::nullopt;
  const core::Result<core::BytesPerSecond> rate = core::parse_bandwidth(*w.storage, "--storage");
  if (!rate.ok())
    core::append(problems, rate);
  else if (rate->value() <= 0)
    problems.push_back({"--storage", "a bandwidth above 0", *w.storage, "write 200GB/s"});
  else
    return *rate;
  return std::nullopt;
}

class FailureReader {
 public:
  FailureReader(const FailureWords& words, core::Problems& problems)
      : w_(words), problems_(problems) {}

  planner::FailureOptions run() {
    if (w_.mtbf) read_mtbf();
    for (const std::string& text : w_.failures) read_rates(text);
    read_saves(w_, o_.saving, problems_);
    read_save();
    if (!w_.restart)
      problems_.push_back(
          {"--restart", "how long a restart takes", "none", "write --restart 10min"});
    o_.restart = duration(w_.restart, "--restart", 0).value_or(core::Seconds(0));
    o_.detect = duration(w_.detect, "--detect", 0).value_or(core::Seconds(0));
    o_.repair = duration(w_.repair, "--repair", 0);
    o_.spares = whole(w_.spare_nodes, "--spare-nodes", 0, kMostSpareNodes);
    o_.interval = whole(w_.save_every, "--save-every", 1, std::int64_t{1} << 50);
    if (const auto horizon = duration(w_.horizon, "--horizon", 1)) o_.horizon = *horizon;
    return std::move(o_);
  }

 private:
  std::optional<core::Seconds> duration(const std::optional<std::string>& text, const char* option,
                                        double low) {
    return text ? duration(*text, option, low) : std::nullopt;
  }
  std::optional<core::Seconds> duration(const std::string& text, const char* option, double low) {
    const core::Result<core::Seconds> value = core::parse_duration(text, option);
    if (!value.ok()) {
      core::append(problems_, value);
      return std::nullopt;
    }
    if (value->value() >= low && value->value() <= kLongestTime) return *value;
    problems_.push_back({option, fmt::format("from {:g} s to 10^12 s", low), text, ""});
    return std::nullopt;
  }

  std::optional<std::int64_t> whole(const std::optional<std::string>& text, const char* option,
                                    std::int64_t low, std::int64_t most) {
    const auto value = whole_number(text, option, low, problems_);
    if (!value || *value <= most) return value;
    problems_.push_back({option, fmt::format("at most {}", most), *text, ""});
    return std::nullopt;
  }

  void read_mtbf() {
    if (!w_.failures.empty())
      problems_.push_back({"--mtbf", "either --mtbf or --failures", "both",
                           "write the GPUs' as --failures gpu=50000h"});
    const auto between = duration(w_.mtbf, "--mtbf", 1);
    if (between) o_.rates.push_back({Failing::gpu, *between});
  }

  void read_save() {
    if (w_.save && w_.storage)
      problems_.push_back({"--save", "either --save or --storage", "both",
                           "leave out the one that you know less well"});
    if (!w_.save && !w_.storage)
      problems_.push_back({"--save", "a duration: nothing is known of this cluster's storage",
                           "none", "write --save 60s, or --storage 200GB/s"});
    o_.save = duration(w_.save, "--save", 0);
    o_.storage = read_storage(w_, problems_);
  }

  // A file's name, or "gpu=50000h,node=30000h,repair=24h".
  void read_rates(const std::string& text) {
    if (text.find('=') == std::string::npos) return read_file(text);
    for (const std::string& item : split_list(text)) read_item(item, text);
    const bool open = std::ranges::any_of(o_.rates, [](const FailureRate& r) {
      return r.what == Failing::a_switch && r.nodes == 0;
    });
    if (open) wrong(text, "nodes=N after switch=TIME: how many nodes a switch serves");
  }

  void read_file(const std::string& text) {
    const core::Result<hw_profiles::FailureRates> file = hw_profiles::find_failures(text);
    if (!file.ok()) return core::append(problems_, file);
    o_.rates_of = file->id;
    o_.sources = file->sources;
    for (const FailureRate& rate : file->rates) add(rate, text);
  }

  void read_item(const std::string& item, const std::string& text) {
    const std::size_t equals = item.find('=');
    const std::string key = item.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
    const auto kind = std::ranges::find(hw_profiles::kFailing, key,
                                        [](Failing f) { return name(f); });
    if (kind != hw_profiles::kFailing.end()) {
      const auto between = duration(value, "--failures", 1);
      if (between) add({*kind, *between, *kind == Failing::a_switch ? 0 : 1}, text);
      return;
    }
    if (o_.rates.empty() || (key != "repair" && key != "nodes"))
      return wrong(text, "gpu, node, network, switch or software=TIME, each followed by "
                         "repair=TIME or, of a switch, nodes=N where you know them");
    FailureRate& rate = o_.rates.back();
    if (key == "repair") {
      rate.repair = duration(value, "--failures", 0);
      return;
    }
    const auto nodes = parse_number(value);
    if (rate.what == Failing::a_switch && nodes && *nodes <= kMostSpareNodes)
      rate.nodes = *nodes;
    else
      wrong(text, "nodes=N, from 1 on, after switch=TIME");
  }

  void add(const FailureRate& rate, const std::string& text) {
    if (std::ranges::find(o_.rates, rate.what, &FailureRate::what) != o_.rates.end())
      return wrong(text, fmt::format("each kind once; {} is there twice", name(rate.what)));
    o_.rates.push_back(rate);
  }

  void wrong(const std::string& text, std::string expected) {
    problems_.push_back({"--failures", std::move(expected), '"' + text + '"',
                         "write --failures gpu=50000h,switch=200000h,nodes=16,repair=4h, or name "
                         "llama3-405b"});
  }

  const FailureWords& w_;
  core::Problems& problems_;
  planner::FailureOptions o_;
};

}  // namespace

std::vector<std::string> FailureWords::given() const {
  std::vector<std::string> names;
  if (!failures.empty()) names.emplace_back("--failures");
  if (mtbf) names.emplace_back("--mtbf");
  for (const auto& [option, text] : beside_rates(*this))
    if (*text) names.emplace_back(option);
  return names;
}

void add_failure_options(OptionSet& set, FailureWords& w) {
  set.group("Failures");
  set.text("--mtbf", w.mtbf, "TIME",
           "mean time between failures of one GPU: goodput, best checkpoint interval");
  set.texts("--failures", w.failures, "KIND=TIME,...|NAME",
            "the same of each gpu, node, network, switch, software; or published: llama3-405b");
  set.text("--save", w.save, "TIME", "time to write a checkpoint (with failures)");
  set.text("--storage", w.storage, "RATE",
           "or the bandwidth of its storage for the job, as 200GB/s: --save by the plan's bytes; "
           "with flows, over the links of the steps");
  set.text("--saves", w.saves, "HOW",
           "sync (default): steps wait; async: written behind steps; memory: on another node");
  set.text("--save-every", w.save_every, "N", "steps between checkpoints (the best number)");
  set.text("--detect", w.detect, "TIME", "time until a failure is noticed (0s)");
  set.text("--restart", w.restart, "TIME",
           "time from then until steps run again (with failures)");
  set.text("--spare-nodes", w.spare_nodes, "N", "nodes that stand by (always enough)");
  set.text("--repair", w.repair, "TIME", "time until a failed part and its node are back");
  set.text("--horizon", w.horizon, "TIME", "how long a run with failures is played (30d)");
}

std::optional<planner::FailureOptions> read_failures(const FailureWords& words, bool over_links,
                                                     core::Problems& problems) {
  if (words.mtbf || !words.failures.empty()) return FailureReader(words, problems).run();
  for (const auto& [name, given] : beside_rates(words))
    if (*given && !(over_links && (given == &words.storage || given == &words.saves)))
      problems.push_back({name, "--mtbf or --failures beside it", "none",
                          given == &words.storage
                              ? "write --mtbf 50000h, or --links shared for what checkpoints cost"
                              : "write --mtbf 50000h"});
  return std::nullopt;
}

std::optional<planner::CheckpointOptions> read_checkpoint(
    const FailureWords& words, const std::optional<planner::FailureOptions>& failures,
    core::Problems& problems) {
  auto saving = engine::Saving::sync;
  planner::CheckpointOptions o;
  if (failures) {
    saving = failures->saving;
    o.storage = failures->storage;
  } else {
    read_saves(words, saving, problems);
    o.storage = read_storage(words, problems);
  }
  o.to_nodes = saving == engine::Saving::memory;
  if (o.to_nodes || o.storage) return o;
  if (words.saves && !failures)
    problems.push_back({"--saves", "the bandwidth of the storage beside it", *words.saves,
                        "write --storage 200GB/s"});
  return std::nullopt;
}

}  // namespace cli
