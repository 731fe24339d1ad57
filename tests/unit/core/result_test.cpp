#include "core/result.hpp"

#include "tests/catch.hpp"

TEST_CASE("the nearest name is suggested and a far one is not") {
  CHECK(core::nearest("tenser", {"data", "tensor", "pipeline"}) == "tensor");
  CHECK(core::nearest("xyzzy", {"data", "tensor"}).empty());
  CHECK(core::nearest("--modle", {"--mode", "--model"}) == "--model");
  CHECK(core::nearest("--seq-len", {"--seed", "--seq", "--sequences"}) == "--seq");
  CHECK(core::nearest("--num-gpus", {"--gpu", "--gpus", "--num"}) == "--gpus");
  CHECK(core::nearest("--subsequent", {"--seq"}).empty());
}

TEST_CASE("a problem reads as one line with its fix") {
  const core::Problem p{"plan.json /chosen", "an object", "3", "write it"};
  CHECK(core::to_text(p) == "plan.json /chosen: expected an object, found 3; write it");
}

TEST_CASE("problems that arose while running make exit code 3, others 2") {
  const core::Problem input{"a", "b", "c", ""};
  core::Problem running = input;
  running.kind = core::ProblemKind::failed_running;
  CHECK(core::exit_code({input}) == 2);
  CHECK(core::exit_code({input, running}) == 3);
}

TEST_CASE("a problem with a statement is said in its words alone") {
  core::Problem problem{"plan", "less", "more", "fix it"};
  problem.statement = "The plan needs 100 GiB; this machine has 20 GiB free.";
  CHECK(core::to_text(problem) == problem.statement);
}
