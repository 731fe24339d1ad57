#pragma once
// Graph cuts: the operators of an arbitrary graph divided over two ranks, each of which takes its
// own in the whole graph's order; values that cross travel once, and their gradients back
// (partition=operators). The two-GPU network of [alexnet] is one.
//
// What is minimised is the time until both ranks are done with one micro-batch, forward and
// backward together: operators one after another on each rank, values on the wire one after another
// in each direction, everything as soon as what it needs is there. Weights are those of an H100 SXM
// (datasheet: 989 TFLOP/s dense bf16, 3.35 TB/s, NVLink 450 GB/s each way); a cut that is best
// there is taken everywhere, since a Program does not depend on the GPU. Pure; thread-safe.

#include <boost/graph/adjacency_list.hpp>
#include <cstdint>
#include <vector>

#include "core/result.hpp"
#include "models/graph.hpp"

namespace planner {

// Runs of operators of which each alone reads the one before: no cut divides them. Joins (concat)
// belong to their readers, each rank has its own.
struct CutVertex {
  std::vector<int> operators;          // indices into the spec's operators
  double time = 0;                     // seconds, forward and backward
  double message = 0;                  // seconds of its value on the wire, and of the gradient back
  bool trains = false;                 // has parameters
};
struct CutEdge {};
// Vertices in topological order; edges from a value's maker to its readers.
using CutGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, CutVertex,
                                       CutEdge>;
CutGraph cut_graph(const models::ModelGraph& graph, std::int64_t micro_batch);

// Time of a division: side[v] is the rank (0 or 1) of vertex v. O(V + E).
double makespan(const CutGraph& graph, const std::vector<int>& side);

inline constexpr std::size_t kExactVertices = 16;

// The division of least makespan that gives both ranks parameters; of equals the one of fewest
// messages, then the first in lexicographic order. Exact up to kExactVertices by trying all
// 2^(V - 1); beyond, the best prefix of the topological order, improved by moving one vertex or
// swapping two as long as that helps: a local optimum, no bound known. REQUIRES: two vertices that
// train.
std::vector<int> bisect(const CutGraph& graph);

// The rank, from 1, of each operator in the file's order. REQUIRES: an operator graph that can_cut
// accepts.
std::vector<std::int64_t> cut_operators(const models::ModelGraph& graph, std::int64_t micro_batch);

// Whether more than one run has parameters.
bool can_cut(const models::ModelSpec& spec);
// What is wrong with parts given by hand.
core::Problems cut_problems(const models::ModelSpec& spec, const std::vector<std::int64_t>& parts);

}  // namespace planner
