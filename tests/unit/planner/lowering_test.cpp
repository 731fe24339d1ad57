// What each strategy adds to a Program and takes from it, by hand: bytes kept, calls, payloads. The
// model is gpt2-1.5b (48 layers, h = 1600, 25 heads) unless a test says otherwise.
#include "planner/lower.hpp"

#include "models/zoo.hpp"
#include "sim/program/bound.hpp"
#include "sim/program/checker.hpp"
#include "sim/program/footprint.hpp"
#include "sim/program/replay.hpp"
#include "sim/program/traffic.hpp"
#include "tests/catch.hpp"

using namespace planner;
using program::Term;

namespace {

constexpr std::int64_t kLayers = 48, kHidden = 1600, kHeads = 25;

models::ModelSpec gpt2() {
  auto found = models::find_model("gpt2-1.5b");
  REQUIRE(found.ok());
  return *found;
}

Job job_of(std::int64_t batch, std::int64_t seq_len = 1024) {
  Job job;
  job.seq_len = seq_len;
  job.global_batch = batch;
  return job;
}

// Lowered and found sound; the bound holds the replay.
program::Program sound(const Job& job, Strategy s) {
  const models::ModelSpec spec = gpt2();
  s = resolve(spec, job, s);
  const auto problems = strategy_problems(spec, job, s, s.workers() + s.separate_servers());
  INFO(to_text(s) << "\n" << core::to_text(problems));
  REQUIRE(problems.empty());
  const auto graph = models::build_graph(spec, graph_options(job, s));
  REQUIRE(graph.ok());
  program::Program p = lower(*graph, job, s);
  const auto unsound = program::check(p);
  INFO(core::to_text(unsound));
  REQUIRE(unsound.empty());
  for (const program::RankClass& k : p.classes) {
    const core::Bytes live = program::replay(k).live, bound = program::closed_form_live(k);
    CHECK(bound >= live);
    CHECK(static_cast<double>(bound.value()) <= 1.02 * static_cast<double>(live.value()));
  }
  return p;
}

// Bytes that the forward pass of a micro-batch leaves for the backward pass.
std::int64_t kept(const program::Program& p) {
  const auto routines = program::routine_footprints<program::LiveFootprint>(p.classes[0]);
  return routines.forward.net;
}

}  // namespace

TEST_CASE("selective checkpointing drops the attention core's output and log-sum-exp") {
  const Job job = job_of(4);
  Strategy s;
  s.micro_batch = 4;
  const std::int64_t none = kept(sound(job, s));
  s.checkpoint = Checkpoint::selective;
  const program::Program p = sound(job, s);
  // Per layer and token: the output, 2 h bytes, and f32 log-sum-exps of the heads, 4 a.
  const std::int64_t tokens = 4 * 1024;
  CHECK(none - kept(p) == kLayers * tokens * (2 * kHidden + 4 * kHeads));
  std::int64_t cores = 0;
  for (const program::Call& call : p.classes[0].last_backward)
    for (auto i = p.classes[0].blocks[call.block].first; i < p.classes[0].blocks[call.block].last;
         ++i) {
      const program::Action& a = p.classes[0].actions[i];
      cores += a.kind == program::ActionKind::forward &&
               p.classes[0].operators[a.op].kind == models::OpKind::attention;
    }
  CHECK(cores == kLayers);  // each made again once
}
