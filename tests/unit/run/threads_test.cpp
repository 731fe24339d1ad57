#include <string>

#include "core/thread.hpp"
#include "exec/run/run.hpp"
#include "hw_profiles/load.hpp"
#include "models/spec_file.hpp"
#include "planner/search/search.hpp"
#include "tests/catch.hpp"
#include "tests/no_threads.hpp"

namespace {

// Pins of a plan whose ranks have several streams each.
planner::Plan plan_of(std::initializer_list<const char*> pins) {
  planner::Request request;
  request.model = models::parse_spec(
      R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 32,
          "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
          "max_position_embeddings": 16, "vocab_size": 256, "tie_word_embeddings": false})",
      "config.json", "tiny").value();
  request.job.seq_len = 16;
  request.job.global_batch = 4;
  request.job.recipe = "fp32";
  request.gpus = 2;
  request.profile = hw_profiles::find_profile("h100-sxm-80g").value();
  for (const char* pin : pins) REQUIRE(request.constraints.pin(pin).ok());
  auto plan = planner::make_plan(request);
  if (!plan.ok()) FAIL(core::to_text(plan.problems()));
  REQUIRE(plan->chosen);
  return std::move(plan).value();
}

// What a run says that may start so many threads; empty: it is done.
std::string said_with(const planner::Plan& plan, int threads) {
  const no_threads::Only only(threads);
  exec::RunOptions options;
  options.steps = 2;
  try {
    const auto run = exec::run(plan, options);
    return run.ok() ? "" : core::to_text(run.problems());
  } catch (const exec::RunFailure& failure) {
    return failure.what();
  }
}

// With each number of threads up to one that is enough: one message, always the same need.
void check_each_refusal(const planner::Plan& plan) {
  const std::string first = said_with(plan, 0);
  CHECK(first.starts_with("threads: expected "));
  CHECK(first.find("found no thread for rank 0: Resource temporarily unavailable; raise the limits "
                   "of this user's processes (ulimit -u)") != std::string::npos);
  const std::string need = first.substr(0, first.find(", found"));
  constexpr int kMost = 100;
  int refusals = 0;
  bool streams = false;
  for (std::string said = first; !said.empty() && refusals < kMost;
       said = said_with(plan, ++refusals)) {
    CAPTURE(refusals, said);
    CHECK(said.starts_with(need + ", found no thread for "));
    streams = streams || said.find("no thread for stream ") != std::string::npos;
  }
  CHECK(refusals > 2);
  CHECK(refusals < kMost);
  CHECK(streams);
}

}  // namespace

TEST_CASE("a run that lacks a thread for a rank or a stream ends, and says what it needs") {
  check_each_refusal(plan_of({"data=2", "sharding=zero1"}));
}

TEST_CASE("a run that lacks a thread for a server beside a worker ends likewise") {
  check_each_refusal(plan_of({"grad_sync=parameter_server", "servers=2", "server_mode=async",
                              "servers_colocated=true", "tensor=1", "pipeline=1"}));
}
