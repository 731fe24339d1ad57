#include "planner/strategy/keys.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include "core/check.hpp"
#include "models/splits.hpp"
#include "planner/strategy/names.hpp"

namespace planner {
namespace {

constexpr std::array<std::string_view, 3> kOffloads{"optimizer", "params", "activations"};

// Beyond any cluster; small enough that products of two degrees stay below 2^63.
constexpr std::int64_t kMaxDegree = std::int64_t{1} << 24;
constexpr std::int64_t kMaxBatch = std::int64_t{1} << 30;
constexpr std::int64_t kMaxBucket = std::int64_t{1} << 40;
constexpr std::int64_t kMaxLossChunks = 1024;  // each has its actions in the Program
constexpr std::size_t kMaxStages = 65'536;

template <auto Field>
StrategyKey scalar(std::string_view name, KeyShapes shapes, KeyKind kind, std::int64_t low,
                   std::int64_t high, std::span<const std::string_view> choices = {}) {
  return {.name = name,
          .kind = kind,
          .shapes = shapes,
          .low = low,
          .high = high,
          .choices = choices,
          .get = [](const Strategy& s) { return static_cast<std::int64_t>(s.*Field); },
          .put =
              [](Strategy& s, std::int64_t value) {
                using T = std::remove_reference_t<decltype(s.*Field)>;
                s.*Field = static_cast<T>(value);
              }};
}
template <auto Field>
StrategyKey degree(std::string_view name, KeyShapes shapes) {
  return scalar<Field>(name, shapes, KeyKind::count, 1, kMaxDegree);
}
template <auto Field>
StrategyKey flag(std::string_view name, KeyShapes shapes) {
  return scalar<Field>(name, shapes, KeyKind::boolean, 0, 1);
}
// Files that were written before the key was there do not have it.
StrategyKey since_then(StrategyKey key) {
  key.optional = true;
  return key;
}
template <auto Field>
StrategyKey choice(std::string_view name, KeyShapes shapes,
                   std::span<const std::string_view> choices) {
  return scalar<Field>(name, shapes, KeyKind::choice, 0, std::ssize(choices) - 1, choices);
}

std::vector<StrategyKey> make_keys() {
  using S = Strategy;
  using enum KeyShapes;
  return {
      degree<&S::data>("data", stage),
      degree<&S::tensor>("tensor", graph),
      degree<&S::pipeline>("pipeline", stage),
      degree<&S::context>("context", graph),
      since_then(choice<&S::context_method>("context_method", graph, kContextMethodNames)),
      degree<&S::expert>("expert", graph),
      since_then(scalar<&S::expert_tensor>("expert_tensor", graph, KeyKind::count, 0, kMaxDegree)),
      since_then(degree<&S::split>("split", graph)),
      since_then({.name = "splits", .kind = KeyKind::annotations, .shapes = graph,
                  .words = &S::splits,
                  .example = "auto or operators with the factor along which ranks divide them, as "
                             "fc*=out,fc7=in (sample, out, in); *=auto searches for the others"}),
      since_then(choice<&S::batch_norm>("batch_norm", graph, kBatchNormNames)),
      flag<&S::sequence_parallel>("sequence_parallel", graph),
      degree<&S::virtual_stages>("virtual_stages", schedule),
      choice<&S::schedule>("schedule", schedule, kScheduleNames),
      {.name = "stages", .kind = KeyKind::numbers, .shapes = stage, .low = 0,
       .numbers = &S::stages, .example = "auto or layer counts, as 12,12 or 3,4*30,3"},
      choice<&S::partition>("partition", graph, kPartitionNames),
      {.name = "parts", .kind = KeyKind::numbers, .shapes = graph, .low = 1, .numbers = &S::parts,
       .example = "auto or the rank of each operator, from 1, as 1,2,1 or 1*9,2*9"},
      choice<&S::sharding>("sharding", stage, kShardingNames),
      degree<&S::shard_group>("shard_group", stage),
      scalar<&S::micro_batch>("micro_batch", schedule, KeyKind::count, 1, kMaxBatch),
      scalar<&S::grad_accum>("grad_accum", schedule, KeyKind::count, 1, kMaxBatch),
      since_then({.name = "shares", .kind = KeyKind::numbers, .shapes = schedule, .low = 1,
                  .numbers = &S::shares,
                  .example = "auto or micro-batches of a step by data rank, as 3*8,1*8"}),
      choice<&S::checkpoint>("checkpoint", passes, kCheckpointNames),
      scalar<&S::checkpoint_every>("checkpoint_every", passes, KeyKind::count, 0, kMaxDegree),
      since_then({.name = "recompute_modules", .kind = KeyKind::words, .shapes = passes,
                  .choices = models::kModuleNames, .set = &S::recompute_modules}),
      choice<&S::grad_sync>("grad_sync", stage, kGradSyncNames),
      scalar<&S::servers>("servers", stage, KeyKind::count, 0, kMaxDegree),
      flag<&S::servers_colocated>("servers_colocated", stage),
      choice<&S::server_mode>("server_mode", schedule, kServerModeNames),
      flag<&S::overlap>("overlap", stage),
      scalar<&S::bucket_bytes>("bucket_bytes", stage, KeyKind::bytes, 1, kMaxBucket),
      flag<&S::tp_overlap>("tp_overlap", stage),
      since_then(choice<&S::expert_dispatch>("expert_dispatch", stage, kExpertDispatchNames)),
      since_then(flag<&S::expert_overlap>("expert_overlap", stage)),
      since_then(scalar<&S::loss_chunks>("loss_chunks", graph, KeyKind::count, 1, kMaxLossChunks)),
      {.name = "offload", .kind = KeyKind::words, .shapes = stage, .choices = kOffloads,
       .words = &S::offload},
      {.name = "mesh_order", .kind = KeyKind::words, .shapes = stage, .choices = kDegreeNames},
  };
}

// The most usual other name of a key first.
constexpr std::array kOtherKeyNames{
    OtherKeyName{"dp", "data"}, OtherKeyName{"data_parallel", "data"},
    OtherKeyName{"tp", "tensor"}, OtherKeyName{"tensor_parallel", "tensor"},
    OtherKeyName{"tensor_model_parallel_size", "tensor"},
    OtherKeyName{"pp", "pipeline"}, OtherKeyName{"pipeline_parallel", "pipeline"},
    OtherKeyName{"pipeline_model_parallel_size", "pipeline"},
    OtherKeyName{"cp", "context"}, OtherKeyName{"context_parallel", "context"},
    OtherKeyName{"context_parallel_size", "context"},
    OtherKeyName{"cp_method", "context_method"},
    OtherKeyName{"ep", "expert"}, OtherKeyName{"expert_parallel", "expert"},
    OtherKeyName{"expert_model_parallel_size", "expert"},
    OtherKeyName{"etp", "expert_tensor"},
    OtherKeyName{"expert_tensor_parallel_size", "expert_tensor"},
    OtherKeyName{"moe_token_dispatcher_type", "expert_dispatch"},
    OtherKeyName{"overlap_moe_expert_parallel_comm", "expert_overlap"},
    OtherKeyName{"sync_batchnorm", "batch_norm"},
    OtherKeyName{"sp", "sequence_parallel"}, OtherKeyName{"seq_parallel", "sequence_parallel"},
    OtherKeyName{"vpp", "virtual_stages"}, OtherKeyName{"vp", "virtual_stages"},
    OtherKeyName{"zero", "sharding"}, OtherKeyName{"zero_stage", "sharding"},
    OtherKeyName{"hsdp", "shard_group"}, OtherKeyName{"shard_size", "shard_group"},
    OtherKeyName{"mbs", "micro_batch"}, OtherKeyName{"micro_batch_size", "micro_batch"},
    OtherKeyName{"gas", "grad_accum"}, OtherKeyName{"ga", "grad_accum"},
    OtherKeyName{"gradient_accumulation", "grad_accum"},
    OtherKeyName{"gradient_accumulation_steps", "grad_accum"},
    OtherKeyName{"ac", "checkpoint"}, OtherKeyName{"recompute", "checkpoint"},
    OtherKeyName{"activation_checkpointing", "checkpoint"},
    OtherKeyName{"gradient_checkpointing", "checkpoint"}, OtherKeyName{"remat", "checkpoint"},
    OtherKeyName{"bucket", "bucket_bytes"}, OtherKeyName{"bucket_size", "bucket_bytes"},
};

// Schedules' are in their rows.
constexpr std::array kOtherValueNames{
    OtherValueName{"sharding", "0", "none"}, OtherValueName{"sharding", "1", "zero1"},
    OtherValueName{"sharding", "2", "zero2"}, OtherValueName{"sharding", "3", "zero3"},
    OtherValueName{"sharding", "zero_1", "zero1"}, OtherValueName{"sharding", "zero_2", "zero2"},
    OtherValueName{"sharding", "zero_3", "zero3"}, OtherValueName{"sharding", "ddp", "none"},
    OtherValueName{"sharding", "fsdp", "zero3"}, OtherValueName{"sharding", "full_shard", "zero3"},
    OtherValueName{"sharding", "shard_grad_op", "zero2"},
    OtherValueName{"checkpoint", "full", "every_k(1)"},
    OtherValueName{"checkpoint", "true", "every_k(1)"},
    OtherValueName{"checkpoint", "on", "every_k(1)"},
    OtherValueName{"checkpoint", "false", "none"}, OtherValueName{"checkpoint", "off", "none"},
    OtherValueName{"batch_norm", "true", "synchronised"},
    OtherValueName{"batch_norm", "sync", "synchronised"},
    OtherValueName{"batch_norm", "false", "local"},
    OtherValueName{"context_method", "ulysses", "exchange"},
    OtherValueName{"expert_dispatch", "alltoall", "all_to_all"},
    OtherValueName{"expert_dispatch", "flex", "deepep"},
    OtherValueName{"expert_dispatch", "hybridep", "deepep"},
    OtherValueName{"context_method", "a2a", "exchange"},
    OtherValueName{"context_method", "all_to_all", "exchange"},
    OtherValueName{"context_method", "all_gather", "gather"},
    OtherValueName{"grad_sync", "nccl", "auto"},
    OtherValueName{"grad_sync", "ps", "parameter_server"},
    OtherValueName{"offload", "weights", "params"},
    OtherValueName{"offload", "parameters", "params"},
    OtherValueName{"mesh_order", "tp", "tensor"}, OtherValueName{"mesh_order", "cp", "context"},
    OtherValueName{"mesh_order", "dp", "data"}, OtherValueName{"mesh_order", "pp", "pipeline"},
};

// "ZeRO-3" -> "zero_3".
std::string plain(std::string_view typed) {
  std::string text(typed);
  for (char& c : text)
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string joined(const auto& items, std::string_view separator) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += separator;
    text += item;
  }
  return text;
}

std::optional<std::int64_t> at_least(std::int64_t low, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low) return std::nullopt;
  return value;
}

}  // namespace

std::span<const StrategyKey> strategy_keys() {
  static const std::vector<StrategyKey> keys = make_keys();
  return keys;
}

const StrategyKey* find_strategy_key(std::string_view name) {
  for (const StrategyKey& key : strategy_keys())
    if (key.name == name) return &key;
  return nullptr;
}

// Asked for every structure of a search.
bool same(KeyShapes shapes, const Strategy& a, const Strategy& b) {
  return (shapes < KeyShapes::stage || a.stages == b.stages) && same_but_stages(shapes, a, b);
}

bool same_but_stages(KeyShapes shapes, const Strategy& a, const Strategy& b) {
  static const std::vector<StrategyKey> keys = [] {
    std::vector<StrategyKey> all = make_keys();
    std::erase_if(all, [](const StrategyKey& key) { return key.numbers == &Strategy::stages; });
    std::ranges::stable_sort(all, {}, &StrategyKey::shapes);
    return all;
  }();
  for (const StrategyKey& key : keys) {
    if (key.shapes > shapes) break;
    const bool equal = key.get != nullptr       ? key.get(a) == key.get(b)
                       : key.numbers != nullptr ? a.*key.numbers == b.*key.numbers
                       : key.words != nullptr   ? a.*key.words == b.*key.words
                       : key.set != nullptr     ? a.*key.set == b.*key.set
                                                : a.mesh_order == b.mesh_order;
    if (!equal) return false;
  }
  return true;
}

std::vector<std::string_view> strategy_key_names() {
  std::vector<std::string_view> names;
  for (const StrategyKey& key : strategy_keys()) names.push_back(key.name);
  return names;
}

std::span<const OtherKeyName> other_key_names() { return kOtherKeyNames; }
std::span<const OtherValueName> other_value_names() {
  static const std::vector<OtherValueName> names = [] {
    std::vector<OtherValueName> all(kOtherValueNames.begin(), kOtherValueNames.end());
    for (const ScheduleDef& def : kSchedules)
      for (const std::string_view other : def.other_names)
        if (!other.empty()) all.push_back({"schedule", other, def.name});
    return all;
  }();
  return names;
}

const StrategyKey* strategy_key_meant(std::string_view typed) {
  const std::string name = plain(typed);
  if (const StrategyKey* key = find_strategy_key(name)) return key;
  const auto other = std::ranges::find(kOtherKeyNames, name, &OtherKeyName::name);
  return other == kOtherKeyNames.end() ? nullptr : find_strategy_key(other->key);
}

std::string value_meant(const StrategyKey& key, std::string_view typed) {
  if (key.kind == KeyKind::boolean) return plain(typed);
  if (key.choices.empty()) return std::string(typed);
  const std::string name = plain(typed);
  for (const OtherValueName& other : other_value_names())
    if (other.key == key.name && other.name == name) return std::string(other.value);
  const bool own = std::ranges::find(key.choices, name) != key.choices.end();
  const bool carries = name.starts_with("every_k(") || name.starts_with("modules(");
  return own || carries ? name : std::string(typed);
}

std::string strategy_key_list() {
  std::string text;
  for (const StrategyKey& key : strategy_keys()) {
    const auto other = std::ranges::find(kOtherKeyNames, key.name, &OtherKeyName::key);
    text += fmt::format("{}{}", text.empty() ? "" : ", ", key.name);
    if (other != kOtherKeyNames.end()) text += fmt::format(" ({})", other->name);
  }
  return text;
}

std::vector<std::string> expanded(const StrategyKey& key, std::vector<std::string> items) {
  if (key.kind != KeyKind::numbers) return items;
  std::vector<std::string> all;
  for (std::string& item : items) {
    const std::size_t star = item.find('*');
    const auto times = star == std::string::npos ? std::optional<std::int64_t>(1)
                                                 : at_least(1, item.substr(star + 1));
    const bool fits = times && *times <= static_cast<std::int64_t>(kMaxStages - all.size());
    if (!fits) return items;           // list_problem says what is expected
    all.insert(all.end(), static_cast<std::size_t>(*times), item.substr(0, star));
  }
  return all;
}

std::vector<std::string> list_value(const StrategyKey& key, const Strategy& strategy) {
  PLANNER_CHECK(key.is_list());
  if (key.words != nullptr) return strategy.*key.words;
  if (key.set != nullptr) return models::names_of(strategy.*key.set);
  std::vector<std::string> items;
  if (key.numbers != nullptr)
    for (std::int64_t n : strategy.*key.numbers) items.push_back(fmt::format("{}", n));
  else
    for (const Degree d : strategy.mesh_order)
      items.emplace_back(kDegreeNames[static_cast<std::size_t>(d)]);
  return items;
}

void put_list(const StrategyKey& key, Strategy& strategy, const std::vector<std::string>& items) {
  PLANNER_CHECK(key.is_list() && !list_problem(key, items));
  if (key.words != nullptr) {
    strategy.*key.words = items;
  } else if (key.set != nullptr) {
    models::ModuleSet& set = strategy.*key.set;
    set = 0;
    for (const std::string& item : items) {
      const auto at = std::ranges::find(key.choices, item) - key.choices.begin();
      set = models::both(set, models::set_of(static_cast<models::Module>(at)));
    }
  } else if (key.numbers == nullptr) {
    for (std::size_t i = 0; i < strategy.mesh_order.size(); ++i)
      strategy.mesh_order[i] =
          static_cast<Degree>(std::ranges::find(kDegreeNames, items[i]) - kDegreeNames.begin());
  } else {
    std::vector<std::int64_t>& numbers = strategy.*key.numbers;
    numbers.clear();
    for (const std::string& item : items) numbers.push_back(*at_least(key.low, item));
  }
}

std::optional<std::string> list_problem(const StrategyKey& key,
                                        const std::vector<std::string>& items) {
  if (key.kind == KeyKind::numbers) {
    const bool good = items.size() <= kMaxStages &&
                      std::ranges::all_of(items, [&](const std::string& item) {
                        const auto n = at_least(key.low, item);
                        return n && *n <= kMaxDegree;
                      });
    return good ? std::nullopt : std::optional(allowed_values(key));
  }
  if (key.kind == KeyKind::annotations) {
    const bool good = items.size() <= models::kMaxOperators &&
                      std::ranges::all_of(items, [](const std::string& item) {
                        return models::annotation_problem(item).empty();
                      });
    return good ? std::nullopt : std::optional(allowed_values(key));
  }
  std::vector<std::string> sorted = items;
  std::ranges::sort(sorted);
  const bool twice = std::ranges::adjacent_find(sorted) != sorted.end();
  const bool known = std::ranges::all_of(items, [&](const std::string& item) {
    return std::ranges::find(key.choices, item) != key.choices.end();
  });
  const bool part = key.words != nullptr || key.set != nullptr;
  const bool whole = part || items.size() == key.choices.size();
  return known && whole && !twice ? std::nullopt : std::optional(allowed_values(key));
}

std::string allowed_values(const StrategyKey& key) {
  switch (key.kind) {
    case KeyKind::count: return fmt::format("an integer from {} to {}", key.low, key.high);
    case KeyKind::bytes: return "a size of at least 1 byte, as 25MiB";
    case KeyKind::boolean: return "true or false";
    case KeyKind::choice: return fmt::format("one of {}", joined(key.choices, ", "));
    case KeyKind::numbers:
    case KeyKind::annotations: return std::string(key.example);
    case KeyKind::words: break;
  }
  if (key.words == nullptr && key.set == nullptr)
    return fmt::format("an order of all of {}", joined(key.choices, ","));
  return fmt::format("none or a list of {}", joined(key.choices, ","));
}

std::string value_text(const StrategyKey& key, const Strategy& strategy) {
  switch (key.kind) {
    case KeyKind::boolean: return key.get(strategy) != 0 ? "true" : "false";
    case KeyKind::choice:
      return std::string(key.choices[static_cast<std::size_t>(key.get(strategy))]);
    case KeyKind::count:
    case KeyKind::bytes: return fmt::format("{}", key.get(strategy));
    case KeyKind::numbers:
    case KeyKind::words:
    case KeyKind::annotations: break;
  }
  if (key.kind == KeyKind::numbers) {
    const std::vector<std::int64_t>& numbers = strategy.*key.numbers;
    return numbers.empty() ? "auto" : stages_text(numbers);
  }
  const std::vector<std::string> items = list_value(key, strategy);
  if (items.empty()) return key.kind == KeyKind::annotations ? "auto" : "none";
  return joined(items, ",");
}

}  // namespace planner
