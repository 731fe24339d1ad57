#pragma once
// A rank whose actions tests cost one by one.

#include "sim/cost/action.hpp"
#include "tests/unit/cost/machine_for_tests.hpp"

namespace cost_test {

using core::DType;
using program::Action;
using program::ActionKind;

// One rank of four, with one linear layer of 512 -> 1024 on 2 samples of 64 rows.
struct Fixture {
  program::Program program;
  program::RankClass& rank;
  cost::Machine machine = round_machine();

  Fixture() : rank(program.classes.emplace_back()) {
    program.samples = 2;
    program.mesh.data = 4;
    models::Operator linear;
    linear.kind = models::OpKind::linear;
    linear.rows = 64;
    linear.n = 1024;
    linear.k = 512;
    models::Operator norm;
    norm.kind = models::OpKind::layer_norm;
    norm.elements_forward = 2 * 64 * 512;
    norm.parameter_elements = 1024;
    rank.operators = {linear, norm};
    add_buffer(program::Term::activations, DType::bf16, 2 * 64 * 512);
    add_buffer(program::Term::weights, DType::f32, 1000);
    add_buffer(program::Term::gradients, DType::bf16, 1000);
    add_buffer(program::Term::optimizer, DType::f32, 1000);
    program::Transfer all_reduce{.collective = program::Collective::all_reduce,
                                 .algorithm = program::Algorithm::ring,
                                 .what = program::Traffic::gradients,
                                 .group = program::Group::data,
                                 .wire_type = DType::bf16};
    rank.transfers = {all_reduce};
  }

  void add_buffer(program::Term term, DType type, std::int64_t elements) {
    program::View whole;
    whole.buffer = static_cast<std::uint16_t>(rank.buffers.size());
    program::Buffer buffer;
    buffer.term = term;
    buffer.type = type;
    buffer.elements = {elements};
    rank.buffers.push_back(buffer);
    rank.views.push_back(whole);
  }

  Action action(ActionKind kind, std::uint16_t op, std::uint32_t first_arg, std::uint8_t args) {
    Action a;
    a.kind = kind;
    a.op = op;
    a.first_arg = first_arg;
    a.arg_count = args;
    return a;
  }
  double seconds(const Action& a, std::int64_t samples = 0, const program::Call& call = {}) {
    const cost::ActionCost cost(program, rank, machine, samples);
    return core::to_seconds(cost(a, call)).value();
  }
};

}  // namespace cost_test
