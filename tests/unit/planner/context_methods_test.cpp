// context_method=ring and exchange: what a Program of them holds, by hand, that the checker finds
// it sound and would not without its waits, and what is refused.
#include "models/zoo.hpp"
#include "planner/lowering/rescale.hpp"
#include "sim/program/traffic.hpp"
#include "tests/catch.hpp"
#include "tests/unit/planner/soundness.hpp"

using namespace planner;
using program::ActionKind;
using program::Traffic;

namespace {

constexpr std::int64_t kSlicedLayers = 12, kSlicedTokens = 1024;  // of gpt2-124m

models::ModelSpec sliced_model(const std::string& name) { return models::find_model(name).value(); }

Job sliced_job(std::int64_t batch) {
  Job job;
  job.seq_len = kSlicedTokens;
  job.global_batch = batch;
  return job;
}

program::Program sliced_program(const std::string& model, const Job& job, Strategy s) {
  const models::ModelSpec spec = sliced_model(model);
  s = resolve(spec, job, s);
  const auto problems = strategy_problems(spec, job, s, s.workers());
  INFO(to_text(s) << "\n" << core::to_text(problems));
  REQUIRE(problems.empty());
  return planner_test::sound_program(spec, job, s);
}

Strategy sliced_by(ContextMethod method, std::int64_t context) {
  Strategy s;
  s.context = context;
  s.context_method = method;
  return s;
}

program::TrafficEntry context_entry(const program::Program& p, std::string_view collective) {
  for (const program::TrafficEntry& e : program::traffic(p))
    if (e.what == Traffic::context && e.collective == collective) return e;
  return {};
}

std::int64_t buffer_bytes(const program::Program& p, const std::string& name) {
  std::int64_t bytes = 0;
  for (const program::Buffer& b : p.classes[0].buffers)
    if (b.name == name) bytes += b.extent * b.instance_bytes(0).value();
  return bytes;
}

// What is refused of gpt2-124m (12 heads): where, and the message.
std::string refused(const std::string& model, const Job& job, const Strategy& s) {
  const models::ModelSpec spec = sliced_model(model);
  return core::to_text(strategy_problems(spec, job, resolve(spec, job, s), s.workers()));
}

}  // namespace

TEST_CASE("a ring passes c - 1 blocks of keys forward, and c - 1 of each kind backward") {
  for (const std::int64_t c : {2, 4, 8}) {
    const program::Program p =
        sliced_program("gpt2-124m", sliced_job(1), sliced_by(ContextMethod::ring, c));
    // Keys and values of 1024 / c tokens of 768 in 16 bit.
    const std::int64_t block = 2 * 2 * kSlicedTokens / c * 768;
    const program::TrafficEntry e = context_entry(p, "send");
    CHECK(e.algorithm == program::Algorithm::ring);
    CHECK(e.group_size == c);
    CHECK(e.count == 3 * (c - 1) * kSlicedLayers);
    CHECK(e.payload.value() == e.count * block);
    CHECK(e.wire == e.payload);
    const std::int64_t pair = c == 2 ? 1 : 2;
    CHECK(buffer_bytes(p, "layer.ring_keys") == pair * block);
    CHECK(buffer_bytes(p, "layer.ring_gradients") == pair * block);
    CHECK(buffer_bytes(p, "layer.ring_received") == block);
    CHECK(buffer_bytes(p, "layer.ring_sum") == 4 * kSlicedTokens / c * 768);
  }
}

TEST_CASE("a ring sends as many bytes as gathers and scatters of the same keys do") {
  const auto wire = [](ContextMethod method) {
    const program::Program p = sliced_program("gpt2-124m", sliced_job(1), sliced_by(method, 4));
    std::int64_t sum = 0;
    for (const program::TrafficEntry& e : program::traffic(p))
      if (e.what == Traffic::context) sum += e.wire.value();
    return sum;
  };
  CHECK(wire(ContextMethod::ring) == wire(ContextMethod::gather));
  // Heads: qkv and the output, 4 x 768 columns, forward and back, of which a quarter stays: against
  // 3 x 3 blocks of 2 x 768.
  CHECK(wire(ContextMethod::exchange) * 9 * 2 == wire(ContextMethod::ring) * 2 * 3);
}

TEST_CASE("an exchange keeps heads instead of rows, and the output in both forms") {
  const program::Program p =
      sliced_program("gpt2-124m", sliced_job(1), sliced_by(ContextMethod::exchange, 4));
  const program::TrafficEntry e = context_entry(p, "exchange");
  CHECK(e.algorithm == program::Algorithm::pairwise);
  CHECK(e.count == 4 * kSlicedLayers);
  const std::int64_t tokens = kSlicedTokens / 4;
  CHECK(e.payload.value() == kSlicedLayers * 2 * 2 * tokens * (3 + 1) * 768);
  CHECK(e.wire.value() == e.payload.value() * 3 / 4);
  for (const models::Operator& op : p.classes[0].operators) {
    if (op.kind != models::OpKind::attention) continue;
    CHECK(op.heads == 3);
    CHECK(op.rows == kSlicedTokens);
    CHECK(op.keys == kSlicedTokens);
  }
}

TEST_CASE("the steps of a ring do the attention's work between them") {
  const auto work = [](ContextMethod method) {
    const program::Program p = sliced_program("gpt2-124m", sliced_job(1), sliced_by(method, 4));
    double flops = 0;
    const program::RankClass& k = p.classes[0];
    for (const program::Call& call : k.forward)
      for (std::uint32_t i = k.blocks[call.block].first; i < k.blocks[call.block].last; ++i)
        if (k.actions[i].kind == ActionKind::forward)
          flops += k.operators[k.actions[i].op].flops_forward.value();
    return flops;
  };
  CHECK(work(ContextMethod::ring) == Approx(work(ContextMethod::gather)).epsilon(1e-12));
  CHECK(work(ContextMethod::exchange) == Approx(work(ContextMethod::gather)).epsilon(1e-12));
}

TEST_CASE("rings and exchanges are sound beside every other degree, schedule and checkpoint") {
  for (const ContextMethod method : {ContextMethod::ring, ContextMethod::exchange})
    for (const char* model : {"gpt2-124m", "llama3-8b"})
      for (const std::int64_t c : {2, 4})
        for (Checkpoint checkpoint : {Checkpoint::none, Checkpoint::every_k, Checkpoint::selective,
                                      Checkpoint::selective_op, Checkpoint::pointwise,
                                      Checkpoint::memory_poor}) {
          Strategy s = sliced_by(method, c);
          s.tensor = model[0] == 'g' ? 3 : 2;
          s.grad_accum = 4;
          s.checkpoint = checkpoint;
          s.checkpoint_every = checkpoint == Checkpoint::every_k ? 2 : 0;
          s.sharding = Sharding::zero1;
          s.shard_group = c;
          if (checkpoint != Checkpoint::memory_poor) {
            s.pipeline = 2;
            s.schedule = Schedule::one_f_one_b;
          }
          sliced_program(model, sliced_job(4), s);
        }
}

TEST_CASE("a ring without one of its waits is unsound") {
  const program::Program sound =
      sliced_program("gpt2-124m", sliced_job(1), sliced_by(ContextMethod::ring, 4));
  int dropped = 0;
  for (std::size_t i = 0; i < sound.classes[0].actions.size(); ++i) {
    const program::Action& a = sound.classes[0].actions[i];
    const bool attends = (a.kind == ActionKind::forward || a.kind == ActionKind::input_gradient) &&
                         sound.classes[0].operators[a.op].kind == models::OpKind::attention;
    const bool adds = a.kind == ActionKind::accumulate;
    if (a.wait_count == 0 || !(attends || adds || a.stream == program::Stream::context)) continue;
    program::Program broken = sound;
    broken.classes[0].actions[i].wait_count = 0;
    INFO("action " << i << ", " << program::name(a.kind));
    CHECK_FALSE(program::check(broken).empty());
    ++dropped;
  }
  // Forward: 3 arrivals; the first and the third pass wait for a place. Backward: 3 arrivals, the
  // first pass of keys, 2 + 1 additions, 3 passes of gradients.
  CHECK(dropped == 3 + 2 + 3 + 1 + 3 + 3);
}

TEST_CASE("a rescaled ring has the buffers of a fresh lowering") {
  for (const ContextMethod method : {ContextMethod::ring, ContextMethod::exchange}) {
    const models::ModelSpec spec = sliced_model("gpt2-124m");
    const Job job = sliced_job(8);
    Strategy one = sliced_by(method, 4);
    one.grad_accum = 8;
    one = resolve(spec, job, one);
    Strategy four = one;
    four.micro_batch = 4;
    four.grad_accum = 2;
    const auto graph = models::build_graph(spec, graph_options(job, one)).value();
    program::Program scaled = lower(graph, job, one, {});
    const program::Program fresh = lower(graph, job, four, {});
    REQUIRE(rescale(scaled, four));
    for (std::size_t b = 0; b < fresh.classes[0].buffers.size(); ++b)
      CHECK(scaled.classes[0].buffers[b].elements == fresh.classes[0].buffers[b].elements);
  }
}

TEST_CASE("methods that do not fit are refused by name, with what would") {
  const auto says = [](const char* text) { return Catch::Contains(text); };
  CHECK_THAT(refused("gpt2-124m", sliced_job(1), sliced_by(ContextMethod::ring, 1)),
             says("context_method") && says("gather with context=1") && says("pin context to 2"));
  CHECK_THAT(refused("gpt2-124m", sliced_job(1), sliced_by(ContextMethod::exchange, 8)),
             says("tensor x context that divides 12 heads") && says("1 x 8") &&
                 says("context_method=ring"));
  Strategy s = sliced_by(ContextMethod::exchange, 8);
  s.tensor = 2;
  CHECK_THAT(refused("llama3-8b", sliced_job(1), s),
             says("8 key-value heads") && says("2 x 8"));
  Job stored = sliced_job(1);
  stored.attention = "unfused";
  CHECK_THAT(refused("gpt2-124m", stored, sliced_by(ContextMethod::ring, 2)),
             says("stores its scores") && says("flash2"));
  CHECK(refused("gpt2-124m", stored, sliced_by(ContextMethod::exchange, 2)).empty());
  Job longer = sliced_job(1);
  longer.seq_len = 4096;
  CHECK_THAT(refused("llama3-8b", longer, sliced_by(ContextMethod::ring, 2048)),
             says("at most 1024"));
}
