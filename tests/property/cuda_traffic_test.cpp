// What cost counts that an operator's kernels read and write of a GPU's memory
// (ActionCost::traffic) is what they do on the twin, where the compiler calls a meter at
// each of their accesses; and the FLOPs of products are those that models count. Each byte counts
// once a launch: what comes back from a cache does not count.
#include "exec/cuda/backend/platform.hpp"
#include "exec/cuda/twin/twin.hpp"
#include "sim/cost/action.hpp"
#include "sim/cost/machine.hpp"
#include "sim/program/each_action.hpp"
#include "tests/catch.hpp"
#include "tests/property/decoder_specs.hpp"
#include "tests/property/run_program.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;
namespace cuda = exec::cuda;

namespace {

struct Moved {
  std::int64_t read = 0, written = 0;
  double flops = 0;
  const models::Operator* op = nullptr;
  std::int64_t calls = 0;
};
using Table = std::map<std::string, Moved>;

// Of those that are no operator's, kernels of this tool; copies and zeros are the driver's.
bool is_kernel_of_step(program::ActionKind kind) {
  using program::ActionKind;
  return kind == ActionKind::optimizer || kind == ActionKind::accumulate ||
         kind == ActionKind::square_sum;
}

// Of one step, by kind of action and operator.
Table counted(const program::Program& p) {
  static const cost::Machine machine = [] {
    cost::Machine m;
    m.executor_kernels = true;
    return m;
  }();
  Table table;
  for (const program::RankClass& k : p.classes) {
    const cost::ActionCost costs(p, k, machine);
    program::for_each_action(k, [&](const program::Action& a, const program::Call& call,
                                    std::int64_t times) {
      const bool is_operator = cost::ActionCost::is_operator(a.kind);
      if (!is_operator && !is_kernel_of_step(a.kind)) return;
      const cost::MemoryTraffic t = costs.traffic(a, call);
      std::string key(program::name(a.kind));
      if (is_operator) key += "/" + k.operators[a.op].name;
      Moved& m = table[key];
      m.read += times * t.read.value();
      m.written += times * t.written.value();
      m.calls += times;
      if (!is_operator) return;
      m.op = &k.operators[a.op];
      const core::Flops flops =
          a.kind == program::ActionKind::forward          ? m.op->flops_forward
          : a.kind == program::ActionKind::input_gradient ? m.op->flops_input_gradient
                                                          : m.op->flops_weight_gradient;
      m.flops += static_cast<double>(times * p.samples) * flops.value();
    });
  }
  return table;
}

// The kind and the operator that work belongs to, of the ranges that it was given in.
std::string innermost(const std::string& within) {
  std::size_t at = 0;
  for (const char* kind : {"forward/", "input_gradient/", "weight_gradient/", "optimizer",
                           "accumulate", "square_sum"})
    if (const std::size_t found = within.rfind(kind); found != std::string::npos)
      at = std::max(at, found);
  return within.substr(at);
}

struct Measured {
  program::Program program;
  Table found;
  std::map<std::string, std::int64_t> kernels;
};

Measured one_step(const models::ModelSpec& spec, const Job& job, const Strategy& s) {
  static std::uint64_t order = 900;
  cuda::Twin twin({.seed = ++order, .meters = true});
  cuda::CudaPlatform platform(twin, {.attention = cuda::AttentionKernel::own});
  ProgramRun run = run_program(spec, job, s, 1, 3, [&](const auto& p, const auto& k, int rank) {
    return platform.backend(p, k, rank);
  });
  Measured all{std::move(run.program), {}, twin.launches()};
  for (const auto& [within, m] : twin.metered()) {
    Moved& f = all.found[innermost(within)];
    f.read += m.bytes.read;
    f.written += m.bytes.written;
    f.flops += m.flops.value();
  }
  return all;
}

// Sums over rows are made in strips, whose partial sums are written, read and not counted: at most
// 256 of two sums of four bytes for each column, or half as many of eight.
std::int64_t most_partial(const models::Operator& op, std::int64_t calls) {
  const std::int64_t columns = std::max(op.n, (op.heads + op.kv_heads) * op.head_dim);
  return calls * 256 * 2 * 4 * columns;
}

bool sums_rows(const models::Operator& op, program::ActionKind kind) {
  using models::OpKind;
  if (kind == program::ActionKind::weight_gradient)
    return op.parameters.size() > 1 || op.kind == OpKind::bias_add;
  const bool norm = op.kind == OpKind::layer_norm || op.kind == OpKind::rms_norm;
  return norm && kind == program::ActionKind::input_gradient;
}

// aligned: all rows of norms begin at multiples of 16 bytes. Of others a second kernel reads again
// what it sums.
void check_operator(const std::string& name, const Moved& e, const Moved& f, bool aligned) {
  using models::OpKind;
  using program::ActionKind;
  INFO(name << ": read " << f.read << " counted " << e.read << ", written " << f.written
            << " counted " << e.written << ", " << f.flops << " FLOPs counted " << e.flops);
  if (e.op == nullptr) {
    const std::int64_t partial = f.written - e.written;  // of the squares of a norm
    CHECK((partial == 0 || name == "square_sum"));
    CHECK(f.read - e.read == partial);
    return;
  }
  const models::Operator& op = *e.op;
  const ActionKind kind = name.starts_with("forward") ? ActionKind::forward
                          : name.starts_with("input") ? ActionKind::input_gradient
                                                      : ActionKind::weight_gradient;
  switch (op.kind) {
    // Rows of a table that several tokens look up come from a cache.
    case OpKind::token_embedding:
    case OpKind::type_embedding:
      if (kind == ActionKind::forward) CHECK(f.read <= e.read);
      return;
    // Own kernels of the backward pass: deltas, queries and keys read what they need each.
    case OpKind::attention:
      if (kind == ActionKind::forward) break;
      CHECK(f.read >= e.read);
      return;
    // One kernel with the sum or the loss before it, or after it: check_joined().
    case OpKind::softmax_max:
    case OpKind::softmax_sum:
    case OpKind::cross_entropy:
    case OpKind::add: return;
    case OpKind::layer_norm:
      if (kind == ActionKind::forward) return;
      break;
    // Column sums of gammas are kernels of their own, which read again what they sum.
    case OpKind::qk_norm:
    case OpKind::width_norm:
      if (kind == ActionKind::forward || op.parameters.empty()) break;
      CHECK(f.read >= e.read);
      return;
    // Of the logits those of the chosen experts alone.
    case OpKind::top_k:
      if (kind == ActionKind::forward) break;
      CHECK(f.read <= e.read);
      return;
    // The library takes a bias of whole packs of 16 bytes, others are added by a kernel.
    case OpKind::linear:
      if (kind != ActionKind::forward || op.parameters.size() < 2 || op.n % 8 == 0) break;
      CHECK(f.read >= e.read);
      return;
    default: break;
  }
  if (op.kind == OpKind::linear || op.kind == OpKind::expert_linear) CHECK(f.flops == e.flops);
  if (!sums_rows(op, kind)) {
    CHECK(f.read == e.read);
    CHECK(f.written == e.written);
    return;
  }
  const std::int64_t partial = f.written - e.written;
  CHECK(partial >= 0);
  CHECK(partial <= most_partial(op, e.calls));
  const std::int64_t again = f.read - e.read - partial;
  CHECK((again == 0 || (!aligned && again > 0 && again <= e.read)));
}

// Sums that a layer norm reads next are its kernel's, too: they are written, and not read again.
// The loss's kernels read the logits less often than its operators.
void check_joined(const Table& expected, Measured& m) {
  using models::OpKind;
  Moved e, f, loss_e, loss_f;
  std::int64_t sum = 0;                // bytes of one
  for (const auto& [name, moved] : expected) {
    if (!name.starts_with("forward/") || moved.op == nullptr) continue;
    const OpKind kind = moved.op->kind;
    const bool loss = kind == OpKind::softmax_max || kind == OpKind::softmax_sum ||
                      kind == OpKind::cross_entropy;
    if (!loss && kind != OpKind::add && kind != OpKind::layer_norm) continue;
    const Moved& found = m.found[name];
    (loss ? loss_e : e).read += moved.read, (loss ? loss_e : e).written += moved.written;
    (loss ? loss_f : f).read += found.read, (loss ? loss_f : f).written += found.written;
    if (kind == OpKind::add) sum = moved.written / moved.calls;
  }
  INFO("sums and norms: read " << f.read << " counted " << e.read << ", written " << f.written
                               << " counted " << e.written);
  CHECK(f.written == e.written);
  CHECK(f.read == e.read - m.kernels["add_layer_norm"] * sum);
  CHECK(loss_f.read <= loss_e.read);
  CHECK(loss_f.written == loss_e.written);
}

void check(const models::ModelSpec& spec, const Job& job, const Strategy& s, bool aligned) {
  INFO(spec.name << " " << to_text(s) << " " << job.recipe);
  Measured m = one_step(spec, job, s);
  const Table expected = counted(m.program);
  for (const auto& [name, e] : expected) check_operator(name, e, m.found[name], aligned);
  check_joined(expected, m);
}

}  // namespace

TEST_CASE("what kernels move is what cost counts: a GPT") {
  const models::ModelSpec gpt = tiny_gpt();
  for (const char* recipe : {"fp32", "mixed"})
    for (const Checkpoint c : {Checkpoint::none, Checkpoint::every_k})
      check(gpt, tiny_job(gpt, 12, recipe), strategy(1, 12, 3, recomputing(c)), true);
}

TEST_CASE("what kernels move is what cost counts: decoders") {
  for (const models::ModelSpec& spec : decoders())
    check(spec, tiny_job(spec, 12, "mixed"), strategy(1, 12, 2), false);
}
