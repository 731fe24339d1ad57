#include "models/splits.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "core/check.hpp"
#include "models/ops/schemas.hpp"

namespace models {
namespace {

using Kind = OperatorSpec::Kind;
using ops::Factor;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

OpKind op_kind(Kind kind) {
  switch (kind) {
    case Kind::convolution: return OpKind::convolution;
    case Kind::linear: return OpKind::linear;
    case Kind::relu: return OpKind::relu;
    case Kind::gelu: return OpKind::gelu;
    case Kind::max_pool: return OpKind::max_pool;
    case Kind::average_pool: return OpKind::average_pool;
    case Kind::local_response_norm: return OpKind::local_response_norm;
    case Kind::layer_norm: return OpKind::layer_norm;
    case Kind::dropout: return OpKind::dropout;
    case Kind::add: return OpKind::add;
    case Kind::concat: return OpKind::concat;
    case Kind::batch_norm: return OpKind::batch_norm;
    case Kind::embedding: return OpKind::slice;  // of the rows of several
    case Kind::rms_norm: return OpKind::rms_norm;
    case Kind::attention: return OpKind::attention;
    case Kind::swiglu: return OpKind::swiglu;
    case Kind::flatten: break;
  }
  PLANNER_CHECK(false, "a flatten is no operator of the graph");
}

bool is_product(Kind kind) { return kind == Kind::convolution || kind == Kind::linear; }

// Of a row, or channels of an image.
std::int64_t columns_of(const Shape& shape) {
  return shape.size() == 3 ? shape.front() : shape.back();
}

// `*` stands for any text.
bool matches(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (text.substr(0, star) != pattern.substr(0, star)) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t from = star; from <= text.size(); ++from)
    if (matches(rest, text.substr(from))) return true;
  return false;
}

struct Annotation { std::string_view pattern; Factor factor; };

std::optional<Annotation> read(std::string_view text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0) return std::nullopt;
  const std::string_view factor = text.substr(equals + 1);
  for (const Factor named : kSplitFactors)
    if (name(named) == factor) return Annotation{text.substr(0, equals), named};
  return std::nullopt;
}

std::string operators_text(const GraphSpec& spec, const GraphAnalysis& a) {
  std::string text;
  for (const int i : a.order) text += (text.empty() ? "" : ", ") + spec.operators[at(i)].name;
  return text;
}

std::string factors_text(std::uint8_t factors) {
  std::string text;
  for (const Factor f : kSplitFactors)
    if ((factors & f) != 0) text += (text.empty() ? "" : ", ") + std::string(name(f));
  return text;
}

}  // namespace

std::string_view name(Placement placement) {
  switch (placement) {
    case Placement::samples: return "samples";
    case Placement::columns: return "columns";
    case Placement::whole: break;
  }
  return "whole";
}

std::string_view name(Factor factor) {
  switch (factor) {
    case Factor::kSample: return "sample";
    case Factor::kRow: return "row";
    case Factor::kOut: return "out";
    case Factor::kIn: return "in";
    case Factor::kHead: return "head";
    case Factor::kExpert: return "expert";
    case Factor::kVocabulary: break;
  }
  return "vocabulary";
}

std::int64_t elements_of_value(const GraphAnalysis& a, int value) {
  return elements_of(value == kModelInput ? a.input_shape : a.shapes[at(value)]);
}

std::int64_t rows_of(const Shape& shape) { return shape.size() == 2 ? shape[0] : 1; }

// Attention's columns are whole heads. Where queries, keys and values are one value, neighbouring
// columns of it are not those of some heads.
static bool divides_columns(const GraphAnalysis& a, const OperatorSpec& op, int i,
                            std::int64_t ways) {
  if (op.kind == Kind::attention)
    return a.inputs[at(i)].size() == 3 && kv_heads_of(op) % ways == 0;
  return (ops::schema(op_kind(op.kind)).divides & Factor::kOut) != 0 &&
         columns_of(a.shapes[at(i)]) % ways == 0;
}

// Groups of a convolution see only each other: each of its ranks would have to have whole ones. A
// bias of channels cannot be added to samples of a sum as one of columns is.
std::uint8_t factors_of(const GraphSpec& spec, const GraphAnalysis& a, int i, std::int64_t ways) {
  const OperatorSpec& op = spec.operators[at(i)];
  const std::uint8_t divides = ops::schema(op_kind(op.kind)).divides;
  const bool whole = op.kind == Kind::convolution && op.groups > 1;
  std::uint8_t factors = Factor::kSample;
  if (!whole && divides_columns(a, op, i, ways)) factors |= Factor::kOut;
  const bool biased = op.kind == Kind::convolution && op.bias;
  if ((divides & Factor::kIn) != 0 && !whole && !biased &&
      columns_of(a.input_shapes[at(i)]) % ways == 0)
    factors |= Factor::kIn;
  return factors;
}

Place read_place(const GraphSpec& spec, const GraphAnalysis& a, int i, Factor factor) {
  if (factor == Factor::kSample) return {};
  if (factor == Factor::kOut && is_product(spec.operators[at(i)].kind))
    return {Placement::whole, 0};
  return {Placement::columns, rows_of(a.input_shapes[at(i)])};
}

Place made_place(const GraphAnalysis& a, int value, Factor factor) {
  if (value == kModelInput || factor != Factor::kOut) return {};
  return {Placement::columns, rows_of(a.shapes[at(value)])};
}

bool follows(Kind kind) {
  constexpr std::uint8_t kColumns = Factor::kOut | Factor::kHead;
  return !is_product(kind) && (ops::schema(op_kind(kind)).divides & kColumns) != 0;
}

std::string annotation_problem(std::string_view annotation) {
  if (annotation == kSearchedSplits || read(annotation)) return "";
  return fmt::format("NAME=FACTOR, the factor one of {}, or {}",
                     factors_text(Factor::kSample | Factor::kOut | Factor::kIn), kSearchedSplits);
}

core::Result<std::vector<std::uint8_t>> annotated(const GraphSpec& spec, const GraphAnalysis& a,
                                                  std::span<const std::string> annotations,
                                                  std::int64_t ways) {
  std::vector<std::uint8_t> factors(spec.operators.size(), 0);
  std::vector<std::string_view> by(spec.operators.size());
  const auto is_name = [](std::string_view pattern) {
    return pattern.find('*') == std::string_view::npos;
  };
  std::map<std::string_view, int> named;
  for (const int i : a.order) named[spec.operators[at(i)].name] = i;
  for (const std::string& text : annotations) {
    if (text == kSearchedSplits) continue;
    const auto annotation = read(text);
    if (!annotation)
      return core::Problem{"splits", annotation_problem(text), text, "write fc6=out, or fc*=out"};
    std::vector<int> meant;
    if (const auto one = named.find(annotation->pattern); one != named.end())
      meant = {one->second};
    else if (!is_name(annotation->pattern))
      std::ranges::copy_if(a.order, std::back_inserter(meant), [&](int i) {
        return matches(annotation->pattern, spec.operators[at(i)].name);
      });
    for (const int i : meant) {
      const OperatorSpec& op = spec.operators[at(i)];
      const std::uint8_t may = factors_of(spec, a, i, ways);
      if ((may & annotation->factor) == 0)
        return core::Problem{"splits",
                             fmt::format("for {} one of {}, with {} ranks", op.name,
                                         factors_text(may), ways),
                             text, "its sizes or its kind do not divide so"};
      std::string_view& before = by[at(i)];
      if (factors[at(i)] != 0 && is_name(before) && !is_name(annotation->pattern)) continue;
      const bool replaces = is_name(annotation->pattern) && !is_name(before);
      if (factors[at(i)] != 0 && factors[at(i)] != annotation->factor && !replaces)
        return core::Problem{"splits", fmt::format("one factor for {}", op.name),
                             fmt::format("{} of {}, {} of {}", name(Factor{factors[at(i)]}), before,
                                         name(annotation->factor), annotation->pattern),
                             "name the operator itself to say which"};
      factors[at(i)] = annotation->factor;
      before = annotation->pattern;
    }
    if (meant.empty())
      return core::Problem{"splits", "operators of the model: " + operators_text(spec, a), text,
                           ""};
  }
  return factors;
}

namespace {

// Chooses factors for the operators that no annotation names, in topological order. A choice
// depends on the factors of the operators before it and on what its readers read beside it.
class Completion {
 public:
  Completion(const GraphSpec& spec, const GraphAnalysis& a, std::int64_t ways)
      : spec_(spec), a_(a), may_(spec.operators.size()), readers_(spec.operators.size()) {
    for (const int i : a.order) {
      may_[at(i)] = factors_of(spec, a, i, ways);
      for (const int from : a.inputs[at(i)])
        if (from != kModelInput) readers_[at(from)].push_back(i);
    }
  }

  // given: factors, or 0 where nobody says one.
  Splits of(const std::vector<std::uint8_t>& given) const {
    Splits splits(given.size(), Factor::kSample);
    for (const int i : a_.order)
      splits[at(i)] = given[at(i)] != 0 ? Factor{given[at(i)]} : by_itself(splits, given, i);
    return splits;
  }

 private:
  bool is_product(int i) const { return models::is_product(spec_.operators[at(i)].kind); }
  bool may(int i, Factor factor) const { return (may_[at(i)] & factor) != 0; }

  Factor by_itself(const Splits& splits, const std::vector<std::uint8_t>& given, int i) const {
    if (!is_product(i))
      return follows(spec_.operators[at(i)].kind) && may(i, Factor::kOut) &&
                     reads_columns(splits, i, Factor::kOut)
                 ? Factor::kOut
                 : Factor::kSample;
    if (may(i, Factor::kIn) && reads_columns(splits, i, Factor::kIn)) return Factor::kIn;
    return may(i, Factor::kOut) && is_wanted(given, i) ? Factor::kOut : Factor::kSample;
  }

  // Whether its inputs are the columns that it reads if it is divided so.
  bool reads_columns(const Splits& splits, int i, Factor factor) const {
    const Place read = read_place(spec_, a_, i, factor);
    return std::ranges::all_of(a_.inputs[at(i)], [&](int value) {
      return value != kModelInput && made_place(a_, value, splits[at(value)]) == read;
    });
  }

  // Whether some reader of product i will work on columns, so that i should make them. An
  // annotation may ask that of the reader. Or an annotation asks another product that the reader
  // reads to make columns, and everything else that it reads is a product that may make them, too.
  bool is_wanted(const std::vector<std::uint8_t>& given, int i) const {
    const auto takes = [&](int reader) {
      if (!follows(spec_.operators[at(reader)].kind) || !may(reader, Factor::kOut) ||
          made_place(a_, i, Factor::kOut) != read_place(spec_, a_, reader, Factor::kOut))
        return false;
      if (given[at(reader)] != 0) return given[at(reader)] == Factor::kOut;
      const auto asked = [&](int value) {
        return value != kModelInput && given[at(value)] == Factor::kOut;
      };
      const auto could = [&](int value) {
        return value != kModelInput && is_product(value) &&
               (given[at(value)] == 0 ? may(value, Factor::kOut) : asked(value));
      };
      const std::vector<int>& values = a_.inputs[at(reader)];
      return std::ranges::any_of(values, asked) && std::ranges::all_of(values, could);
    };
    return std::ranges::any_of(readers_[at(i)], takes);
  }

  const GraphSpec& spec_;
  const GraphAnalysis& a_;
  std::vector<std::uint8_t> may_;
  std::vector<std::vector<int>> readers_;
};

}  // namespace

core::Result<Splits> complete_splits(const GraphSpec& spec, const GraphAnalysis& a,
                                     std::span<const std::string> annotations,
                                     std::int64_t ways) {
  if (annotations.empty()) return Splits(spec.operators.size(), Factor::kSample);
  const auto given = annotated(spec, a, annotations, ways);
  if (!given.ok()) return given.problems();
  return Completion(spec, a, ways).of(*given);
}

std::vector<std::string> split_texts(const GraphSpec& spec, const GraphAnalysis& a,
                                     const Splits& splits, std::int64_t ways,
                                     std::span<const std::string> given) {
  const auto before = annotated(spec, a, given, ways);
  PLANNER_CHECK(before.ok(), "annotations that are given hold");
  const Completion completion(spec, a, ways);
  std::vector<std::uint8_t> named = *before;
  while (true) {
    const Splits done = completion.of(named);
    const auto other = std::ranges::find_if(
        a.order, [&](int i) { return done[at(i)] != splits[at(i)]; });
    if (other == a.order.end()) break;
    PLANNER_CHECK(named[at(*other)] == 0, "splits that follow the given annotations");
    named[at(*other)] = splits[at(*other)];
  }
  std::vector<std::string> texts(given.begin(), given.end());
  for (const int i : a.order) {
    if (named[at(i)] == (*before)[at(i)]) continue;
    texts.push_back(spec.operators[at(i)].name + "=" + std::string(name(splits[at(i)])));
  }
  return texts;
}

}  // namespace models
