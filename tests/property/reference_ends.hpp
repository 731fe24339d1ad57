#pragma once
// What lies before and behind the reference transformer's blocks: embeddings, or features that are
// encoded; a head over the vocabulary, or a decoder to one embedding of a sample; and the norms of
// all of them. Not thread-safe.

#include "exec/host/graphs.hpp"
#include "tests/property/reference_parts.hpp"
#include "tests/property/reference_slices.hpp"

namespace tests {

class TransformerEnds : protected Model {
 protected:
  explicit TransformerEnds(MicroBatch& batch)
      : Model(batch, batch.samples * batch.seq_len), spec_(*batch.spec), v_(spec_.variants),
        h_(spec_.hidden) {}

  struct Norm { Typed x, y, mean, rstd; };

  Typed embed() {
    if (v_.token_features > 0) return encode();
    Typed x = activation(h_);
    host::token_embedding(x.at(), weight("wte.weight"), b_.inputs.at(), rows_, h_,
                          {0, spec_.vocab});
    for (std::int64_t r = 0; r < rows_ && learned(); ++r)
      host::position_embedding(x.at(r * h_), x.at(r * h_),
                               weight("wpe.weight").at(position(r) * h_), 1, h_, 1);
    if (v_.token_types > 0)
      host::type_embedding(x.at(), x.at(), weight("wtt.weight"), types().at(), rows_, h_);
    if (!v_.embedding_norm) return x;
    embedded_ = norm("ln_e", x);
    return embedded_.y;
  }
  void embed_backward(Typed& d) {
    if (v_.token_features > 0) return encode_backward(d);
    if (v_.embedding_norm) {
      Typed dx = activation(h_);
      norm_backward("ln_e", embedded_, d, dx, false);
      d = std::move(dx);
    }
    if (const View dwtt = gradient("wtt.weight"))
      host::type_embedding_weight_gradient(dwtt, d.at(), types().at(), rows_, h_);
    if (const View dwpe = gradient("wpe.weight"))
      for (std::int64_t r = 0; r < rows_; ++r)
        host::position_embedding_weight_gradient(dwpe.at(position(r) * h_), d.at(r * h_), 1, h_, 1);
    if (const View dwte = gradient("wte.weight"))
      host::token_embedding_weight_gradient(dwte, d.at(), b_.inputs.at(), rows_, h_,
                                            {0, spec_.vocab});
  }
  // Every sequence falls into as many pieces as there are types.
  Typed& types() {
    if (types_.size() > 0) return types_;
    types_ = {core::DType::i32, rows_};
    auto* const type = static_cast<std::int32_t*>(types_.at().data);
    for (std::int64_t r = 0; r < rows_; ++r)
      type[r] = static_cast<std::int32_t>(position(r) * v_.token_types / seq_len());
    return types_;
  }

  // Tokens that arrive as features [uce]: linear, GELU, norm.
  Typed encode() {
    encoded_ = linear("encoder", b_.inputs, h_);
    Typed x = activation(h_);
    host::gelu(x.at(), encoded_.at(), x.size(), models::Activation::gelu_erf);
    embedded_ = norm("encoder.norm", x);
    return embedded_.y;
  }
  void encode_backward(Typed& d) {
    Typed dx = activation(h_), unread(b_.activation, b_.inputs.size());
    norm_backward("encoder.norm", embedded_, d, dx, false);
    host::gelu_gradient(dx.at(), dx.at(), encoded_.at(), dx.size(), models::Activation::gelu_erf);
    linear_backward("encoder", dx, b_.inputs, unread, false);
  }

  // [uce]: three blocks of linear, norm and GELU, a last linear, and the first token's square
  // error.
  Typed decode(Typed& x, double* loss) {
    constexpr int kBlocks = 3;
    std::vector<Typed> inputs{x};
    std::vector<Norm> norms;
    for (int i = 0; i < kBlocks; ++i) {
      const std::string name = "decoder." + std::to_string(i);
      norms.push_back(norm(name + ".norm",
                           linear(name, inputs.back(), i == 0 ? v_.decoder_hidden : h_)));
      inputs.push_back(norms.back().y);
      host::gelu(inputs.back().at(), norms.back().y.at(), inputs.back().size(),
                 models::Activation::gelu_erf);
    }
    Typed y = linear("decoder.3", inputs.back(), h_), cell(b_.activation, b_.samples * h_);
    host::first_token(cell.at(), y.at(), b_.samples, b_.seq_len, h_);
    host::squared_error(loss, cell.at(), b_.targets.at(), cell.size(),
                        b_.mean_of(b_.global_batch));
    Typed d = activation(h_);
    host::first_token_gradient(d.at(), cell.at(), b_.samples, b_.seq_len, h_, false);
    for (int i = kBlocks; i >= 0; --i) {
      const std::string name = "decoder." + std::to_string(i);
      if (i < kBlocks) {
        Norm& n = norms[static_cast<std::size_t>(i)];
        Typed dx(b_.activation, n.y.size());
        host::gelu_gradient(d.at(), d.at(), n.y.at(), d.size(), models::Activation::gelu_erf);
        norm_backward(name + ".norm", n, d, dx, false);
        d = std::move(dx);
      }
      Typed& in = inputs[static_cast<std::size_t>(i)];
      Typed dx(b_.activation, in.size());
      linear_backward(name, d, in, dx, false);
      d = std::move(dx);
    }
    return d;
  }

  Norm norm(const std::string& path, const Typed& x) {
    const std::int64_t width = x.size() / rows_;
    Norm n{x, activation(width), statistic(1), statistic(1)};
    if (rms())
      host::rms_norm(n.y.at(), n.rstd.at(), n.x.at(), weight(path + ".weight"), rows_, width,
                     spec_.layer_norm_epsilon);
    else
      host::layer_norm(n.y.at(), n.mean.at(), n.rstd.at(), n.x.at(), weight(path + ".weight"),
                       optional(b_.weights, path + ".bias"), rows_, width,
                       spec_.layer_norm_epsilon);
    return n;
  }
  void norm_backward(const std::string& path, Norm& n, Typed& dy, Typed& dx, bool accumulate) {
    const std::int64_t width = n.x.size() / rows_;
    if (rms()) {
      if (const View dgamma = gradient(path + ".weight"))
        host::rms_norm_weight_gradient(dgamma, dy.at(), n.x.at(), n.rstd.at(), rows_, width);
      return host::rms_norm_input_gradient(dx.at(), dy.at(), n.x.at(), weight(path + ".weight"),
                                           n.rstd.at(), rows_, width, accumulate);
    }
    if (const View dgamma = gradient(path + ".weight"))
      host::layer_norm_weight_gradient(dgamma, gradient(path + ".bias"), dy.at(), n.x.at(),
                                       n.mean.at(), n.rstd.at(), rows_, width);
    host::layer_norm_input_gradient(dx.at(), dy.at(), n.x.at(), weight(path + ".weight"),
                                    n.mean.at(), n.rstd.at(), rows_, width, accumulate);
  }

  // Loss and the gradient of the head's input.
  Typed head(Typed& x, double* loss) {
    if (v_.decoder_hidden > 0) return decode(x, loss);
    Norm ln_f = post() ? Norm{{}, x, {}, {}} : norm("ln_f", x);
    Typed d_normed = activation(h_), d = activation(h_);
    const std::int64_t rows = rows_ / b_.loss_chunks;
    for (std::int64_t first = 0; first < rows_; first += rows)
      head_of(first, rows, ln_f.y, d_normed, loss);
    if (post()) return d_normed;
    norm_backward("ln_f", ln_f, d_normed, d, false);
    return d;
  }

  // Rows [first, first + rows) alone: logits, loss, and what they add to the head's gradient.
  void head_of(std::int64_t first, std::int64_t rows, Typed& x, Typed& dx, double* loss) {
    const std::int64_t n = spec_.vocab;
    const LinearShape s{rows, n, h_, n, h_};
    const host::LogitShape l{rows, n, n, 0, n};
    const auto ws = workspace(host::linear_workspace(b_.activation, s));
    Typed logits(b_.activation, rows * n), max(b_.statistic, rows), sums(b_.statistic, 2 * rows);
    const View in = x.at(first * h_), w = weight("lm_head.weight"), targets = b_.targets.at(first);
    host::linear(logits.at(), in, w, {}, s, false, ws);
    host::softmax_max(max.at(), logits.at(), l);
    host::softmax_sum(sums.at(), logits.at(), max.at(), targets, l);
    host::cross_entropy(loss, logits.at(), max.at(), sums.at(), targets, l,
                        b_.mean_of(b_.global_batch * seq_len()));
    if (const View dw = gradient("lm_head.weight"))
      host::linear_weight_gradient(dw, logits.at(), in, s, ws);
    host::linear_input_gradient(dx.at(first * h_), logits.at(), w, s, false, ws);
  }

  // Where row r of this rank stands in its sample, of how many tokens.
  std::int64_t position(std::int64_t r) const {
    const std::int64_t row = r % b_.seq_len;
    return b_.slices ? b_.slices->positions(b_.slice)[static_cast<std::size_t>(row)] : row;
  }
  std::int64_t seq_len() const { return b_.slices ? b_.slices->seq_len() : b_.seq_len; }

  bool rms() const { return v_.norm == models::Norm::rms_norm; }
  bool learned() const { return v_.position_kind == models::Positions::learned; }
  // Norms follow the sums [bert]: ln_1 the first, whose result the branch reads.
  bool post() const { return v_.residual == models::Residual::post; }

  const models::ModelSpec& spec_;
  const models::Variants& v_;
  const std::int64_t h_;

 private:
  Norm embedded_;                      // of the embeddings, where there is one
  Typed encoded_, types_;
};

}  // namespace tests
