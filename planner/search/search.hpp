#pragma once
// Search: every strategy worth asking about, evaluated, and the plan that follows. Exhaustive over
// the space below; what is left out is counted with its reason.
//
//   data x tensor x pipeline = workers, tensor within a node; sequence_parallel; sharding none,
//   zero1, zero2, zero3 (and zero3 within nodes when data spans nodes); schedule 1f1b, gpipe;
//   checkpoint none, selective, pointwise (where the framework offers it), every 1, 2, 3, 4, 6 or 8
//   layers; micro_batch: divisors of global_batch / data; stages: the division whose slowest stage
//   is fastest (stages.hpp).
//   Everything else (servers, naive, tree, memory_poor, ...) by pin alone.
//
// Candidates are evaluated in closed form (closed_form/README.md); what is printed is lowered,
// replayed and ranked by its own figures. Memory grows with micro_batch, so larger ones than the
// first that does not fit are skipped and counted.
// Pure but for the clock that fills search.seconds; thread-safe.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "planner/plan/plan.hpp"
#include "planner/strategy/pins.hpp"

namespace planner {

enum class Objective : std::uint8_t { time, memory, cost, energy };
// cost and energy follow time: the number of GPUs and their power are the question's, not the
// candidate's.
std::string_view name(Objective objective);
std::optional<Objective> objective_from_name(std::string_view text);

struct Request {
  models::ModelSpec model;
  std::int64_t gpus = 1;
  hw_profiles::Profile profile;
  bool gpu_given = true;               // false: other_machines is filled too
  std::optional<std::int64_t> gpus_per_node;
  std::optional<core::BytesPerSecond> internode_bandwidth;
  Job job;                             // seq_len or global_batch 0: the model's default
  Constraints constraints;
  Objective objective = Objective::time;
  double max_risk = 0.05;              // of running out of memory, of what is recommended
  double simpler_within = 0.02;        // of the fastest step: there the simplest strategy wins
  std::optional<std::int64_t> tokens;  // to train on: the plan says what that takes
  int top = 5;                         // alternatives
  int candidate = 1;                   // which of the ranking is `chosen`
  std::optional<RobustOptions> robust{};  // rank finalists with slow ranks and links
  std::optional<std::uint64_t> chain{};  // walk over a graph's divisions, too, from this seed
  bool stale = false;                  // search what changes the mathematics, too
  bool brief = false;                  // the choice alone: no front, no rejections where it has one
  bool fewer = true;                   // say where fewer of the GPUs would be faster
  bool exact = true;                   // the memory of the choice is no estimate
  bool hosts = true;                   // where nothing or little fits, search what hosts hold too
  int threads = 0;                     // that explore, replay and simulate; 0: all there are
  int busy_threads = 0;                // of these, what others need while strategies are explored
  std::vector<std::string> assumptions;  // the caller's, listed before the planner's own
  // Is told what the search is doing, on the thread of make_plan; empty: nobody asks.
  std::function<void(std::string_view)> progress = {};
};

// The assumption by which a plan states Request::stale.
inline constexpr std::string_view kStaleAllowed =
    "stale weights allowed: non-flushing pipelines (pipedream, pipedream_2bw) and asynchronous "
    "servers on GPUs of their own are searched too";

// A question without a feasible answer is a Plan whose `chosen` is empty and whose `rejected` holds
// the nearest misses. Errors: bad input (the job contradicts model or recipe).
core::Result<Plan> make_plan(const Request& request);

// What a job is where nothing is asked for. Training from the start: the model's own sequence
// length and samples a step. Fine-tuning (mode finetune, or adapters): 2,048 tokens, or the model's
// length where that is shorter, and 64 samples a step, as instruction tuning is commonly done.
// Samples are rounded up so that as many of the GPUs as are no more than they, and divide all GPUs,
// have equally many. O(samples).
bool is_fine_tuning(const Job& job);
std::int64_t default_seq_len(const models::ModelSpec& model, const Job& job);
std::int64_t default_global_batch(const models::ModelSpec& model, const Job& job,
                                  std::int64_t gpus);

// The search alone: every candidate of the request's space evaluated, none lowered to be printed;
// `seconds` from an empty table to the last candidate. What `planner bench` times. Errors: as
// above.
core::Result<SearchCounts> explore_space(const Request& request);

}  // namespace planner
