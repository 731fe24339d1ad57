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

class Transformer : Model {
 public:
  explicit Transformer(MicroBatch& batch)
      : Model(batch, batch.samples * batch.seq_len), spec_(*batch.spec), v_(spec_.variants),
        h_(spec_.hidden), d_(models::head_dim_of(spec_)), q_(spec_.heads * d_),
        kv_(spec_.kv_heads * d_) {}

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
  struct Adapter {
    std::string path;
    Typed u;
    std::int64_t width;
    std::vector<std::int64_t> offsets;
  };
  using Adapters = std::vector<Adapter>;
  struct Layer {
    Norm ln_1, ln_2;
    Typed raw_qkv, qk_rstd, qkv, attended, lse, up, activated;  // raw_qkv: before qk_norm
    Adapters qkv_adapters, proj_adapters;
  };

  Typed embed() {
    Typed x = activation(h_);
    host::token_embedding(x.at(), weight("wte.weight"), b_.inputs.at(), rows_, h_,
                          {0, spec_.vocab});
    if (learned())
      host::position_embedding(x.at(), x.at(), weight("wpe.weight"), rows_, h_, b_.seq_len);
    return x;
  }

  Norm norm(const std::string& path, const Typed& x) {
    Norm n{x, activation(h_), statistic(1), statistic(1)};
    if (rms())
      host::rms_norm(n.y.at(), n.rstd.at(), n.x.at(), weight(path + ".weight"), rows_, h_,
                     spec_.layer_norm_epsilon);
    else
      host::layer_norm(n.y.at(), n.mean.at(), n.rstd.at(), n.x.at(), weight(path + ".weight"),
                       weight(path + ".bias"), rows_, h_, spec_.layer_norm_epsilon);
    return n;
  }
  void norm_backward(const std::string& path, Norm& n, Typed& dy, Typed& dx, bool accumulate) {
    if (rms()) {
      if (const View dgamma = gradient(path + ".weight"))
        host::rms_norm_weight_gradient(dgamma, dy.at(), n.x.at(), n.rstd.at(), rows_, h_);
      return host::rms_norm_input_gradient(dx.at(), dy.at(), n.x.at(), weight(path + ".weight"),
                                           n.rstd.at(), rows_, h_, accumulate);
    }
    if (const View dgamma = gradient(path + ".weight"))
      host::layer_norm_weight_gradient(dgamma, gradient(path + ".bias"), dy.at(), n.x.at(),
                                       n.mean.at(), n.rstd.at(), rows_, h_);
    host::layer_norm_input_gradient(dx.at(), dy.at(), n.x.at(), weight(path + ".weight"),
                                    n.mean.at(), n.rstd.at(), rows_, h_, accumulate);
  }

  // LoRA on blocks of `width` columns of y: y_g += (x A_g^T) B_g^T.
  void adapt(Adapters& all, const std::string& path, Typed& x, Typed& y, std::int64_t width,
             std::vector<std::int64_t> offsets) {
    if (!optional(b_.weights, path + ".lora_a")) return;
    const auto groups = static_cast<std::int64_t>(offsets.size());
    all.push_back({path, linear(path, x, groups * rank(), ".lora_a"), width, std::move(offsets)});
    const host::LoraShape s = lora_shape(all.back(), y);
    host::lora_up(y.at(), all.back().u.at(), weight(path + ".lora_b"), s,
                  workspace(host::lora_up_workspace(b_.activation, s)));
  }
  // The adapters' own gradients; dx = what flows back through them. Whether there was one.
  bool adapt_backward(Adapters& all, Typed& dy, Typed& x, Typed& dx) {
    for (std::size_t i = all.size(); i-- > 0;) {
      Adapter& a = all[i];
      Typed du(b_.activation, a.u.size());
      const host::LoraShape s = lora_shape(a, dy);
      const auto ws = workspace(host::lora_up_workspace(b_.activation, s));
      host::lora_up_weight_gradient(gradient(a.path + ".lora_b"), dy.at(), a.u.at(), s, ws);
      host::lora_up_input_gradient(du.at(), dy.at(), weight(a.path + ".lora_b"), s, ws);
      linear_backward(a.path, du, x, dx, i + 1 < all.size(), ".lora_a");
    }
    return !all.empty();
  }
  host::LoraShape lora_shape(const Adapter& a, const Typed& y) const {
    return {rows_, a.width, rank(), a.offsets, y.size() / rows_, 1.0};
  }
  std::int64_t rank() const { return b_.lora_rank; }

  bool rms() const { return v_.norm == models::Norm::rms_norm; }
  bool learned() const { return v_.position_kind == models::Positions::learned; }
  bool parallel() const { return v_.residual == models::Residual::parallel; }
  bool gated() const { return v_.ffn == models::Ffn::swiglu; }
  host::HeadShape heads() const { return {rows_, spec_.heads, spec_.kv_heads, d_}; }
  host::AttentionShape attention_shape() const {
    return {b_.samples, b_.seq_len, spec_.heads, spec_.kv_heads, d_, true};
  }
  void turn(Typed& qkv, bool inverse) const {
    if (v_.position_kind == models::Positions::rotary)
      host::rotate(qkv.at(), heads(),
                   {static_cast<std::int64_t>(v_.rotary_fraction * static_cast<double>(d_)),
                    b_.seq_len, inverse});
  }

  void attend(const std::string& path, Layer& k) {
    k.qkv = linear(path + "attn.qkv", k.ln_1.y, q_ + 2 * kv_);
    if (q_ == kv_) {
      adapt(k.qkv_adapters, path + "attn.qkv", k.ln_1.y, k.qkv, q_, {0, q_, 2 * q_});
    } else {
      adapt(k.qkv_adapters, path + "attn.qkv", k.ln_1.y, k.qkv, q_, {0});
      adapt(k.qkv_adapters, path + "attn.qkv.kv", k.ln_1.y, k.qkv, kv_, {q_, q_ + kv_});
    }
    if (v_.qk_norm) {
      k.raw_qkv = k.qkv;
      k.qk_rstd = statistic(spec_.heads + spec_.kv_heads);
      host::qk_norm(k.qkv.at(), k.qk_rstd.at(), k.raw_qkv.at(), weight(path + "attn.q_norm.weight"),
                    weight(path + "attn.k_norm.weight"), heads(), spec_.layer_norm_epsilon);
    }
    turn(k.qkv, false);
    k.attended = activation(q_);
    k.lse = statistic(spec_.heads);
    host::attention(k.attended.at(), k.lse.at(), k.qkv.at(), attention_shape(),
                    workspace(host::attention_workspace(b_.activation, attention_shape())));
  }

  void attend_backward(const std::string& path, Layer& k, Typed& d_attended, Typed& d_qkv) {
    host::attention_input_gradient(
        d_qkv.at(), d_attended.at(), k.qkv.at(), k.attended.at(), k.lse.at(), attention_shape(),
        workspace(host::attention_workspace(b_.activation, attention_shape())));
    turn(d_qkv, true);
    if (!v_.qk_norm) return;
    const std::string q = path + "attn.q_norm.weight", key = path + "attn.k_norm.weight";
    Typed dy = d_qkv;
    if (const View dq = gradient(q))
      host::qk_norm_weight_gradient(dq, gradient(key), dy.at(), k.raw_qkv.at(), k.qk_rstd.at(),
                                    heads());
    host::qk_norm_input_gradient(d_qkv.at(), dy.at(), k.raw_qkv.at(), weight(q), weight(key),
                                 k.qk_rstd.at(), heads());
  }

  Typed layer(const std::string& path, Typed& x) {
    Layer k;
    const std::int64_t f = spec_.ffn_hidden;
    k.ln_1 = norm(path + "ln_1", x);
    attend(path, k);
    Typed attended = linear(path + "attn.proj", k.attended, h_);
    adapt(k.proj_adapters, path + "attn.proj", k.attended, attended, h_, {0});
    Typed middle = activation(h_);
    host::add(middle.at(), x.at(), attended.at(), rows_ * h_);
    k.ln_2 = norm(path + "ln_2", parallel() ? x : middle);
    k.up = gated() ? linear(path + "mlp.gate_up", k.ln_2.y, 2 * f)
                   : linear(path + "mlp.fc", k.ln_2.y, f);
    k.activated = activation(f);
    if (gated())
      host::swiglu(k.activated.at(), k.up.at(), rows_, f);
    else
      host::gelu(k.activated.at(), k.up.at(), k.up.size(), spec_.activation);
    Typed y = linear(path + "mlp.proj", k.activated, h_);
    if (parallel()) host::add(y.at(), attended.at(), y.at(), rows_ * h_);
    host::add(y.at(), parallel() ? x.at() : middle.at(), y.at(), rows_ * h_);
    kept_.push_back(std::move(k));
    return y;
  }

  // d: the gradient of the layer's output, then of its input (the residual stream adds up in it).
  void layer_backward(const std::string& path, Layer& k, Typed& d) {
    Typed d_activated = activation(spec_.ffn_hidden), d_normed = activation(h_);
    linear_backward(path + "mlp.proj", d, k.activated, d_activated, false);
    if (gated()) {
      Typed d_up = activation(2 * spec_.ffn_hidden);
      host::swiglu_gradient(d_up.at(), d_activated.at(), k.up.at(), rows_, spec_.ffn_hidden);
      linear_backward(path + "mlp.gate_up", d_up, k.ln_2.y, d_normed, false);
    } else {
      host::gelu_gradient(d_activated.at(), d_activated.at(), k.up.at(), k.up.size(),
                          spec_.activation);
      linear_backward(path + "mlp.fc", d_activated, k.ln_2.y, d_normed, false);
    }
    Typed d_second = d_normed;  // the parallel branches are both done before a norm adds to d
    if (!parallel()) norm_backward(path + "ln_2", k.ln_2, d_normed, d, true);

    Typed d_attended = activation(q_), d_qkv = activation(q_ + 2 * kv_);
    const bool proj = adapt_backward(k.proj_adapters, d, k.attended, d_attended);
    linear_backward(path + "attn.proj", d, k.attended, d_attended, proj);
    attend_backward(path, k, d_attended, d_qkv);
    const bool qkv = adapt_backward(k.qkv_adapters, d_qkv, k.ln_1.y, d_normed);
    linear_backward(path + "attn.qkv", d_qkv, k.ln_1.y, d_normed, qkv);
    if (parallel()) norm_backward(path + "ln_2", k.ln_2, d_second, d, true);
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
  const models::Variants& v_;
  const std::int64_t h_, d_, q_, kv_;
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
    Transformer(batch).train(loss);
}

}  // namespace tests
