#pragma once
// Internal: what each kind of file says, as parts of a Page. `what` of a part's title is its file.
// Pure; thread-safe.

#include <functional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "planner/plan/scaling.hpp"
#include "reports/comparison.hpp"
#include "reports/html/document.hpp"
#include "reports/html/page.hpp"

namespace reports::html {

// Tells what is being worked out ("timeline of plan.json").
using Progress = std::function<void(const std::string&)>;

// summary: of a plan, what its file says, without playing it.
enum class Extent : std::uint8_t { whole, summary };

// A plan: the answer, memory, timeline, time, candidates, communication (with what `runs` of it
// measured), scaling, checkpoints, machines, assumptions, what was rejected.
core::Result<Part> plan_part(const Document& plan, const std::vector<const Document*>& runs,
                             const Progress& progress, Extent extent);
Part simulate_part(const Document& simulation);
// Of a simulation over shared links: how busy they are, layer by layer of the network.
Section links_section(const Document& simulation);
// Of a simulation in which ranks or links are slow at random: how long its steps are.
Section variation_section(const Document& simulation);
// Of a simulation with failures: goodput, by rule and by simulation.
Section goodput_section(const Document& simulation);
Part run_part(const Document& run);
// A compare/1 file: one section per run.
Part compare_part(const Document& comparison);
// A run beside its plan, compared here.
Section beside_section(const Document& plan, const Document& run, const Comparison& comparison);
Part validate_part(const Document& validation);
Part sweep_part(const Document& sweep);
// Plans and runs beside each other. REQUIRES: at least two of them.
Part side_by_side_part(const std::vector<const Document*>& documents);
// The subjects of a compare/1 file, where it has some.
Section subjects_section(const Document& comparison);

// Entries of the list at a pointer, 0 where there is none; the text there, "-" where there is none.
std::size_t count_at(const Document& document, const std::string& pointer);
std::string text_at(const Document& document, const std::string& pointer);

// Shared pieces. `base` is the pointer of a candidate ("/chosen"), or of a file's own memory, time.
inline constexpr const char* kMemoryParts[] = {
    "weights",       "gradients", "optimizer", "activations",   "logits",
    "communication", "allocator", "workspace", "context",       "communicators"};
// One of kMemoryParts; the allocator's is made here: reserved + waiting - live.
Cell memory_part(const Document& document, const std::string& memory, std::string_view part);
// One bar of the memory chart: bytes of kMemoryParts.
core::Json memory_bar(const Document& document, const std::string& memory, std::string label);
PageTable memory_table(const Document& document, std::string caption,
                       const std::vector<std::pair<std::string, std::string>>& rows);
PageTable time_table(const Document& document, std::string caption,
                     const std::vector<std::pair<std::string, std::string>>& rows);
core::Json time_bar(const Document& document, const std::string& time, std::string label);
// The table less the columns in which every cell is "-".
PageTable without_empty_columns(PageTable table);
Section scaling_section(const std::vector<planner::ScalePoint>& points, const Document* source);

}  // namespace reports::html
