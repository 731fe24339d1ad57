#pragma once
// Small models and look-ups for the tests of models/.

#include <string_view>

#include "models/graph.hpp"

namespace models_test {

models::ModelSpec gpt2_124m();
// 2 layers, hidden 24, 6 heads, vocabulary 521 (a prime), MLP 96: divisible by 1, 2, 3, 6.
models::ModelSpec tiny_gpt2();
// The same as a Llama of five layers: dense, then dense (48 wide) and mixture (4 experts of 16, 2 a
// token) twice in turn.
models::ModelSpec tiny_mixed();
models::ModelSpec mlp(std::vector<std::int64_t> widths, models::Activation activation,
                      models::Loss loss);

// REQUIRES: present. A missing one fails the test by PLANNER_CHECK.
const models::Operator& find_operator(const models::Segment& segment, std::string_view name);
bool has_operator(const models::Segment& segment, std::string_view name);
const models::Parameter& find_parameter(const models::Segment& segment, std::string_view name);
models::TensorIndex find_tensor(const models::Segment& segment, std::string_view name);

// Elements of the distinct storages kept for the backward pass, by role, per sample; the segment's
// input counts, being kept by reference.
std::int64_t saved_elements(const models::Segment& segment, models::TensorRole role);

}  // namespace models_test
