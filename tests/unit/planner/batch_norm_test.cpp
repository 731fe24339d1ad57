// The key batch_norm: where it is refused, and what a plan states of it.
#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/search/search.hpp"
#include "planner/strategy/problems.hpp"
#include "tests/catch.hpp"

using namespace planner;

namespace {

Request resnet() {
  Request request;
  request.model = *models::find_model("resnet-50");
  request.gpus = 4;
  request.profile = *hw_profiles::find_profile("a100-sxm-80g");
  request.job.global_batch = 256;
  request.top = 1;
  return request;
}

core::Problem refused(const char* model, const std::function<void(Strategy&)>& change) {
  const models::ModelSpec spec = *models::find_model(model);
  Job job;
  job.seq_len = spec.default_seq_len;
  job.global_batch = 8;
  Strategy s;
  s.data = 4;
  s.micro_batch = 2;
  s.batch_norm = BatchNorm::synchronised;
  change(s);
  const core::Problems problems = strategy_problems(spec, job, s, 4);
  REQUIRE_FALSE(problems.empty());
  return problems.front();
}

}  // namespace

TEST_CASE("statistics are shared only where there are batch norms, and in step") {
  const auto as_it_is = [](Strategy&) {};
  for (const char* model : {"gpt2-124m", "vgg-16", "chain"}) {
    const core::Problem p = refused(model, as_it_is);
    CHECK(p.where == "batch_norm");
    CHECK(p.expected == "local for a model without a batch norm");
    CHECK(p.found == "synchronised");
  }
  const core::Problem uneven = refused("resnet-50", [](Strategy& s) {
    s.shares = {1, 1, 1, 1};
  });
  CHECK(uneven.expected == "local with shares");
  const core::Problem async = refused("resnet-50", [](Strategy& s) {
    s.grad_sync = GradSync::parameter_server;
    s.servers = 1;
    s.server_mode = ServerMode::async;
  });
  CHECK(async.expected == "local with server_mode=async");
}

TEST_CASE("a plan with shared statistics states their traffic, and takes longer than without") {
  const Request plain = resnet();
  Request asked = plain;
  for (const char* pin : {"batch_norm=sync", "data=4", "micro_batch=64"})
    REQUIRE(asked.constraints.pin(pin).ok());
  const auto plan = make_plan(asked);
  REQUIRE(plan.ok());
  REQUIRE(plan->chosen);
  CHECK(plan->chosen->strategy.batch_norm == BatchNorm::synchronised);
  CHECK(to_text(plan->chosen->strategy).find("batch_norm=synchronised") != std::string::npos);
  core::Bytes sent{};
  for (const CommunicationEntry& e : plan->chosen->communication)
    if (e.what == "statistics") sent += e.wire_per_rank;
  // 26,560 channels of 53 norms, two sums of eight bytes each, forward and backward, once a step:
  // of four ranks a ring sends each byte 2 x 3 / 4 times.
  CHECK(sent.value() == 2 * 26'560 * 16 * 6 / 4);
  Request local = asked;
  local.constraints = {};
  for (const char* pin : {"data=4", "micro_batch=64"}) REQUIRE(local.constraints.pin(pin).ok());
  const auto without = make_plan(local);
  REQUIRE(without.ok());
  REQUIRE(without->chosen);
  CHECK(without->chosen->strategy.batch_norm == BatchNorm::local);
  CHECK(without->chosen->time.step < plan->chosen->time.step);
}
