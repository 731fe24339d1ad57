#pragma once
// Runs one cell of a matrix and holds every rank's memory and traffic against the prediction, to
// the byte: live peak, terms, reserved range, calls, payload, wire; and the bound against the
// replay.

#include <string>

#include "tests/property/run_program.hpp"

namespace tests {

struct Cell {
  std::string name;
  planner::Strategy strategy;
  std::int64_t lora_rank = 0;
  std::string quantization = "none";
  std::string attention = "flash2";
};

// global_batch: samples of the cell's job; a LoRA cell has its rank.
void check_cell(const models::ModelSpec& spec, const Cell& cell, const std::string& recipe,
                std::int64_t global_batch = 12);

// The same of a run that is there.
void check_prediction(const ProgramRun& run, std::int64_t steps = 0);

}  // namespace tests
