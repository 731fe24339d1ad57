// Operator schemas against what they describe: graphs of the zoo, and the actions that are lowered
// from them.
#include "models/ops/schemas.hpp"

#include <map>
#include <set>

#include "sim/program/access.hpp"
#include "sim/program/arguments.hpp"
#include "tests/unit/planner/zoo_programs.hpp"

using models::OpKind;
using models::ops::Argument;
using models::ops::Kernel;
using models::ops::Schema;
using models::ops::Signature;
using models::ops::Source;
using program::Term;

namespace {

constexpr int kPerModel = 6;

// visit(Program, class, action, operator, signature, where its arguments lie)
template <class Visit>
void for_kernels(Visit&& visit) {
  planner_test::for_zoo_programs(
      kPerModel, [&](const std::string& model, const planner::Job&, const planner::Strategy& s,
                     const program::Program& p) {
        INFO(model << " " << to_text(s));
        for (const program::RankClass& k : p.classes)
          for (const program::Action& a : k.actions) {
            if (!program::has_operator(a.kind)) continue;
            const models::Operator& op = k.operators[a.op];
            const Signature& signature =
                models::ops::signature(program::schema_of(op), program::kernel_of(a.kind));
            const auto runs = program::find_arguments(signature, op, a.arg_count);
            INFO(op.name << " " << program::name(a.kind));
            REQUIRE(runs.has_value());
            visit(p, k, a, op, signature, *runs);
          }
      });
}

bool holds(const Argument& a, const program::Buffer& buffer) {
  switch (a.source) {
    case Source::parameter:  // as stored, or gathered or decoded
      return buffer.term == Term::weights || buffer.term == Term::communication;
    case Source::gradient_of_parameter:
      return buffer.term == Term::gradients || buffer.term == Term::communication;
    case Source::beside: return true;
    default:
      return buffer.term == Term::activations || buffer.term == Term::logits ||
             buffer.term == Term::communication;
  }
}

bool is_statistic(std::string_view name) {
  return std::set<std::string_view>{"mean", "rstd", "lse", "max", "sums", "sum"}.contains(name);
}
bool is_integer(std::string_view name) {
  return std::set<std::string_view>{"tokens", "types", "places", "targets", "mask"}.contains(name);
}

}  // namespace

TEST_CASE("every kind of operator has a schema, and a kernel or a transfer") {
  using models::ops::Gradient;
  std::set<std::pair<OpKind, std::string_view>> seen;
  for (const Schema* schema : models::ops::kSchemas) {
    CAPTURE(static_cast<int>(schema->kind));
    CHECK(models::ops::schema(schema->kind).kind == schema->kind);
    CHECK(seen.emplace(schema->kind, schema->beside).second);
    const bool kernel = schema->work.by != models::ops::WorkOf::nothing;
    CHECK(kernel == (schema->divides != 0));
    if (!kernel) CHECK(schema->input_gradient.empty());
    if (schema->gradient == Gradient::product) CHECK(!schema->weight_gradient.empty());
    if (schema->gradient == Gradient::joint) CHECK(!schema->input_gradient.empty());
  }
}

TEST_CASE("a list of arguments says who comes from where, and who is written, by hand") {
  using models::ops::kSignature;
  constexpr Signature s = kSignature<models::ops::layer_norm, Kernel::input_gradient>;
  STATIC_REQUIRE(s.count == 8);
  STATIC_REQUIRE(s.find("gamma") == 4);
  STATIC_REQUIRE(s.arguments[0].source == Source::gradient_of_output);
  STATIC_REQUIRE(s.arguments[2].source == Source::kept);
  STATIC_REQUIRE(s.arguments[5].source == Source::gradient_of_input);
  STATIC_REQUIRE(!s.arguments[4].written);
  STATIC_REQUIRE(s.arguments[5].written);
  STATIC_REQUIRE(s.arguments[7].optional);
  STATIC_REQUIRE(!s.fixed());
  STATIC_REQUIRE(kSignature<models::ops::linear, Kernel::input_gradient>.fixed());
  constexpr Signature ring = kSignature<models::ops::ring_block, Kernel::input_gradient>;
  STATIC_REQUIRE(!ring.arguments[ring.find("keys")].written);
  STATIC_REQUIRE(ring.arguments[ring.find("d_keys")].written);

  models::Operator op;                 // x, gamma, beta -> y, mean, rstd
  op.kind = OpKind::layer_norm;
  op.inputs = {0};
  op.outputs = {1, 2, 3};
  op.parameters = {0, 1};
  op.saved = {0, 2, 3};
  CHECK(program::find_arguments(s, op, 6).has_value());    // gamma is frozen
  op.flops_weight_gradient = core::Flops(1);               // it is trained
  CHECK(!program::find_arguments(s, op, 6).has_value());
  CHECK(!program::find_arguments(s, op, 7).has_value());   // one gradient of two
  CHECK((*program::find_arguments(s, op, 8))[7].first == 7);
  op.parameters = {0};
  CHECK((*program::find_arguments(s, op, 7))[7].count == 0);
}

TEST_CASE("each action of the zoo has the arguments that its schema names, in buffers that fit") {
  std::set<std::pair<OpKind, program::ActionKind>> seen;
  for_kernels([&](const program::Program& p, const program::RankClass& k,
                  const program::Action& action, const models::Operator& op,
                  const Signature& signature, const program::ArgumentRuns& runs) {
    seen.emplace(op.kind, action.kind);
    std::size_t count = 0;
    for (std::size_t i = 0; i < signature.count; ++i) {
      const Argument& a = signature.arguments[i];
      REQUIRE(runs[i].first == count);
      for (std::size_t at = count; at < count + runs[i].count; ++at) {
        const program::Buffer& buffer = k.buffers[k.views[action.first_arg + at].buffer];
        INFO(a.name << " in " << buffer.name);
        REQUIRE(holds(a, buffer));
        if (is_statistic(a.name)) REQUIRE(buffer.type == p.statistic_type);
        const bool integer = buffer.type == core::DType::i32 || buffer.type == core::DType::u8;
        if (is_integer(a.name)) REQUIRE(integer);
      }
      count += runs[i].count;
    }
    REQUIRE(count == action.arg_count);
    REQUIRE(program::written_args(k, action) != 0);
  });
  CHECK(seen.size() == 81);  // kinds of kernels
}

TEST_CASE("a written argument has the storage of another one only where the schema lets it") {
  std::set<std::pair<OpKind, std::string>> shared;
  for_kernels([&](const program::Program&, const program::RankClass& k,
                  const program::Action& action, const models::Operator& op,
                  const Signature& signature, const program::ArgumentRuns& runs) {
    const auto view = [&](std::size_t i) { return k.views[action.first_arg + runs[i].first]; };
    for (std::size_t i = 0; i < signature.count; ++i)
      for (std::size_t j = 0; j < signature.count; ++j) {
        const Argument &a = signature.arguments[i], &b = signature.arguments[j];
        if (i == j || !a.written || b.written || runs[i].count == 0 || runs[j].count == 0) continue;
        const program::View x = view(i), y = view(j);
        const bool same = x.buffer == y.buffer && x.instance == y.instance &&
                          x.index == y.index && x.layer_shift == y.layer_shift &&
                          x.offset == y.offset;
        if (!same || x.range != program::Range::whole) continue;
        INFO(a.name << " in place of " << b.name);
        REQUIRE(may_share(program::schema_of(op), a.name, b.name));
        shared.emplace(op.kind, std::string(a.name));
      }
  });
  CHECK(shared.contains({OpKind::add, "y"}));
  CHECK(shared.contains({OpKind::gelu, "d_x"}));
}
