#pragma once
// Splits: along what each operator of an operator graph is divided over `ways` ranks, which are
// neighbouring data ranks (Strategy::split) [owt, flexflow]. Where nothing else is said each rank
// takes its own samples, as data ranks do. What one operator makes is moved to where the next one
// reads it. Factors are those of the operators' schemas (ops/schema.hpp). Pure and thread-safe.
//
//   factor   reads                      makes                        its parameters
//   sample   this rank's samples        this rank's samples          whole on every rank
//   out      all ranks' samples         1 / ways of the columns      1 / ways of the columns
//   in       1 / ways of the columns    a sum over ranks, of which   1 / ways of the rows
//                                       each gets its samples
//
// Columns are features of a row, or channels of an image; of attention they are whole heads of
// queries, keys and values that are apart. Operators without parameters that work on
// each column by itself read and make 1 / ways of the columns when divided along `out`.

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "models/graph_spec.hpp"
#include "models/ops/schema.hpp"

namespace models {

using Splits = std::vector<ops::Factor>;  // by operator of a GraphSpec

// How a value lies on the ranks: samples of this rank, columns of this rank, or all of it.
enum class Placement : std::uint8_t { samples, columns, whole };
std::string_view name(Placement placement);

// Of columns, also the rows of a sample that have them: a flatten makes one row of several, whose
// columns are others.
struct Place {
  Placement placement = Placement::samples;
  std::int64_t rows = 0;
  auto operator<=>(const Place&) const = default;
};

// "sample", "out", "in": factors that splits may name.
std::string_view name(ops::Factor factor);

// Of a value of one sample, which an operator makes or which is the model's input.
std::int64_t elements_of_value(const GraphAnalysis& analysis, int value);
// Rows of a sample in a value that is read under this shape, each with the columns that divide.
std::int64_t rows_of(const Shape& shape);
inline constexpr std::array kSplitFactors{ops::kSample, ops::kOut, ops::kIn};

// The factors (bits of ops::Factor) along which `ways` ranks may divide operator i: those of its
// schema, where sizes divide. kSample always.
std::uint8_t factors_of(const GraphSpec& spec, const GraphAnalysis& analysis, int i,
                        std::int64_t ways);
// Where operator i reads its inputs, and where a value lies if its operator is divided so (the
// model's input: samples).
Place read_place(const GraphSpec& spec, const GraphAnalysis& analysis, int i, ops::Factor factor);
Place made_place(const GraphAnalysis& analysis, int value, ops::Factor factor);
// Whether an operator that nobody speaks of reads columns where they are there already.
bool follows(OperatorSpec::Kind kind);

// From annotations, each "NAME=FACTOR"; `*` in a name stands for any text, and an annotation of the
// whole name wins over such ones. Operators that none names follow, as in GSPMD [gspmd]:
// - an operator that works on each column by itself is divided along `out` if its inputs are
//   columns (follows);
// - a product whose input is columns is divided along `in`;
// - a product is divided along `out` if an annotation says so of its reader, or of another product
//   that the reader reads: of queries, so that keys and values follow;
// - all others take samples.
// Errors (field "splits"): not of this form, no such operator, two patterns that disagree, a factor
// along which the operator does not divide.
core::Result<Splits> complete_splits(const GraphSpec& spec, const GraphAnalysis& analysis,
                                     std::span<const std::string> annotations, std::int64_t ways);
// An annotation that names no operator. With it, a search for a strategy chooses how operators are
// divided that no other annotation names (planner/search/split_search.hpp). A strategy that has it
// is completed as above.
inline constexpr std::string_view kSearchedSplits = "*=auto";
// What is wrong with the form of one annotation; empty: nothing.
std::string annotation_problem(std::string_view annotation);
// For each operator its annotation's factor, or 0 where none names it.
// Errors: as complete_splits.
core::Result<std::vector<std::uint8_t>> annotated(const GraphSpec& spec,
                                                  const GraphAnalysis& analysis,
                                                  std::span<const std::string> annotations,
                                                  std::int64_t ways);

// Annotations that complete_splits turns into these: the given ones, and in topological order as
// few as it takes. REQUIRES: the given ones hold, and these splits follow them.
std::vector<std::string> split_texts(const GraphSpec& spec, const GraphAnalysis& analysis,
                                     const Splits& splits, std::int64_t ways,
                                     std::span<const std::string> given = {});

}  // namespace models
