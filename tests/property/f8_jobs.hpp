#pragma once
// Models and jobs whose layers' products are in 8 bits.

#include "hw_profiles/profile.hpp"
#include "tests/property/strategies.hpp"

namespace tests {

// This tool's own, whose casts are actions.
inline hw_profiles::Framework executor() {
  hw_profiles::Framework framework;
  framework.executor_kernels = true;
  return framework;
}

// Widths that 8-bit products take; 40 is no multiple of a block of 32.
inline models::ModelSpec even(models::ModelSpec spec) {
  spec.hidden = 32;
  spec.heads = spec.kv_heads = 4;
  spec.head_dim = 0;
  spec.ffn_hidden = 80;
  spec.default_seq_len = 8;
  return spec;
}
inline models::ModelSpec even_llama() {
  models::ModelSpec spec = even(tiny_llama());
  spec.kv_heads = 2;
  return spec;
}

inline planner::Job f8_job(const models::ModelSpec& spec, const char* scaling = "tensorwise",
                           const char* recipe = "mixed") {
  planner::Job job = tiny_job(spec, 12, recipe);
  job.precision = core::DType::f8;
  job.fp8_scaling = scaling;
  return job;
}

}  // namespace tests
