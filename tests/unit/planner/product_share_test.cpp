#include "planner/evaluate/product_share.hpp"

#include "planner/evaluate/evaluate.hpp"
#include "tests/catch.hpp"
#include "tests/unit/planner/asked.hpp"

using namespace planner;
using namespace planner_test;

TEST_CASE("wide layers spend more of their time in products than narrow ones") {
  const auto share = [](const char* model, std::int64_t seq) {
    Request r = question(model, 1, "h200-sxm-141g");
    r.job.seq_len = seq;
    return product_share(r.profile, r.job, r.model);
  };
  // As measured steps had it (reports/measured/README.md), where norms took longer than their
  // bytes say.
  CHECK(share("gpt2-124m", 1024) == Approx(0.68).margin(0.05));
  CHECK(share("gpt2-1.5b", 1024) == Approx(0.77).margin(0.05));
  CHECK(share("llama3.1-405b", 8192) > 0.85);
  CHECK(share("llama3.1-8b", 65536) < share("llama3.1-8b", 8192));  // attention has more
  CHECK(share("alexnet", 1) > 0);
  CHECK(share("alexnet", 1) <= 1);
}

TEST_CASE("the share of products changes the clock of our own steps on measured cards alone") {
  Request r = question("gpt2-124m", 1, "h200-sxm-141g");
  r.job.seq_len = 1024;
  const double all = machine_for(r.profile, r.job, 1.0).gemm_efficiency;
  CHECK(all == r.profile.native.gemm_sustained);
  CHECK(machine_for(r.profile, r.job, r.model).gemm_efficiency > 1.1 * all);
  const Request unmeasured = question("gpt2-124m", 1, "a100-sxm-80g");
  CHECK(product_share(unmeasured.profile, r.job, r.model) == 1);
  r.profile.framework.executor_kernels = false;
  CHECK(product_share(r.profile, r.job, r.model) == 1);
  CHECK(machine_for(r.profile, r.job, r.model).gemm_efficiency == r.profile.gpu.gemm_sustained);
}
