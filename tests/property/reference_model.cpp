#include "tests/property/reference_model.hpp"

namespace tests {
namespace {

using exec::host::LinearShape;
using exec::host::View;
namespace host = exec::host;

// What both families are made of.
class Model {
 protected:
  Model(MicroBatch& batch, std::int64_t rows) : b_(batch), rows_(rows) {}

  Typed activation(std::int64_t columns) const { return {b_.activation, rows_ * columns}; }
  Typed statistic(std::int64_t columns) const { return {b_.statistic, rows_ * columns}; }
  View weight(const std::string& path) const { return b_.weights.at(path); }
  View optional(const Views& views, const std::string& path) const {
    const auto at = views.find(path);
    return at == views.end() ? View{} : at->second;
  }
  View gradient(const std::string& path) const { return optional(b_.gradients, path); }
  host::Workspace workspace(core::Bytes size) {
    if (scratch_.size() < static_cast<std::size_t>(size.value()))
      scratch_.resize(static_cast<std::size_t>(size.value()));
    return {scratch_.data(), size};
  }

  // y[rows,n] = x W^T (+ bias, where the model has one).
  Typed linear(const std::string& path, Typed& x, std::int64_t n, const char* matrix = ".weight") {
    const LinearShape s{rows_, n, x.size() / rows_, n, x.size() / rows_};
    Typed y = activation(n);
    host::linear(y.at(), x.at(), weight(path + matrix), bias_of(path, matrix, b_.weights), s, false,
                 workspace(host::linear_workspace(b_.activation, s)));
    return y;
  }
  // dW += dy^T x, db += dy, dx (=|+=) dy W.
  void linear_backward(const std::string& path, Typed& dy, Typed& x, Typed& dx, bool accumulate,
                       const char* matrix = ".weight") {
    const LinearShape s{rows_, dy.size() / rows_, x.size() / rows_, dy.size() / rows_,
                        x.size() / rows_};
    const auto ws = workspace(host::linear_workspace(b_.activation, s));
    if (const View dw = gradient(path + matrix))
      host::linear_weight_gradient(dw, dy.at(), x.at(), s, ws);
    if (const View db = bias_of(path, matrix, b_.gradients))
      host::bias_gradient(db, dy.at(), rows_, s.n, s.n);
    host::linear_input_gradient(dx.at(), dy.at(), weight(path + matrix), s, accumulate, ws);
  }

  // Cross-entropy over `columns` classes; the logits become their gradient.
  void cross_entropy(Typed& logits, std::int64_t columns, double scale, double* loss) {
    const host::LogitShape s{rows_, columns, columns, 0, columns};
    Typed max = statistic(1), sums = statistic(2);
    host::softmax_max(max.at(), logits.at(), s);
    host::softmax_sum(sums.at(), logits.at(), max.at(), b_.targets.at(), s);
    host::cross_entropy(loss, logits.at(), max.at(), sums.at(), b_.targets.at(), s, scale);
  }

  MicroBatch& b_;
  const std::int64_t rows_;

 private:
  View bias_of(const std::string& path, const std::string& matrix, const Views& views) const {
    return matrix == ".weight" ? optional(views, path + ".bias") : View{};
  }
  std::vector<std::byte> scratch_;
};

class Gpt : Model {
 public:
  explicit Gpt(MicroBatch& batch)
      : Model(batch, batch.samples * batch.seq_len), spec_(*batch.spec), h_(spec_.hidden) {}

  void train(double* loss) {
    Typed x = embed();
    for (std::int64_t l = 0; l < spec_.layers; ++l) x = layer("h." + std::to_string(l) + ".", x);
    Typed d = head(x, loss);
    for (std::int64_t l = spec_.layers - 1; l >= 0; --l)
      layer_backward("h." + std::to_string(l) + ".", kept_[static_cast<std::size_t>(l)], d);
    if (const View dwpe = gradient("wpe.weight"))
      host::position_embedding_weight_gradient(dwpe, d.at(), rows_, h_, b_.seq_len);
    if (const View dwte = gradient("wte.weight"))
      host::token_embedding_weight_gradient(dwte, d.at(), b_.inputs.at(), rows_, h_,
                                            {0, spec_.vocab});
  }

 private:
  struct Norm { Typed x, y, mean, rstd; };
  struct Adapter { Typed u; std::vector<std::int64_t> offsets; };
  struct Layer {
    Norm ln_1, ln_2;
    Typed qkv, attended, lse, up, activated;
    Adapter qkv_adapter, proj_adapter;
  };

  Typed embed() {
    Typed x = activation(h_);
    host::token_embedding(x.at(), weight("wte.weight"), b_.inputs.at(), rows_, h_,
                          {0, spec_.vocab});
    host::position_embedding(x.at(), x.at(), weight("wpe.weight"), rows_, h_, b_.seq_len);
    return x;
  }

  Norm norm(const std::string& path, const Typed& x) {
    Norm n{x, activation(h_), statistic(1), statistic(1)};
    host::layer_norm(n.y.at(), n.mean.at(), n.rstd.at(), n.x.at(), weight(path + ".weight"),
                     weight(path + ".bias"), rows_, h_, spec_.layer_norm_epsilon);
    return n;
  }
  void norm_backward(const std::string& path, Norm& n, Typed& dy, Typed& dx, bool accumulate) {
    if (const View dgamma = gradient(path + ".weight"))
      host::layer_norm_weight_gradient(dgamma, gradient(path + ".bias"), dy.at(), n.x.at(),
                                       n.mean.at(), n.rstd.at(), rows_, h_);
    host::layer_norm_input_gradient(dx.at(), dy.at(), n.x.at(), weight(path + ".weight"),
                                    n.mean.at(), n.rstd.at(), rows_, h_, accumulate);
  }

  // LoRA on each block of h columns of y: y_g += (x A_g^T) B_g^T.
  Adapter adapt(const std::string& path, Typed& x, Typed& y) {
    Adapter a;
    if (!optional(b_.weights, path + ".lora_a")) return a;
    const std::int64_t columns = y.size() / rows_, groups = columns / h_;
    for (std::int64_t g = 0; g < groups; ++g) a.offsets.push_back(g * h_);
    a.u = linear(path, x, groups * rank(), ".lora_a");
    const host::LoraShape s{rows_, h_, rank(), a.offsets, columns, 1.0};
    host::lora_up(y.at(), a.u.at(), weight(path + ".lora_b"), s,
                  workspace(host::lora_up_workspace(b_.activation, s)));
    return a;
  }
  // The adapter's own gradients; dx = what flows back through it. Whether there was one.
  bool adapt_backward(const std::string& path, Adapter& a, Typed& dy, Typed& x, Typed& dx) {
    if (a.offsets.empty()) return false;
    Typed du(b_.activation, a.u.size());
    const host::LoraShape s{rows_, h_, rank(), a.offsets, dy.size() / rows_, 1.0};
    const auto ws = workspace(host::lora_up_workspace(b_.activation, s));
    host::lora_up_weight_gradient(gradient(path + ".lora_b"), dy.at(), a.u.at(), s, ws);
    host::lora_up_input_gradient(du.at(), dy.at(), weight(path + ".lora_b"), s, ws);
    linear_backward(path, du, x, dx, false, ".lora_a");
    return true;
  }
  std::int64_t rank() const { return b_.lora_rank; }

  host::AttentionShape attention_shape() const {
    return {b_.samples, b_.seq_len, spec_.heads, spec_.heads, h_ / spec_.heads, true};
  }

  Typed layer(const std::string& path, Typed& x) {
    Layer k;
    k.ln_1 = norm(path + "ln_1", x);
    k.qkv = linear(path + "attn.qkv", k.ln_1.y, 3 * h_);
    k.qkv_adapter = adapt(path + "attn.qkv", k.ln_1.y, k.qkv);
    k.attended = activation(h_);
    k.lse = statistic(spec_.heads);
    host::attention(k.attended.at(), k.lse.at(), k.qkv.at(), attention_shape(),
                    workspace(host::attention_workspace(b_.activation, attention_shape())));
    Typed middle = linear(path + "attn.proj", k.attended, h_);
    k.proj_adapter = adapt(path + "attn.proj", k.attended, middle);
    host::add(middle.at(), x.at(), middle.at(), rows_ * h_);
    k.ln_2 = norm(path + "ln_2", middle);
    k.up = linear(path + "mlp.fc", k.ln_2.y, spec_.ffn_hidden);
    k.activated = activation(spec_.ffn_hidden);
    host::gelu(k.activated.at(), k.up.at(), k.up.size());
    Typed y = linear(path + "mlp.proj", k.activated, h_);
    host::add(y.at(), middle.at(), y.at(), rows_ * h_);
    kept_.push_back(std::move(k));
    return y;
  }

  // d: the gradient of the layer's output, then of its input (the residual stream adds up in it).
  void layer_backward(const std::string& path, Layer& k, Typed& d) {
    Typed d_up = activation(spec_.ffn_hidden), d_normed = activation(h_);
    linear_backward(path + "mlp.proj", d, k.activated, d_up, false);
    host::gelu_gradient(d_up.at(), d_up.at(), k.up.at(), k.up.size());
    linear_backward(path + "mlp.fc", d_up, k.ln_2.y, d_normed, false);
    norm_backward(path + "ln_2", k.ln_2, d_normed, d, true);

    Typed d_attended = activation(h_), d_qkv = activation(3 * h_);
    const bool proj = adapt_backward(path + "attn.proj", k.proj_adapter, d, k.attended, d_attended);
    linear_backward(path + "attn.proj", d, k.attended, d_attended, proj);
    host::attention_input_gradient(
        d_qkv.at(), d_attended.at(), k.qkv.at(), k.attended.at(), k.lse.at(), attention_shape(),
        workspace(host::attention_workspace(b_.activation, attention_shape())));
    const bool qkv = adapt_backward(path + "attn.qkv", k.qkv_adapter, d_qkv, k.ln_1.y, d_normed);
    linear_backward(path + "attn.qkv", d_qkv, k.ln_1.y, d_normed, qkv);
    norm_backward(path + "ln_1", k.ln_1, d_normed, d, true);
  }

  // Loss and the gradient of the head's input.
  Typed head(Typed& x, double* loss) {
    Norm ln_f = norm("ln_f", x);
    Typed logits = linear("lm_head", ln_f.y, spec_.vocab);
    cross_entropy(logits, spec_.vocab,
                  1.0 / static_cast<double>(b_.global_batch * b_.seq_len), loss);
    Typed d_normed = activation(h_), d = activation(h_);
    linear_backward("lm_head", logits, ln_f.y, d_normed, false);
    norm_backward("ln_f", ln_f, d_normed, d, false);
    return d;
  }

  const models::ModelSpec& spec_;
  const std::int64_t h_;
  std::vector<Layer> kept_;
};

class Chain : Model {
 public:
  explicit Chain(MicroBatch& batch) : Model(batch, batch.samples), spec_(*batch.spec) {}

  void train(double* loss) {
    using models::Activation;
    const std::size_t layers = spec_.widths.size() - 1;
    const auto activation_of = [&](std::size_t l) {
      return l + 1 == layers ? Activation::identity : spec_.activation;
    };
    std::vector<Typed> x{b_.inputs}, z;
    for (std::size_t l = 0; l < layers; ++l) {
      z.push_back(linear("h." + std::to_string(l), x[l], spec_.widths[l + 1]));
      x.push_back(z.back());
      host::activate(x.back().at(), activation_of(l), x.back().size());
    }
    Typed d = x.back();                // the loss leaves the gradient where its input was
    apply_loss(d, loss);
    for (std::size_t l = layers; l-- > 0;) {
      if (activation_of(l) == Activation::gelu_tanh)
        host::gelu_gradient(d.at(), d.at(), z[l].at(), d.size());
      else
        host::activate_gradient(d.at(), x[l + 1].at(), activation_of(l), d.size());
      Typed dx(b_.activation, x[l].size());
      linear_backward("h." + std::to_string(l), d, x[l], dx, false);
      d = std::move(dx);
    }
  }

 private:
  void apply_loss(Typed& y, double* loss) {
    const double scale = 1.0 / static_cast<double>(b_.global_batch);
    if (spec_.loss == models::Loss::cross_entropy)
      cross_entropy(y, spec_.widths.back(), scale, loss);
    else
      host::squared_error(loss, y.at(), b_.targets.at(), y.size(), scale);
  }

  const models::ModelSpec& spec_;
};

}  // namespace

void train_micro_batch(MicroBatch& batch, double* loss) {
  if (batch.spec->family == models::Family::chain)
    Chain(batch).train(loss);
  else
    Gpt(batch).train(loss);
}

}  // namespace tests
