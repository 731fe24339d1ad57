// The long form of prediction_test: random shapes, degrees and recipes, none of them chosen to
// divide.
#include "planner/lowering/lower.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/random_cells.hpp"

using namespace planner;
using namespace tests;

TEST_CASE("memory and traffic equal the prediction on random shapes, degrees and recipes") {
  const unsigned first = 20260101;
  int ran = 0;
  for (unsigned seed = first; ran < 300; ++seed) {
    Draw draw(seed);
    const models::ModelSpec spec = draw_model(draw);
    const Strategy s = draw_strategy(draw);
    const std::string recipe = draw.one_of<const char*>(
        {"fp32", "mixed", "lean", "megatron", "fsdp2", "pure_bf16", "fp64"});
    const std::int64_t batch = s.data * s.micro_batch * s.grad_accum;
    const Job job = tiny_job(spec, batch, recipe);
    if (!strategy_problems(spec, job, resolve(spec, job, s), s.workers()).empty()) continue;
    CAPTURE(seed);
    check_cell(spec, {"random", s, 0}, recipe, batch);
    ++ran;
  }
}
