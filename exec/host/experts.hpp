#pragma once
// Kernels of mixtures of experts: the router's choice, the rows' way to their experts and back, and
// the experts' products. Conventions of kernels.hpp.
//
// Routing is balanced within each window of a sample (models::routing_window), so that every buffer
// has one size: every expert takes as many of a window's copies, tokens x chosen; of a last window
// of fewer tokens, as of a sample, expert j takes those from first(j) to first(j + 1). Tokens take
// their experts in order, each the best by logit (ties: the lower index) among those with room; an
// expert whose room is as large as the number of the window's tokens left takes all of them, so
// none is dropped and none is left over. A token's experts depend on it and on the tokens before it
// in its window alone. The gates train by the softmax of the chosen logits [mixtral], or as
// models::Router says; the choice itself has no gradient.

#include "core/units.hpp"
#include "exec/host/view.hpp"
#include "models/graph.hpp"

namespace exec::host {

struct RoutingShape {
  std::int64_t samples = 0, tokens = 0, experts = 0, chosen = 0;  // tokens of a sample
  models::Router router{};
  std::int64_t rows() const { return samples * tokens; }
  std::int64_t first(std::int64_t expert) const { return first_of(tokens, expert); }
  // Of so many tokens.
  std::int64_t first_of(std::int64_t n, std::int64_t expert) const {
    return n * chosen * expert / experts;
  }
};
// Of logits[rows, experts]: gates[rows, chosen], the best first, and i32 places[rows, chosen], the
// copies' rows among all: expert by expert, within one sample by sample, within one by token.
void top_k(View gates, View places, View logits, const RoutingShape& s, Workspace ws);
core::Bytes top_k_workspace(const RoutingShape& s);
// dlogits = gate (dgate - sum of gate dgate) of the chosen ones, 0 of the others. A router that
// does not take a softmax of the chosen logits alone reads the logits for it.
void top_k_gradient(View dlogits, View dgates, View gates, View places, View logits,
                    const RoutingShape& s);

struct CopyShape {
  std::int64_t rows = 0, n = 0, chosen = 0;
  bool weighs = true;                  // else gates count as 1, and take no gradient
};
// y[places[r, i]] = x[r].
void dispatch(View y, View x, View places, const CopyShape& s);
// dx[r] (=|+=) sum over i of dy[places[r, i]], i ascending.
void dispatch_gradient(View dx, View dy, View places, const CopyShape& s, bool accumulate);
// y[r] = sum over i of gates[r, i] x[places[r, i]], i ascending.
void combine(View y, View x, View gates, View places, const CopyShape& s);
// dx[places[r, i]] = gates[r, i] dy[r]; dgates[r, i] = x[places[r, i]] . dy[r].
void combine_gradient(View dx, View dgates, View dy, View x, View gates, View places,
                      const CopyShape& s);

// rows of all experts and samples together: `origins` blocks of as many, each by expert.
struct ExpertShape {
  std::int64_t samples = 0, rows = 0, n = 0, k = 0;  // rows of a sample, n outputs, k inputs
  std::int64_t experts = 1, origins = 1;
  // The bias is added to `biased` columns of y from first_biased on.
  std::int64_t first_biased = 0, biased = 0, bias_ld = 0;
};
// As linear, with w[experts, n, k] of each row's expert, a product for each origin and expert: a
// row's bits do not depend on which ranks others come from, and dw adds up origins in order.
// b[experts, bias_ld], and its gradient, may be absent.
void expert_linear(View y, View x, View w, View b, const ExpertShape& s, Workspace ws);
void expert_linear_input_gradient(View dx, View dy, View w, const ExpertShape& s, bool accumulate,
                                  Workspace ws);
void expert_linear_weight_gradient(View dw, View dy, View x, const ExpertShape& s, Workspace ws);
void expert_bias_gradient(View db, View dy, const ExpertShape& s);
core::Bytes expert_linear_workspace(core::DType activation, const ExpertShape& s);

}  // namespace exec::host
