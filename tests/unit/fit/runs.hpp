#pragma once
// A few runs whose measured times are predictions under other constants: what a fit must find.

#include <cmath>
#include <string>
#include <vector>

#include "core/csv.hpp"
#include "core/result.hpp"
#include "hw_profiles/numbers.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "reports/fit/cases.hpp"
#include "reports/validate/row.hpp"

namespace fit_test {

// Four runs each of two sites, from 2 to 16 samples a micro-batch.
inline std::vector<reports::validation::Row> rows() {
  std::string text =
      "id,dataset,framework,family,layers,hidden,heads,ffn_hidden,ffn,vocab,seq_len,gpu,gpus,data,"
      "micro_batch,global_batch,precision,checkpoint,attention,step_seconds\n";
  for (const char* site : {"north", "south"})
    for (const int samples : {2, 4, 8, 16})
      text += std::string(site) + std::to_string(samples) + ',' + site +
              ",megatron,gpt,4,1024,16,4096,gelu,32000,1024,a100-sxm-80g,8,8," +
              std::to_string(samples) + ',' + std::to_string(samples * 16) +
              ",bf16,none,flash2,1\n";
  const auto table = core::parse_csv(text, "runs.csv");
  return reports::validation::read_rows(*table).rows;
}

// Step times are `pace` times those of a sustained GEMM fraction.
inline void measure(std::vector<reports::validation::Row>& all, double sustained,
                    double pace_of_south = 1) {
  reports::validation::Predictor predictor(
      {{"gpu.gemm_sustained", std::to_string(sustained), "a100-sxm-80g"}});
  for (auto& row : all) {
    const auto c = predictor.predict(row);
    PLANNER_CHECK(c.ok(), core::to_text(c.problems()));
    row.step = c->candidate.time.step * (row.dataset == "south" ? pace_of_south : 1);
  }
}

}  // namespace fit_test
