#pragma once
// Internal: what the files of a plan's part share.

#include <string>
#include <vector>

#include "reports/html/sections.hpp"

namespace reports::html {

struct CandidateRow {
  std::string label, pointer;          // "alternative 2", "/alternatives/1"
  const planner::Candidate* candidate = nullptr;
  bool on_front = false;
};
// The chosen one first, then the alternatives, then the rest of the Pareto front; each once.
std::vector<CandidateRow> candidate_rows(const planner::Plan& plan);

// Timeline, communication, scaling, checkpoints. REQUIRES: the plan has a chosen candidate.
core::Result<std::vector<Section>> played_sections(const Document& d,
                                                   const std::vector<const Document*>& runs,
                                                   const Progress& progress);

}  // namespace reports::html
