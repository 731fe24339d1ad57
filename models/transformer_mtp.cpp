// Multi-token prediction [deepseekv3] section 2.2: module k = 1 .. D, behind the model's last
// layer, predicts the token k + 1 places on.
//
//   x_k = layer_k(W_k [norm(embedding of token t + k), norm(x_(k-1))])    x_0: the last layer's
//   loss_k = cross entropy of head(norm(x_k)) and token t + k + 1
//
// The table of embeddings and the head's matrix are the model's. The loss of a step is the model's
// own plus kMtpLossWeight / D of each module's. This weight changes no byte and no microsecond.
//
// The modules are part of the epilogue, so they lie on the last pipeline stage, as Megatron places
// them, and keep what their layers make. Their projection is whole on each tensor rank, which has
// some of the rows under sequence parallelism (Megatron divides its columns).
#include <fmt/format.h>

#include "models/transformer_builder.hpp"

namespace models {

// A head that is not tied to the table of embeddings has a matrix of its own. The last stage then
// holds both: that matrix, and a copy of the table.
ParameterIndex TransformerBuilder::token_table(SegmentBuilder& b, Head& head) const {
  if (spec_.tied_embeddings) return head_weight(b, head);
  Parameter table = make_parameter(kTokenTable, {spec_.vocab, h_}, columns(), Init::normal,
                                   kInitStddev);
  table.trainable = !frozen_;
  table.tied_to = kTokenTable;
  return b.parameter(std::move(table));
}

void TransformerBuilder::predict_further(SegmentBuilder& b, TensorIndex x, Head& head) const {
  const LayerView last = last_kind(spec_);
  const TransformerBuilder of_kind(spec_, last, options_);
  b.prefix = "mtp.";
  const ParameterIndex table = token_table(b, head);
  for (std::int64_t k = 1; k <= options_.mtp; ++k) {
    b.prefix = fmt::format("mtp.{}.", k - 1);
    const TensorIndex token = embedded(b, b.tokens("tokens", s_, k), table);
    const TensorIndex both =
        concat(b, "joined", {norm(b, "enorm", token), norm(b, "hnorm", x)}, r_);
    const ParameterIndex weight = matrix(b, "eh_proj.weight", h_, 2 * h_);
    x = linear(b, "eh_proj", both, {r_, h_, 2 * h_}, weight);
    x = of_kind.branches(b, x);
    const TensorIndex y = logits(b, norm(b, "final_layernorm", x), head);
    cross_entropy_loss(b, y, b.tokens("targets", s_, k + 1), s_, head.columns, t_,
                       kMtpLossWeight / static_cast<double>(options_.mtp));
  }
  b.prefix.clear();
}

}  // namespace models
