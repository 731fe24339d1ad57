// Collectives whose times were published (the rows that tests/unit/cost/nccl_test.cpp holds against
// the cost model), played message by message.
#include <algorithm>
#include <cmath>

#include "hw_profiles/load.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/sweep.hpp"
#include "tests/catch.hpp"
#include "tests/unit/program/program_builder.hpp"

namespace {

// One all-reduce, or one message from each rank to the next, of all ranks.
program::Program one_collective(int ranks, std::int64_t bytes, bool message) {
  program_test::Builder b;
  const auto what = b.buffer("g", program::Term::gradients, {bytes}, 1, 1, true);
  const auto id = b.block("reduce");
  const auto t = b.transfer({message ? program::Collective::send : program::Collective::all_reduce,
                             program::Algorithm::ring, program::Traffic::gradients,
                             program::Group::data, program::ReduceOp::sum, core::DType::u8, 0});
  b.act(program::ActionKind::collective, {program_test::whole(what)}, program::Stream::compute, t);
  b.k.end = {program_test::Builder::call(id)};
  program::Mesh mesh;
  mesh.data = ranks;
  return program_test::program_of({b.k}, mesh);
}

struct Row {
  const char* gpu;
  const char* node;  // "": the GPU's own
  int ranks;
  bool message;
  std::int64_t least, most;            // bytes, powers of two
};
constexpr Row kRows[] = {
    {"h100-sxm-80g", "gcp-a3-mega", 16, false, 1 << 10, std::int64_t{1} << 33},
    {"a100-sxm-80g", "", 8, false, 1 << 25, 1 << 30},
    {"a100-sxm-80g", "", 16, false, 1 << 25, 1 << 30},
    {"a100-sxm-80g", "", 8, true, 1 << 27, 1 << 30},
    {"b200-sxm-180g", "", 8, false, 1 << 15, std::int64_t{1} << 34},
    {"b200-sxm-180g", "aws-p6-b200", 32, false, 1 << 18, std::int64_t{1} << 34},
    {"h200-sxm-141g", "", 8, false, std::int64_t{1} << 34, std::int64_t{1} << 34},
};

}  // namespace

TEST_CASE("collectives played message by message take what the cost model says, row by row") {
  double sum = 0, worst = 0;
  int count = 0;
  for (const Row& row : kRows) {
    hw_profiles::Profile profile = *hw_profiles::find_profile(row.gpu);
    if (*row.node != '\0') REQUIRE(hw_profiles::use_node(profile, row.node, "test").ok());
    const cost::Machine machine = cost::make_machine(profile, {});
    for (std::int64_t bytes = row.least; bytes <= row.most; bytes *= 2) {
      INFO(row.gpu << ' ' << row.ranks << " ranks " << bytes << " bytes");
      const program::Program p = one_collective(row.ranks, bytes, row.message);
      const engine::Scene scene(p, machine, {.unfold = true});
      const auto timed = engine::sweep(scene, {.steps = 1}).makespan();
      const auto flows =
          engine::run(scene, {.steps = 1, .flows = engine::FlowOptions{}, .machine = &machine})
              .makespan();
      const double off = static_cast<double>(flows) / static_cast<double>(timed) - 1;
      sum += std::abs(off);
      worst = std::max(worst, std::abs(off));
      ++count;
    }
  }
  // The cost model's own error on these rows: 9.9 % mean (sim/cost/README.md).
  CHECK(sum / count <= 0.0005);
  CHECK(worst <= 0.001);
}
