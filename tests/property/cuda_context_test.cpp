// Context parallelism with the kernels of a GPU on its twin: rows of a sample divided over ranks,
// by gathered keys, by a ring of blocks and by exchanged heads, train what the host's ranks and one
// rank train; memory and traffic are the prediction to the byte.
#include <algorithm>

#include "tests/property/context_cases.hpp"
#include "tests/property/cuda_runs.hpp"
#include "tests/property/decoder_specs.hpp"

using namespace planner;
using namespace tests;

namespace {

// Models of more than two layers are tested with two.
void check_on_gpu(const models::ModelSpec& base, const Strategy& s, const std::string& recipe,
                  const Bounds& bounds) {
  models::ModelSpec spec = with_tokens(base, 12);
  spec.layers = std::min<std::int64_t>(spec.layers, 2);
  check(spec, job_of(spec, recipe), s, bounds);
}

}  // namespace

TEST_CASE("2 and 3 context ranks on GPUs train what the host's train, in every method") {
  for (const auto& base : {tiny_gpt(), tiny_llama(), tiny_llama(models::Family::qwen3),
                           tiny_of(models::Family::mpt)})
    for (const std::int64_t context : {2, 3})
      for (const ContextMethod method : kContextMethods) {
        const bool divides = base.kv_heads % context == 0;
        if (method == ContextMethod::exchange && !divides) continue;
        const bool other = base.family == models::Family::qwen3 ||
                           base.family == models::Family::mpt;
        if (other && context > 2) continue;
        check_on_gpu(base, by_method(method, 1, context), "fp64", kDouble);
        if (context == 2) check_on_gpu(base, by_method(method, 1, context), "mixed", kHalfStored);
      }
}

TEST_CASE("context ranks on GPUs that attend on tensor cores train within their rounding") {
  models::ModelSpec spec = tiny_gpt(1);
  spec.heads = spec.kv_heads = 3;
  for (const ContextMethod method : kContextMethods) {
    check_on_gpu(spec, by_method(method, 1, 3), "lean", kHalf);
    CHECK(launches["tensor_attention"] > 0);
    CHECK(launches["attention"] == 0);
  }
}

TEST_CASE("context ranks on GPUs train the same with ZeRO-3, in pipelines and with recomputation") {
  for (const ContextMethod method : kContextMethods) {
    for (const Strategy& s : {by_method(method, 2, 2, sharded_all(Sharding::zero3)),
                              by_method(method, 1, 2, stages(2, Schedule::zb_h1))})
      check_on_gpu(tiny_llama(), s, "fp32", kFloat);
    for (const Checkpoint c : {Checkpoint::every_k, Checkpoint::selective})
      check_on_gpu(tiny_gpt(2), by_method(method, 1, 2, recomputing(c)), "fp32", kFloat);
  }
}

TEST_CASE("context ranks on GPUs train the same beside tensor ranks and sequence parallelism") {
  for (const ContextMethod method : kContextMethods)
    for (const bool rows : {false, true}) {
      Strategy s = by_method(method, 1, 2, sharded_all(Sharding::zero1));
      s.tensor = 3;
      s.sequence_parallel = rows;
      check_on_gpu(rows ? tiny_llama() : tiny_gpt(2), s, "fp32", kFloat);
    }
}

TEST_CASE("context ranks on GPUs train windows, chunks, capped scores and sinks") {
  for (const models::ModelSpec& base : attention_variants())
    for (const ContextMethod method : kContextMethods) {
      const models::Variants& v = base.variants;
      const bool within = v.window > 0 || v.chunk > 0 || v.sinks;
      if (within && method == ContextMethod::ring) continue;  // refused (context_problems.cpp)
      check_on_gpu(base, by_method(method, 1, 2), "fp64", kDouble);
    }
}

TEST_CASE("context ranks on GPUs train a model without a causal mask") {
  for (const ContextMethod method : kContextMethods)
    check_on_gpu(tiny_of(models::Family::bert), by_method(method, 1, 3), "fp64", kDouble);
}
