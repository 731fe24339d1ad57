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
  bool front_only = false;             // neither recommended nor an alternative: a table's row
};
// The chosen one first, then the alternatives, then the rest of the Pareto front; each once.
std::vector<CandidateRow> candidate_rows(const planner::Plan& plan);

// The verdict, the five figures, why; without a chosen candidate the verdict alone.
Section answer_section(const Document& d);
// The memory of the chosen candidate's fullest GPU. REQUIRES: there is one.
Bar memory_of_choice(const Document& d);
// "64 x H100 SXM5 80GB".
std::string machine_text(const planner::Plan& plan);
// What was asked beside model and machine, in a line.
std::string question_text(const planner::Plan& plan);

// The parts of the chosen strategy, each with what it means. REQUIRES: there is one.
PageTable strategy_in_words(const planner::Plan& plan);
// What slow ranks and links make of the candidates; no blocks where nobody asked (--robust).
Section robust_section(const Document& d);
// How operators are divided over ranks; no blocks where they are not. REQUIRES: a chosen candidate.
core::Result<Section> splits_section(const planner::Plan& plan);
// The other words on a plan's page.
Section words_section(const planner::Plan& plan);

// What follows from playing the chosen candidate. REQUIRES: there is one. Problems: the model's
// own.
core::Result<Section> timeline_section(const Document& d, const Progress& progress);
core::Result<Section> communication_section(const Document& d,
                                            const std::vector<const Document*>& runs);
core::Result<Section> plan_scaling_section(const Document& d, const Progress& progress);
core::Result<Section> checkpoint_section(const Document& d, const Progress& progress);

}  // namespace reports::html
