#include "planner/evaluate/step_time.hpp"

#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/evaluate/swept_time.hpp"
#include "planner/lowering/lower.hpp"
#include "tests/catch.hpp"
#include "tests/unit/cost/machine_for_tests.hpp"

using namespace planner;
using program::Action;
using program::ActionKind;

namespace {

// A class whose forward, backward and end are one kernel each, and whose last backward starts a
// gradient all-reduce that the end waits for. 1 MB buffers take 2 us of work and 1 us of launch.
struct Fixture {
  program::Program program;
  cost::Machine machine = round_machine();

  explicit Fixture(std::int64_t micro_batches, int stages = 1) {
    program.mesh.data = 2;
    program.mesh.pipeline = stages;
    for (int stage = 0; stage < stages; ++stage) {
      program::RankClass& k = program.classes.emplace_back();
      k.stage = stage;
      fill(k);
      k.schedule.micro_batches = micro_batches;
    }
  }

  static void fill(program::RankClass& k) {
    program::Buffer buffer;
    buffer.term = program::Term::gradients;
    buffer.type = core::DType::f32;
    buffer.elements = {500'000};
    k.buffers = {buffer};
    program::View whole;
    whole.buffer = 0;
    k.views = {whole};
    k.events = {program::Event{}, program::Event{}};  // reduced, computed
    program::EventRef reduced, computed;
    reduced.event = 0;
    computed.event = 1;
    k.signals = {reduced, computed};
    k.waits = {{reduced, false}, {computed, false}};
    k.transfers = {{.collective = program::Collective::all_reduce,
                    .algorithm = program::Algorithm::ring,
                    .what = program::Traffic::gradients,
                    .group = program::Group::data,
                    .wire_type = core::DType::f32}};
    Action kernel;
    kernel.kind = ActionKind::zero;
    kernel.arg_count = 1;
    Action reduce;
    reduce.kind = ActionKind::collective;
    reduce.stream = program::Stream::gradient;
    reduce.op = 0;
    reduce.arg_count = 1;
    reduce.signal = 0;
    reduce.first_wait = 1;
    reduce.wait_count = 1;
    Action update = kernel;
    update.wait_count = 1;
    Action pass = kernel;
    pass.signal = 1;
    k.actions = {pass, reduce, kernel, update};
    k.blocks = {{"compute", 0, 1}, {"reduce and compute", 1, 3}, {"update", 3, 4}};
    k.forward = {{0, 0, 0}};
    k.backward = {{0, 0, 0}};
    k.last_backward = {{1, 0, 0}};
    k.end = {{2, 0, 0}};
  }
};

constexpr double kKernel = 3e-6;              // 2 MB at 1 TB/s + 1 us
constexpr double kReduce = 2e-6 + 2e6 / 1e11; // 2 hops of 1 us + 2 MB at 100 GB/s = 22 us

}  // namespace

TEST_CASE("a reduction hides behind what follows it and exposes the rest") {
  // forward 3; the reduction starts with the last backward: 22 us beside 3 us of kernel; update 3.
  Fixture f(1);
  const Time t = step_time(f.program, f.machine, Schedule::none);
  CHECK(t.compute.value() == Approx(2 * kKernel));
  CHECK(t.optimizer.value() == Approx(kKernel));
  CHECK(t.exposed_communication.value() == Approx(kReduce - kKernel));
  CHECK(t.communication.value() == Approx(kReduce));
  CHECK(t.bubble.value() == 0);
  CHECK(t.step.value() == Approx(2 * kKernel + kReduce));
}

TEST_CASE("micro-batches beyond the period repeat it") {
  const auto step = [](std::int64_t m) {
    Fixture f(m);
    return step_time(f.program, f.machine, Schedule::none).step.value();
  };
  // Each adds a forward and a backward kernel.
  for (std::int64_t m : {2, 3, 4, 5, 64})
    CHECK(step(m) == Approx(step(1) + 2 * kKernel * static_cast<double>(m - 1)));
}

TEST_CASE("a pipeline of equal stages has a bubble of p - 1 of m + p - 1 slots") {
  Fixture f(8, 4);
  const Time t = step_time(f.program, f.machine, Schedule::one_f_one_b);
  CHECK(t.bubble.value() == Approx(3 * 2 * kKernel));
  CHECK(t.bubble / (t.bubble + t.compute) == Approx(3.0 / 11.0));
}

TEST_CASE("a naive pipeline takes every stage in turn") {
  Fixture f(8, 4);
  const Time t = step_time(f.program, f.machine, Schedule::naive);
  CHECK((t.bubble + t.compute).value() == Approx(4 * 8 * 2 * kKernel));
}

// As many micro-batches as the last rank has passes ahead of its first backward one.
TEST_CASE("an interleaved pipeline of few micro-batches takes as long as its sweep") {
  const models::ModelSpec model = models::find_model("gpt2-124m").value();
  for (const auto& [stages, chunks] : {std::pair{2, 2}, {4, 2}, {2, 3}, {4, 3}}) {
    CAPTURE(stages, chunks);
    Job job;
    job.seq_len = 512;
    job.global_batch = stages * (chunks - 1);
    Strategy s;
    s.pipeline = stages;
    s.virtual_stages = chunks;
    s.schedule = Schedule::interleaved;
    s.grad_accum = job.global_batch;
    s = resolve(model, job, s);
    const auto profile = hw_profiles::find_profile("rtx3090").value();
    const Question q = make_question(model, job, profile, stages).value();
    const auto graph = models::build_graph(model, graph_options(job, s)).value();
    const program::Program program = lower(graph, job, s, {});
    const double step = step_time(program, q.machine, s.schedule).step.value();
    CHECK(step == Approx(swept_time(program, q.machine).value().time.step.value()));
  }
}
