#pragma once
// Measures the exact search for how the operators of a graph are divided over ranks: for one number
// of ranks and one micro-batch, costs of kernels and moves, and the least of all divisions.
// Published times of such searches for Inception-v3 on 8 GPUs: 20 s [pase], 147 s [flexflow].

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"

namespace cli {

struct DivisionFigure {
  std::string model;
  std::int64_t operators = 0, ranks = 0;
  double seconds = 0;                  // of one core
};

core::Result<std::vector<DivisionFigure>> time_divisions();

core::Json to_json(const DivisionFigure& figure);
std::string division_line(const DivisionFigure& figure);

}  // namespace cli
