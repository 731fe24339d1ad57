// The section that shows how ranks divide the operators of a graph: a picture of the graph with the
// bytes that are sent, and a table of what it would cost to divide an operator differently.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "reports/html/plan_sections.hpp"
#include "reports/split_text.hpp"

namespace reports::html {
namespace {

using models::ops::Factor;
using planner::DividedOperator;
using planner::SplitMove;
using planner::SplitReport;

// Operators drawn as one box: what has no parameters and follows the one before it, alone, with
// nothing moved between.
class Boxes {
 public:
  explicit Boxes(const SplitReport& report) {
    std::map<int, int> readers, inputs;
    for (const SplitMove& m : report.moves) ++readers[m.from], ++inputs[m.to];
    for (const DividedOperator& op : report.operators) {
      const SplitMove* only = nullptr;
      for (const SplitMove& m : report.moves)
        if (m.to == op.index && inputs[op.index] == 1) only = &m;
      const bool joins = only != nullptr && only->from != models::kModelInput &&
                         !only->moves && readers[only->from] == 1 && op.parameters == 0;
      int& own = box_[op.index];
      own = joins ? box_.at(only->from) : static_cast<int>(nodes.size());
      if (joins) {
        GraphNode& node = nodes[static_cast<std::size_t>(own)];
        node.note += (node.note.empty() ? "" : ", ") + op.kind;
        continue;
      }
      int row = 0;
      for (const SplitMove& m : report.moves)
        if (m.to == op.index && m.from != models::kModelInput)
          row = std::max(row, nodes[static_cast<std::size_t>(box_.at(m.from))].row + 1);
      const int shade = op.factor == Factor::kSample ? 0 : op.factor == Factor::kOut ? 1 : 2;
      nodes.push_back({op.name, "", row, columns_[row]++, shade});
    }
    for (const SplitMove& m : report.moves) {
      if (m.from == models::kModelInput || m.to == planner::kLoss) continue;
      const int from = box_.at(m.from), to = box_.at(m.to);
      if (from == to) continue;
      edges.push_back({from, to, m.moves, m.bytes.value() > 0 ? core::to_text(m.bytes) : ""});
    }
  }

  std::vector<GraphNode> nodes;
  std::vector<GraphEdge> edges;

 private:
  std::map<int, int> box_;             // by operator
  std::map<int, int> columns_;         // boxes of each row so far
};

GraphPicture picture_of(const SplitReport& report) {
  Boxes boxes(report);
  core::Bytes moved{};
  for (const SplitMove& m : report.moves) moved += m.bytes;
  GraphPicture picture;
  picture.title = "The operators, and what a rank sends in a step to bring values where they are "
                  "read next";
  picture.legend = {"each rank its own samples", "outputs divided over the ranks",
                    "inputs divided over the ranks"};
  picture.nodes = std::move(boxes.nodes);
  picture.edges = std::move(boxes.edges);
  picture.alternative =
      fmt::format("{} ranks divide operators and send {} each in a step between them.",
                  report.ranks, core::to_text(moved));
  return picture;
}

}  // namespace

core::Result<Section> splits_section(const planner::Plan& plan) {
  Section section{"How operators are divided", {}};
  if (plan.chosen->strategy.split == 1) return section;
  const core::Result<SplitReport> made_report = split_report_of(plan);
  if (!made_report.ok()) return made_report.problems();
  const SplitReport& report = *made_report;
  section.blocks.push_back(Text{
      "Neighbouring data ranks divide operators among them. Where samples are divided, each rank "
      "has all parameters, and their gradients are added up over all data ranks. Where outputs or "
      "inputs are divided, a rank has a part of the parameters and works on the samples of all of "
      "these ranks.",
      TextKind::note});
  section.blocks.push_back(picture_of(report));
  PageTable table{"Operators with parameters, and the next best way to divide each",
                  {{"operator", false}, {"kind", false}, {"divided by", false},
                   {"parameters of a rank"}, {"otherwise, a step", false}},
                  {}, false};
  for (const DividedOperator& op : report.operators)
    if (op.parameters > 0)
      table.rows.push_back({words(op.name), words(op.kind), words(factor_text(op.factor, op.kind)),
                            made(static_cast<double>(op.parameters), Unit::count),
                            words(otherwise_text(op))});
  section.blocks.push_back(std::move(table));
  return section;
}

}  // namespace reports::html
