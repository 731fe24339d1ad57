#include "planner/search/released.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "core/parallel.hpp"
#include "planner/search/preference.hpp"

namespace planner {
namespace {

using Keys = std::vector<std::string_view>;

// Keys that only make sense to change together.
const std::array<Keys, 7>& small_groups() {
  static const std::array<Keys, 7> all{{
      {"micro_batch", "grad_accum"},
      {"checkpoint", "checkpoint_every", "recompute_modules"},
      {"sharding", "shard_group"},
      {"schedule", "virtual_stages", "stages"},
      {"grad_sync", "servers", "servers_colocated", "server_mode"},
      {"partition", "parts"},
      {"split", "splits"},
  }};
  return all;
}

// Other degrees mean other values of these too.
const Keys& follow_degrees() {
  static const Keys all{"data",        "tensor",         "pipeline",
                        "context",     "context_method", "expert",
                        "expert_tensor", "split",        "splits",
                        "sequence_parallel", "schedule", "virtual_stages",
                        "stages",      "shard_group",    "mesh_order",
                        "micro_batch", "grad_accum"};
  return all;
}

constexpr std::array<std::string_view, 6> kDegrees{"data", "tensor", "pipeline", "context",
                                                   "expert", "split"};

Keys pinned_of(const Keys& keys, const Constraints& constraints) {
  Keys pinned;
  for (const std::string_view key : keys)
    if (constraints.is_pinned(key)) pinned.push_back(key);
  return pinned;
}

Keys all_pinned(const Constraints& constraints) {
  return pinned_of(strategy_key_names(), constraints);
}

bool is_degree(std::string_view key) { return std::ranges::find(kDegrees, key) != kDegrees.end(); }

// The pinned keys of each group, and each pinned key of no small group; no two of them alike.
std::vector<Keys> single_changes(const Constraints& constraints) {
  std::vector<Keys> changes;
  const auto add = [&](Keys keys) {
    if (!keys.empty() && std::ranges::find(changes, keys) == changes.end())
      changes.push_back(std::move(keys));
  };
  for (const Keys& group : small_groups()) add(pinned_of(group, constraints));
  const Keys pinned = all_pinned(constraints);
  if (std::ranges::any_of(pinned, is_degree)) add(pinned_of(follow_degrees(), constraints));
  for (const std::string_view key : pinned) {
    const auto has = [&](const Keys& group) {
      return std::ranges::find(group, key) != group.end();
    };
    if (!is_degree(key) && std::ranges::none_of(small_groups(), has)) add({key});
  }
  return changes;
}

std::optional<Candidate> best_without(const Request& request, const Keys& keys) {
  Request freed = request;
  freed.robust.reset();
  freed.chain.reset();
  for (const std::string_view key : keys) freed.constraints.release(key);
  freed.top = 0;
  freed.candidate = 1;
  freed.brief = true;
  freed.fewer = false;
  freed.gpu_given = true;              // no other machine is asked about
  freed.tokens.reset();
  freed.progress = {};
  core::Result<Plan> plan = make_plan(freed);
  return plan.ok() ? std::move(plan->chosen) : std::nullopt;
}

// A change, what the rest of the pins then allow, and how that ranks.
struct Freed {
  Released::Scope scope{};
  Keys keys;
  std::optional<Candidate> best;
};

std::vector<Freed> changes_of(const Constraints& constraints) {
  std::vector<Freed> all;
  const auto add = [&](Released::Scope scope, Keys keys) {
    if (!keys.empty() && std::ranges::find(all, keys, &Freed::keys) == all.end())
      all.push_back({scope, std::move(keys), {}});
  };
  for (Keys& keys : single_changes(constraints)) add(Released::Scope::one, std::move(keys));
  const Keys pinned = all_pinned(constraints);
  Keys beside_degrees = pinned;
  std::erase_if(beside_degrees, is_degree);
  add(Released::Scope::all_but_degrees, std::move(beside_degrees));
  add(Released::Scope::all, pinned);
  return all;
}

}  // namespace

std::vector<Released> released_by(const Request& request, const Plan& mine) {
  std::vector<Freed> freed = changes_of(request.constraints);
  core::for_each_index(freed.size(), request.threads, [&](std::size_t i) {
    freed[i].best = best_without(request, freed[i].keys);
  });
  const auto rank = [&](const Candidate& c) { return rank_of(mine.job, c, request); };
  // What a narrower change found, a wider one allows too: pins that stay may have kept its own
  // search from what hosts hold.
  const auto allows = [](const Freed& wide, const Freed& narrow) {
    return std::ranges::all_of(narrow.keys, [&](std::string_view key) {
      return std::ranges::find(wide.keys, key) != wide.keys.end();
    });
  };
  for (Freed& wide : freed)
    for (const Freed& narrow : freed)
      if (narrow.best && wide.scope != Released::Scope::one && allows(wide, narrow) &&
          (!wide.best || rank(*narrow.best) < rank(*wide.best)))
        wide.best = narrow.best;
  std::ranges::stable_sort(freed, [&](const Freed& a, const Freed& b) {
    if (a.scope != b.scope) return a.scope < b.scope;
    return a.best && (!b.best || rank(*a.best) < rank(*b.best));
  });
  std::vector<Released> all;
  for (const Freed& f : freed) {
    Released& r = all.emplace_back();
    r.scope = f.scope;
    r.keys.assign(f.keys.begin(), f.keys.end());
    if (!f.best) continue;
    r.helps = !mine.chosen || rank(*f.best) < rank(*mine.chosen);
    r.best = f.best->strategy;
    r.step = f.best->time.step;
    r.device = f.best->memory.worst.device;
    r.out_of_memory = f.best->uncertainty.out_of_memory;
  }
  return all;
}

}  // namespace planner
