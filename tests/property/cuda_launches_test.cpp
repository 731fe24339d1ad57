// What cost counts of an operator's launches (sim/cost/launches.hpp) is what the CUDA backend
// launches for it on the twin, in a whole step, but for kernels that do a neighbour's work too.
#include "exec/cuda/backend/platform.hpp"
#include "exec/cuda/twin/twin.hpp"
#include "sim/cost/action.hpp"
#include "sim/cost/launches.hpp"
#include "sim/program/each_action.hpp"
#include "tests/catch.hpp"
#include "tests/property/context_cases.hpp"
#include "tests/property/decoder_specs.hpp"
#include "tests/property/run_program.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;
namespace cuda = exec::cuda;

namespace {

using Counts = std::map<std::string, std::int64_t>;

// Of one step of all ranks, by operator.
Counts counted(const program::Program& p) {
  Counts counts;
  for (int rank = 0; rank < p.mesh.ranks(); ++rank) {
    const program::RankClass& k = p.classes[static_cast<std::size_t>(p.class_of(rank))];
    program::for_each_action(
        k, [&](const program::Action& a, const program::Call&, std::int64_t times) {
          if (!cost::ActionCost::is_operator(a.kind)) return;
          const models::Operator& op = k.operators[a.op];
          counts[op.name] += times * cost::launches(op, a.kind);
        });
  }
  return counts;
}

struct Launched {
  program::Program program;
  Counts within, kernels;
};

Launched one_step(const models::ModelSpec& spec, const Job& job, const Strategy& s,
                  bool gelu_by_products) {
  static std::uint64_t order = 500;
  cuda::Twin twin({.seed = ++order});
  cuda::CudaPlatform platform(
      twin, {.attention = cuda::AttentionKernel::own, .gelu_by_products = gelu_by_products});
  ProgramRun run = run_program(spec, job, s, 1, 3, [&](const auto& p, const auto& k, int rank) {
    return platform.backend(p, k, rank);
  });
  return {std::move(run.program), twin.launches_within(), twin.launches()};
}

// Kernels that do the work of more operators than they were launched for, and how many launches
// each saves. The loss's kernel saves two: those of the maxima and of the sums.
const std::map<std::string, std::int64_t> kJoined{{"add_layer_norm", 1},
                                                  {"softmax_max_and_sum", 1},
                                                  {"softmax_and_cross_entropy", 2},
                                                  {"product_gelu", 1},
                                                  {"product_gelu_gradient", 1}};
bool may_be_joined(const std::string& op) {
  for (const char* last : {".add", ".max", ".sums", ".gelu", "mlp.fc", "mlp.proj"})
    if (op.ends_with(last)) return true;
  return false;
}

// joins: kernels that the run must have used.
void check_counts(const models::ModelSpec& spec, const Job& job, const Strategy& s,
                  std::initializer_list<const char*> joins, bool gelu_by_products = false) {
  INFO(spec.name << " " << to_text(s) << " " << job.recipe << " lora=" << job.lora_rank);
  Launched found = one_step(spec, job, s, gelu_by_products);
  std::int64_t fewer = 0, saved = 0;
  for (const auto& [name, count] : counted(found.program)) {
    const std::int64_t launched = found.within[name];
    INFO(name << ": " << launched << " launched, " << count << " counted");
    if (may_be_joined(name)) CHECK(launched <= count);
    else CHECK(launched == count);
    fewer += count - launched;
  }
  for (const auto& [kernel, saves] : kJoined) saved += saves * found.kernels[kernel];
  CHECK(fewer == saved);
  for (const char* kernel : joins) {
    INFO(kernel);
    CHECK(found.kernels[kernel] > 0);
  }
}

}  // namespace

TEST_CASE("the launches that cost counts of a GPT are those of the backend") {
  const models::ModelSpec gpt = tiny_gpt();
  for (const char* recipe : {"fp32", "mixed"})
    for (const Checkpoint c : {Checkpoint::none, Checkpoint::every_k, Checkpoint::selective})
      check_counts(gpt, tiny_job(gpt, 12, recipe), strategy(1, 12, 3, recomputing(c)),
                   {"add_layer_norm"});
  check_counts(gpt, tiny_job(gpt, 12, "mixed"), strategy(1, 12, 2),
               {"product_gelu", "product_gelu_gradient"}, true);
}

TEST_CASE("they are of decoders since Llama, of mixtures of experts and of BERT") {
  for (const models::ModelSpec& spec : decoders()) {
    // Norms of 10 columns, and gammas behind an odd number of weights: rows off 16 bytes take a
    // kernel more.
    if (spec.variants.kv_rank > 0 || spec.variants.head_bias) continue;
    const Checkpoint c = spec.name == "window" ? Checkpoint::every_k : Checkpoint::none;
    check_counts(spec, tiny_job(spec, 12), strategy(1, 12, 2, recomputing(c)), {});
  }
  // Experts whose rows differ in number, and those of other ranks.
  for (const std::int64_t experts : {3, 4}) {
    const models::ModelSpec spec = tiny_mixture(experts, 2);
    check_counts(spec, tiny_job(spec, 12), strategy(1, 12, 2), {});
  }
  const models::ModelSpec bert = tiny_of(models::Family::bert);
  check_counts(bert, tiny_job(bert, 12), strategy(1, 12, 2), {});
}

TEST_CASE("they are of decoders with other norms and gates, of chains and of adapters") {
  for (const auto family : {models::Family::llama, models::Family::qwen2, models::Family::qwen3}) {
    const models::ModelSpec spec = tiny_llama(family);
    check_counts(spec, tiny_job(spec, 12), strategy(1, 12, 2), {});
  }
  const models::ModelSpec opt = tiny_of(models::Family::opt);
  check_counts(opt, tiny_job(opt, 12), strategy(1, 12, 2), {});
  for (const auto activation : {models::Activation::tanh, models::Activation::identity}) {
    models::ModelSpec chain = small_chain(4, 8);
    chain.activation = activation;
    check_counts(chain, tiny_job(chain, 12), strategy(1, 12, 2), {});
  }
  Job job = tiny_job(tiny_gpt(), 12);
  job.lora_rank = 3;
  check_counts(tiny_gpt(), job, strategy(1, 12, 2), {});
}

TEST_CASE("they are of context ranks, by every method") {
  for (const auto& base : {tiny_gpt(), tiny_llama()}) {
    const models::ModelSpec spec = with_tokens(base, 12);
    for (const ContextMethod method : kContextMethods)
      check_counts(spec, tiny_job(spec, 12), by_method(method, 1, 2), {});
  }
}
