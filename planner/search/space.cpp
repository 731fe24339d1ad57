#include "planner/search/space.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "planner/lowering/lower.hpp"
#include "planner/strategy/context_problems.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner {
namespace {

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> small, large;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    small.push_back(d);
    if (d * d != n) large.push_back(n / d);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

constexpr std::size_t kUsual = 1 << 14;  // structures

class Space {
 public:
  Space(const Job& job, const SpaceOptions& options, const Constraints& constraints)
      : job_(job), options_(options), constraints_(constraints) {
    base_.overlap = options_.overlap;
    constraints_.put(base_, {"context", "expert", "expert_tensor", "sequence_parallel", "stages",
                             "partition", "parts", "split", "splits", "batch_norm",
                             "grad_sync", "servers", "servers_colocated", "server_mode",
                             "overlap", "bucket_bytes", "tp_overlap", "expert_dispatch",
                             "expert_overlap", "offload",
                             "mesh_order", "context_method", "shares"});
    workers_ = std::max<std::int64_t>(1, options_.gpus - base_.separate_servers());
    structures_.reserve(kUsual);
    for (const ScheduleDef& def : kSchedules)
      if (def.searched && (def.infers || job_.mode != Mode::inference))
        searched_.push_back(def.schedule);
    std::ranges::stable_sort(searched_, {}, [](Schedule s) { return schedule_def(s).level; });
  }

  std::vector<Structure> all() {
    const bool cut = base_.partition == Partition::operators;
    const std::int64_t most = cut ? 2 : options_.layers;
    for (std::int64_t chunks : degrees("loss_chunks", {1}, 1)) {
      base_.loss_chunks = chunks;
      for (std::int64_t t : degrees("tensor", divisors(workers_), options_.gpus_per_node))
        for (std::int64_t p : degrees("pipeline", divisors(workers_), most)) with(t, p);
    }
    return std::move(structures_);
  }

 private:
  // The pinned values, or the usual ones up to a limit.
  std::vector<std::int64_t> degrees(std::string_view key, std::vector<std::int64_t> usual,
                                    std::int64_t limit) const {
    if (constraints_.is_pinned(key)) return constraints_.pinned(key);
    std::erase_if(usual, [&](std::int64_t d) { return d > limit; });
    return usual;
  }

  void with(std::int64_t tensor, std::int64_t pipeline) {
    Strategy s = base_;
    s.tensor = tensor;
    s.pipeline = pipeline;
    if (!constraints_.admits(s, {"tensor", "pipeline"})) return;
    with_context(s);
    const bool asked = constraints_.is_pinned("context") || constraints_.is_pinned("grad_sync");
    if (asked || options_.least_tokens == 0) return;
    const std::int64_t ranks = workers_ / std::gcd(workers_, tensor * pipeline);
    const std::int64_t most = job_.seq_len / options_.least_tokens;
    for (s.context = 2; s.context <= std::min(ranks, most); ++s.context)
      if (ranks % s.context == 0 && job_.seq_len % (2 * s.context * tensor) == 0) with_context(s);
  }

  void choose_context_method(Strategy& s) const {
    const bool may = s.context > 1 && options_.exchanged_heads > 0 &&
                     exchange_divides(options_.exchanged_heads, s) &&
                     !constraints_.is_pinned("context_method");
    if (!may) return;
    s.context_method = ContextMethod::exchange;
    if (!constraints_.admits(s, {"context_method"})) s.context_method = base_.context_method;
  }

  void with_context(Strategy s) {
    choose_context_method(s);
    const std::int64_t model_ranks = s.tensor * s.pipeline * s.context;
    const bool pinned = constraints_.is_pinned("tensor") || constraints_.is_pinned("pipeline");
    if (workers_ % model_ranks != 0 && !pinned) return;
    s.data = std::max<std::int64_t>(1, workers_ / model_ranks);
    if (constraints_.is_pinned("data")) {
      const std::vector<std::int64_t> wanted = constraints_.pinned("data");
      const bool both = constraints_.is_pinned("tensor") && constraints_.is_pinned("pipeline");
      if (std::ranges::find(wanted, s.data) == wanted.end()) {
        if (!both) return;
        s.data = wanted.front();  // contradicts the other pins: named as such
      }
    }
    if (!options_.splits.empty()) return with_splits(s);
    if (options_.experts == 0 && !constraints_.is_pinned("expert")) return with_experts(s);
    const bool pinned_tensor = constraints_.is_pinned("expert_tensor");
    if (!pinned_tensor || s.expert_tensor == 1) with_whole_experts(s);
    if (s.expert_tensor == 1 && s.tensor > 1) return;
    const std::int64_t most = std::gcd(options_.experts, s.data_ranks());
    for (const std::int64_t e : degrees("expert", divisors(most), most)) {
      s.expert = e;
      with_experts(s);
    }
  }

  // As it is pinned, and each choice. Annotations alone say nothing of how many ranks divide.
  void with_splits(Strategy s) {
    if (s.splits.empty() || s.split > 1) with_experts(s);
    for (const SplitChoice& choice : options_.splits) {
      if (s.data % choice.split != 0) continue;
      s.split = choice.split;
      s.splits = choice.splits;
      with_experts(s);
    }
  }

  // Experts that lie on tensor ranks whole, each rank's different from the others'.
  void with_whole_experts(Strategy s) {
    if (s.tensor == 1 || !may_divide_rows(s)) return;
    s.expert_tensor = 1;
    s.sequence_parallel = true;
    const std::int64_t most = std::gcd(options_.experts, s.data_ranks() * s.tensor);
    for (const std::int64_t e : degrees("expert", divisors(most), most)) {
      s.expert = e;
      if (e % s.tensor == 0) with_experts(s);
    }
  }
  bool may_divide_rows(const Strategy& s) const {
    const bool pinned = constraints_.is_pinned("sequence_parallel");
    return pinned ? constraints_.pinned("sequence_parallel").front() != 0
                  : job_.seq_len % s.tensor == 0;
  }

  void with_experts(Strategy s) {
    if (!constraints_.admits(s, {"data", "context", "expert", "expert_tensor", "split"})) return;
    const std::int64_t tensor = s.tensor;
    // A residual stream of whole rows, and one of 1 / tensor of them.
    const bool either = tensor > 1 && job_.seq_len % tensor == 0 && s.expert_tensor == 0 &&
                        !constraints_.is_pinned("sequence_parallel");
    for (const bool rows : {false, true}) {
      if (rows && !either) continue;
      if (either) s.sequence_parallel = rows;
      for (const auto& [sharding, group] : shardings(s)) {
        s.sharding = sharding;
        s.shard_group = group;
        if (!constraints_.is_pinned("overlap"))
          s.overlap = sharding == Sharding::none ? options_.overlap : options_.overlap_divided;
        if (!constraints_.admits(s, {"sequence_parallel", "sharding", "shard_group", "overlap"}))
          continue;
        for (const Family& family : families(s)) checkpoints(s, family);
      }
    }
  }

  // Schedules that share their stages' passes.
  struct Family {
    std::int64_t virtual_stages = 1;
    std::vector<Schedule> schedules;
  };

  std::vector<Family> families(const Strategy& s) const {
    std::vector<Schedule> wanted;
    for (std::int64_t value : constraints_.pinned("schedule"))
      wanted.push_back(static_cast<Schedule>(value));
    if (wanted.empty()) {
      if (s.pipeline == 1) return {{1, {Schedule::none}}};
      if (s.partition == Partition::operators) return {{1, {Schedule::naive}}};
      // What a split backward pass cannot be combined with (strategy_problems) is not proposed.
      const bool splits = !s.sequence_parallel && s.sharding <= Sharding::zero1;
      for (const Schedule schedule : searched_)
        if (splits || !splits_backward(schedule)) wanted.push_back(schedule);
    }
    std::vector<Family> found;
    for (Schedule schedule : wanted)
      for (std::int64_t chunks : virtual_stages(schedule, s.pipeline)) {
        const bool split = splits_backward(schedule);
        const auto same = std::ranges::find_if(found, [&](const Family& f) {
          return f.virtual_stages == chunks && splits_backward(f.schedules.front()) == split;
        });
        if (same == found.end())
          found.push_back({chunks, {schedule}});
        else
          same->schedules.push_back(schedule);
      }
    return found;
  }

  // Chunks that a rank may hold: of equally many layers, or one fewer at the model's ends (of one
  // layer each: the embeddings and the head alone, as of Llama 3 [llama3] section 3.3.2). Where
  // chunks differ otherwise, all ranks wait for whichever has the longer one at hand.
  std::vector<std::int64_t> virtual_stages(Schedule schedule, std::int64_t pipeline) const {
    const std::vector<std::int64_t> pinned = constraints_.pinned("virtual_stages");
    if (!pinned.empty()) return pinned;
    if (in_v(schedule)) return {2};
    if (schedule_def(schedule).chunks == ChunksOfRank::one) return {1};
    std::vector<std::int64_t> found;
    for (std::int64_t chunks : {2, 3, 4, 6, 8, 12}) {
      const std::int64_t places = chunks * pipeline;
      const std::int64_t most = chunk_places(options_.layers, chunks);
      if (places > most) break;
      if (options_.layers % places == 0 || most % places == 0)
        found.push_back(chunks);
    }
    if (found.empty() && constraints_.is_pinned("schedule")) return {2};  // says what is amiss
    return found;
  }

  std::vector<std::pair<Sharding, std::int64_t>> shardings(const Strategy& s) const {
    std::vector<std::pair<Sharding, std::int64_t>> found{{Sharding::none, 1}};
    const bool servers = s.grad_sync == GradSync::parameter_server;
    if (job_.mode == Mode::inference || servers) return found;
    const std::int64_t data = s.data * s.context;
    if (data == 1) {                   // one rank's shard is the whole
      if (s.offloads("params")) found.emplace_back(Sharding::zero3, 1);
      return found;
    }
    for (Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
      found.emplace_back(z, data);
    // HSDP: shards within a node, replicas across nodes; or the group that a pin asks for.
    std::vector<std::int64_t> groups = constraints_.pinned("shard_group");
    if (groups.empty()) groups.push_back(options_.gpus_per_node / s.tensor);
    for (std::int64_t group : groups)
      if (group > 1 && group < data && data % group == 0 && group % (s.expert * s.split) == 0)
        found.emplace_back(Sharding::zero3, group);
    return found;
  }

  void checkpoints(Strategy s, const Family& family) {
    s.virtual_stages = family.virtual_stages;
    const auto add = [&](Checkpoint checkpoint, std::int64_t every,
                         models::ModuleSet modules = 0) {
      s.checkpoint = checkpoint;
      s.checkpoint_every = every;
      s.recompute_modules = modules;
      if (!constraints_.admits(s, {"checkpoint", "checkpoint_every", "recompute_modules"})) return;
      for (Schedule schedule : family.schedules) {  // fastest: they share their stages' passes
        s.schedule = schedule;
        this->add(s);
      }
    };
    add(Checkpoint::none, 0);
    if (job_.mode == Mode::inference) return;
    std::vector<std::int64_t> every = constraints_.pinned("checkpoint_every");
    // A divided graph is lowered for each candidate: of less recomputation, none alone is tried.
    if (every.empty())
      every = s.split > 1 ? std::vector<std::int64_t>{1}
                          : std::vector<std::int64_t>{1, 2, 3, 4, 6, 8};
    const bool proposed = !constraints_.is_pinned("schedule");
    const bool recomputes = !(proposed && splits_backward(family.schedules.front()));
    for (std::int64_t k : every)
      if (recomputes && k >= 1 && k <= options_.layers) add(Checkpoint::every_k, k);
    add(Checkpoint::selective, 0);
    if (options_.pointwise && recomputes) add(Checkpoint::pointwise, 0);
    std::vector<models::ModuleSet> sets = constraints_.pinned_modules();
    const std::vector<std::int64_t> asked = constraints_.pinned("checkpoint");
    const auto by_modules = static_cast<std::int64_t>(Checkpoint::modules);
    const bool names = std::ranges::count(asked, by_modules) > 0;
    if (sets.empty() && options_.modules != 0 && (names || (options_.tries_modules && recomputes)))
      sets.push_back(options_.modules);
    for (const models::ModuleSet modules : sets) add(Checkpoint::modules, 0, modules);
    for (std::int64_t value : asked) {
      const auto pinned = static_cast<Checkpoint>(value);
      if (pinned == Checkpoint::modules) continue;
      const bool proposed_above = pinned == Checkpoint::pointwise && options_.pointwise;
      if (pinned < Checkpoint::memory_poor || proposed_above) continue;
      if (!counts_layers(pinned)) add(pinned, 0);
      for (std::int64_t k : every)
        if (counts_layers(pinned) && k >= 1 && k <= options_.layers) add(pinned, k);
    }
  }

  void add(const Strategy& s) {
    const std::int64_t per_replica = std::max<std::int64_t>(1, job_.global_batch / s.data);
    const std::vector<std::int64_t>& sizes =
        s.shares.empty() ? sizes_for(s, per_replica) : size_for_shares(s);
    if (sizes.empty()) return;
    if (constraints_.empty()) return void(structures_.push_back({s, sizes}));
    std::vector<std::int64_t> admitted;
    for (std::int64_t size : sizes)
      if (constraints_.admits(with_micro_batch(s, size, job_.global_batch)))
        admitted.push_back(size);
    if (!admitted.empty()) structures_.push_back({s, std::move(admitted)});
  }

  // Micro-batches of a replica's samples: the same for many structures, one after the other.
  const std::vector<std::int64_t>& sizes_for(const Strategy& s, std::int64_t per_replica) {
    // Of c ranks that share more than one sample, data ranks that share fewer do as much each, and
    // exchange fewer keys: single samples alone are divided.
    const bool single = s.context > 1 && !constraints_.is_pinned("context");
    const bool alike = schedule_def(s.schedule).micro_batches.any();
    Sizes& of = sizes_[alike ? 0 : static_cast<std::size_t>(s.schedule)];
    if (of.samples == per_replica && of.pipeline == s.pipeline && of.single == single)
      return of.sizes;
    of = {per_replica, s.pipeline, single, constraints_.pinned("micro_batch")};
    if (single) std::erase_if(of.sizes, [](std::int64_t size) { return size > 1; });
    if (of.sizes.empty() && !(single && constraints_.is_pinned("micro_batch")))
      of.sizes = single ? std::vector<std::int64_t>{1} : divisors(per_replica);
    if (!constraints_.is_pinned("schedule"))
      std::erase_if(of.sizes, [&](std::int64_t size) {
        return !schedule_takes(s.schedule, s.pipeline,
                               std::max<std::int64_t>(1, per_replica / size));
      });
    return of.sizes;
  }

  // Micro-batches that are pinned rank by rank leave one size.
  const std::vector<std::int64_t>& size_for_shares(const Strategy& s) {
    of_shares_ = {std::max<std::int64_t>(1, job_.global_batch / s.micro_batches())};
    return of_shares_;
  }

  struct Sizes {
    std::int64_t samples = 0, pipeline = 0;
    bool single = false;
    std::vector<std::int64_t> sizes;
  };

  const Job& job_;
  const SpaceOptions options_;
  const Constraints& constraints_;
  Strategy base_;
  std::int64_t workers_ = 1;
  std::array<Sizes, kSchedules.size()> sizes_;  // asked for last
  std::vector<std::int64_t> of_shares_;
  std::vector<Schedule> searched_;     // for this job, those that people run first before others
  std::vector<Structure> structures_;
};

}  // namespace

std::vector<Structure> structures(const Job& job, const SpaceOptions& options,
                                  const Constraints& constraints) {
  return Space(job, options, constraints).all();
}

Strategy with_micro_batch(Strategy s, std::int64_t micro_batch, std::int64_t global_batch) {
  s.micro_batch = micro_batch;
  if (!s.shares.empty()) {
    s.grad_accum = std::ranges::max(s.shares);
    return s;
  }
  s.grad_accum = std::max<std::int64_t>(1, global_batch / std::max<std::int64_t>(1, s.data) /
                                               micro_batch);
  return s;
}

}  // namespace planner
