#include "exec/host/experts.hpp"
#include "models/layer_kinds.hpp"
#include "tests/property/reference_attention.hpp"
#include "tests/property/reference_ends.hpp"
#include "tests/property/reference_slices.hpp"

namespace tests {
namespace {

class Transformer : TransformerEnds {
 public:
  explicit Transformer(MicroBatch& batch)
      : TransformerEnds(batch), d_(models::head_dim_of(spec_)), q_(spec_.heads * d_),
        kv_(spec_.kv_heads * d_), kinds_(models::kind_of_layers(spec_)) {}

  void train(double* loss) {
    Typed x = embed();
    for (std::int64_t l = 0; l < spec_.layers; ++l) x = layer(enter(l), x);
    Typed d = head(x, loss);
    for (std::int64_t l = spec_.layers - 1; l >= 0; --l)
      layer_backward(enter(l), kept_[static_cast<std::size_t>(l)], d);
    embed_backward(d);
  }

 private:
  // What the layer is like, from here on; its path.
  std::string enter(std::int64_t l) {
    if (!spec_.kinds.empty()) {
      const int kind = kinds_[static_cast<std::size_t>(l)];
      v_ = spec_.kinds[static_cast<std::size_t>(kind)].variants;
      ffn_hidden_ = spec_.kinds[static_cast<std::size_t>(kind)].ffn_hidden;
    }
    return "h." + std::to_string(l) + ".";
  }

  struct Adapter {
    std::string path;
    Typed u;
    std::int64_t width;
    std::vector<std::int64_t> offsets;
  };
  using Adapters = std::vector<Adapter>;
  struct Layer {
    Typed input;                       // where norms follow
    Norm ln_1, ln_2;
    Typed raw_qkv, qk_rstd, qkv, attended, lse, up, activated;  // raw_qkv: before qk_norm
    Typed probabilities;
    DividedHeads divided;
    Typed gates, places, copies, made;                          // of experts
    Adapters qkv_adapters, proj_adapters, up_adapters, down_adapters;
  };

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

  bool parallel() const { return v_.residual == models::Residual::parallel; }
  bool gated() const { return v_.ffn == models::Ffn::swiglu; }
  host::HeadShape heads() const { return {rows_, spec_.heads, spec_.kv_heads, d_}; }
  host::AttentionShape attention_shape() const {
    host::AttentionShape s = own_shape();
    if (!b_.slices) return s;
    s.keys = b_.slices->seq_len();
    s.early = b_.seq_len / 2;
    s.early_at = position(0);
    s.late_at = position(s.early);
    s.biases.queries = {s.early, s.early_at, s.late_at};
    return s;
  }
  // As one that has the whole sequence.
  host::AttentionShape own_shape() const {
    host::AttentionShape s{b_.samples, b_.seq_len, spec_.heads, spec_.kv_heads, d_, v_.causal};
    if (v_.position_kind == models::Positions::alibi) s.biases.all_heads = spec_.heads;
    return s;
  }
  void turn(Typed& qkv, bool inverse) const {
    if (v_.position_kind != models::Positions::rotary) return;
    host::HeadShape row = heads();
    row.rows = 1;
    for (std::int64_t r = 0; r < rows_; ++r)
      host::rotate(qkv.at(r * row.columns()), row,
                   {static_cast<std::int64_t>(v_.rotary_fraction * static_cast<double>(d_)), 1,
                    inverse, {1, position(r), 0}, v_.rotary_base});
  }
  View scores(Layer& k) const { return b_.stores_scores ? k.probabilities.at() : View{}; }
  // Columns of keys and values of every row: out of or into qkv.
  Typed key_columns(Typed& qkv) const {
    Typed keys = activation(2 * kv_);
    for (std::int64_t r = 0; r < rows_; ++r)
      host::copy(keys.at(r * 2 * kv_), qkv.at(r * heads().columns() + q_), 2 * kv_);
    return keys;
  }
  // Those of all ranks that divide the sequence; nothing where there is one.
  Typed all_keys(Typed& qkv) const {
    return b_.slices ? b_.slices->gather(b_.slice, key_columns(qkv), 2 * kv_) : Typed();
  }

  void attend(const std::string& path, Layer& k) {
    k.qkv = linear(path + "attn.qkv", post() ? k.input : k.ln_1.y, q_ + 2 * kv_);
    if (q_ == kv_) {
      adapt(k.qkv_adapters, path + "attn.qkv", k.ln_1.y, k.qkv, q_, {0, q_, 2 * q_});
    } else {
      adapt(k.qkv_adapters, path + "attn.qkv", k.ln_1.y, k.qkv, q_, {0});
      adapt(k.qkv_adapters, path + "attn.qkv.kv", k.ln_1.y, k.qkv, kv_, {q_, q_ + kv_});
    }
    if (v_.qk_norm != models::QkNorm::none) {
      k.raw_qkv = k.qkv;
      k.qk_rstd = statistic(spec_.heads + spec_.kv_heads);
      host::qk_norm(k.qkv.at(), k.qk_rstd.at(), k.raw_qkv.at(), weight(path + "attn.q_norm.weight"),
                    weight(path + "attn.k_norm.weight"), heads(), spec_.layer_norm_epsilon);
    }
    turn(k.qkv, false);
    k.attended = activation(q_);
    k.lse = statistic(spec_.heads);
    if (in_parts()) return sliced().forward(k.attended, k.lse, k.qkv, k.divided);
    Typed keys = all_keys(k.qkv);
    const host::AttentionShape shape = attention_shape();
    if (b_.stores_scores)
      k.probabilities = {b_.activation, rows_ * spec_.heads * shape.key_rows()};
    host::attention(k.attended.at(), k.lse.at(), k.qkv.at(), attention_shape(),
                    workspace(host::attention_workspace(b_.activation, attention_shape())),
                    keys.at(), scores(k));
  }

  void attend_backward(const std::string& path, Layer& k, Typed& d_attended, Typed& d_qkv) {
    if (in_parts())
      sliced().backward(d_qkv, d_attended, k.qkv, k.attended, k.lse, k.divided);
    else
      attend_backward_at_once(k, d_attended, d_qkv);
    turn(d_qkv, true);
    normalise_backward(path, k, d_qkv);
  }
  // By rows and heads of other ranks, not by all keys at once.
  bool in_parts() const {
    return b_.slices && b_.slices->method() != planner::ContextMethod::gather;
  }
  SlicedAttention sliced() const {
    return {*b_.slices, b_.slice, b_.statistic, own_shape()};
  }
  void attend_backward_at_once(Layer& k, Typed& d_attended, Typed& d_qkv) {
    Typed keys = all_keys(k.qkv);
    host::attention_input_gradient(
        d_qkv.at(), d_attended.at(), k.qkv.at(), k.attended.at(), k.lse.at(), attention_shape(),
        workspace(host::attention_workspace(b_.activation, attention_shape())), keys.at(),
        scores(k));
    if (b_.slices) {
      Typed own = b_.slices->scatter(b_.slice, keys, 2 * kv_);
      for (std::int64_t r = 0; r < rows_; ++r)
        host::copy(d_qkv.at(r * heads().columns() + q_), own.at(r * 2 * kv_), 2 * kv_);
    }
  }
  void normalise_backward(const std::string& path, Layer& k, Typed& d_qkv) {
    if (v_.qk_norm == models::QkNorm::none) return;
    const std::string q = path + "attn.q_norm.weight", key = path + "attn.k_norm.weight";
    Typed dy = d_qkv;
    if (const View dq = gradient(q))
      host::qk_norm_weight_gradient(dq, gradient(key), dy.at(), k.raw_qkv.at(), k.qk_rstd.at(),
                                    heads());
    host::qk_norm_input_gradient(d_qkv.at(), dy.at(), k.raw_qkv.at(), weight(q), weight(key),
                                 k.qk_rstd.at(), heads());
  }

  // Mixtures of experts: rows_ x chosen copies, expert by expert.
  host::RoutingShape routing() const {
    return {b_.samples, b_.seq_len, v_.experts, v_.experts_per_token};
  }
  host::CopyShape copying() const { return {rows_, h_, v_.experts_per_token}; }
  std::int64_t copies() const { return rows_ * v_.experts_per_token; }

  // use(rows of this expert, first of them, the matrix's path).
  template <class Use>
  void each_expert(const std::string& matrix, Use&& use) {
    const host::RoutingShape s = routing();
    for (std::int64_t e = 0; e < v_.experts; ++e) {
      const std::int64_t rows = b_.samples * (s.first(e + 1) - s.first(e));
      if (rows > 0) use(rows, b_.samples * s.first(e), matrix + "#" + std::to_string(e));
    }
  }
  Typed experts_product(const std::string& matrix, Typed& x, std::int64_t n) {
    const std::int64_t k = x.size() / copies();
    Typed y(b_.activation, copies() * n);
    const Operand in = input(matrix, x.at(), {copies(), n, k, n, k}, false);
    each_expert(matrix, [&](std::int64_t rows, std::int64_t first, const std::string& path) {
      const LinearShape s{rows, n, k, n, k};
      const Operand w = matrix_of(path, s, false);
      host::linear(y.at(first * n), in.view().at(first * k), w.view(), {}, s, false,
                   workspace(host::linear_workspace(b_.activation, s)));
    });
    return y;
  }
  void experts_product_backward(const std::string& matrix, Typed& dy, Typed& x, Typed& dx) {
    const std::int64_t n = dy.size() / copies(), k = x.size() / copies();
    const LinearShape all{copies(), n, k, n, k};
    const Operand in = input(matrix, x.at(), all, true);
    const Operand d = gradient_of(matrix, dy.at(), all, true);
    const Operand by_rows = gradient_of(matrix, dy.at(), all, false);
    each_expert(matrix, [&](std::int64_t rows, std::int64_t first, const std::string& path) {
      const LinearShape s{rows, n, k, n, k};
      const auto ws = workspace(host::linear_workspace(b_.activation, s));
      const auto add = [&, dw = gradient(path)] {
        if (!dw) return;
        host::linear_weight_gradient(dw, d.view().at(first * n), in.view().at(first * k), s, ws);
      };
      b_.slices ? b_.slices->in_turn(b_.slice, add) : add();  // ranks may share this gradient
      host::linear_input_gradient(dx.at(first * k), by_rows.view().at(first * n),
                                  matrix_of(path, s, true).view(), s, false, ws);
    });
  }

  Typed mixture(const std::string& path, Layer& k) {
    Typed logits = linear(path + "moe.router", k.ln_2.y, v_.experts), y = activation(h_);
    k.gates = {b_.activation, copies()};
    k.places = {core::DType::i32, copies()};
    k.copies = {b_.activation, copies() * h_};
    host::top_k(k.gates.at(), k.places.at(), logits.at(), routing(),
                workspace(host::top_k_workspace(routing())));
    host::dispatch(k.copies.at(), k.ln_2.y.at(), k.places.at(), copying());
    k.up = experts_product(path + "moe.gate_up.weight", k.copies, 2 * ffn_hidden_);
    k.activated = {b_.activation, copies() * ffn_hidden_};
    host::swiglu(k.activated.at(), k.up.at(), copies(), ffn_hidden_);
    k.made = experts_product(path + "moe.proj.weight", k.activated, h_);
    host::combine(y.at(), k.made.at(), k.gates.at(), k.places.at(), copying());
    return y;
  }

  void mixture_backward(const std::string& path, Layer& k, Typed& d, Typed& d_normed) {
    const std::int64_t f = ffn_hidden_;
    Typed d_made(b_.activation, k.made.size()), d_gates(b_.activation, copies());
    host::combine_gradient(d_made.at(), d_gates.at(), d.at(), k.made.at(), k.gates.at(),
                           k.places.at(), copying());
    Typed d_activated(b_.activation, copies() * f), d_up(b_.activation, copies() * 2 * f);
    experts_product_backward(path + "moe.proj.weight", d_made, k.activated, d_activated);
    host::swiglu_gradient(d_up.at(), d_activated.at(), k.up.at(), copies(), f);
    Typed d_copies(b_.activation, k.copies.size()), d_logits = activation(v_.experts);
    experts_product_backward(path + "moe.gate_up.weight", d_up, k.copies, d_copies);
    host::dispatch_gradient(d_normed.at(), d_copies.at(), k.places.at(), copying(), false);
    host::top_k_gradient(d_logits.at(), d_gates.at(), k.gates.at(), k.places.at(), {}, routing());
    linear_backward(path + "moe.router", d_logits, k.ln_2.y, d_normed, true);
  }

  Typed& ffn_input(Layer& k) { return post() ? k.ln_1.y : k.ln_2.y; }

  Typed post_layer(const std::string& path, Typed& x) {
    Layer k;
    k.input = x;
    attend(path, k);
    Typed sum = linear(path + "attn.proj", k.attended, h_);
    host::add(sum.at(), x.at(), sum.at(), rows_ * h_);
    k.ln_1 = norm(path + "ln_1", sum);
    Typed both = dense(path, k);
    host::add(both.at(), k.ln_1.y.at(), both.at(), rows_ * h_);
    k.ln_2 = norm(path + "ln_2", both);
    kept_.push_back(std::move(k));
    return kept_.back().ln_2.y;
  }
  void post_layer_backward(const std::string& path, Layer& k, Typed& d) {
    Typed middle = activation(h_);
    norm_backward(path + "ln_2", k.ln_2, d, middle, false);
    Typed d_both = middle;             // of the branch, before it adds to the residual's
    dense_backward(path, k, d_both, middle);
    norm_backward(path + "ln_1", k.ln_1, middle, d, false);
    Typed d_sum = d, d_attended = activation(q_), d_qkv = activation(q_ + 2 * kv_);
    linear_backward(path + "attn.proj", d_sum, k.attended, d_attended, false);
    attend_backward(path, k, d_attended, d_qkv);
    linear_backward(path + "attn.qkv", d_qkv, k.input, d, true);
  }

  std::string first_product() const { return gated() ? "mlp.gate_up" : "mlp.fc"; }
  void activate(Layer& k) const {
    k.activated = activation(ffn_hidden_);
    if (gated())
      host::swiglu(k.activated.at(), k.up.at(), rows_, ffn_hidden_);
    else if (spec_.activation == models::Activation::relu)
      host::relu(k.activated.at(), k.up.at(), k.up.size());
    else
      host::gelu(k.activated.at(), k.up.at(), k.up.size(), spec_.activation);
  }
  Typed dense(const std::string& path, Layer& k) {
    const std::int64_t f = ffn_hidden_;
    k.up = linear(path + first_product(), ffn_input(k), gated() ? 2 * f : f);
    adapt(k.up_adapters, path + first_product(), ffn_input(k), k.up, f,
          gated() ? std::vector<std::int64_t>{0, f} : std::vector<std::int64_t>{0});
    activate(k);
    Typed y = linear(path + "mlp.proj", k.activated, h_);
    adapt(k.down_adapters, path + "mlp.proj", k.activated, y, h_, {0});
    return y;
  }
  // The first half of the columns of what the activation reads, the others were kept.
  void remake_half(const std::string& path, Layer& k) {
    const std::int64_t width = k.up.size() / rows_;
    const LinearShape s{rows_, width / 2, h_, width, h_}, whole{rows_, width, h_, width, h_};
    const std::string product = path + first_product();
    const Operand in = input(product + ".weight", ffn_input(k).at(), whole, false);
    const Operand w = matrix_of(product + ".weight", whole, false);
    host::linear(k.up.at(), in.view(), w.view(), optional(b_.weights, product + ".bias"), s, false,
                 workspace(host::linear_workspace(b_.activation, s)));
    activate(k);
  }

  void dense_backward(const std::string& path, Layer& k, Typed& d, Typed& d_normed) {
    if (b_.halves) remake_half(path, k);
    Typed d_activated = activation(ffn_hidden_);
    const bool down = adapt_backward(k.down_adapters, d, k.activated, d_activated);
    linear_backward(path + "mlp.proj", d, k.activated, d_activated, down);
    if (gated()) {
      Typed d_up = activation(2 * ffn_hidden_);
      host::swiglu_gradient(d_up.at(), d_activated.at(), k.up.at(), rows_, ffn_hidden_);
      const bool up = adapt_backward(k.up_adapters, d_up, k.ln_2.y, d_normed);
      return linear_backward(path + "mlp.gate_up", d_up, k.ln_2.y, d_normed, up);
    }
    if (spec_.activation == models::Activation::relu)
      host::relu_gradient(d_activated.at(), d_activated.at(), k.activated.at(), k.up.size());
    else
      host::gelu_gradient(d_activated.at(), d_activated.at(), k.up.at(), k.up.size(),
                          spec_.activation);
    const bool up = adapt_backward(k.up_adapters, d_activated, ffn_input(k), d_normed);
    linear_backward(path + "mlp.fc", d_activated, ffn_input(k), d_normed, up || post());
  }

  Typed layer(const std::string& path, Typed& x) {
    if (post()) return post_layer(path, x);
    Layer k;
    k.ln_1 = norm(path + "ln_1", x);
    attend(path, k);
    Typed attended = linear(path + "attn.proj", k.attended, h_);
    adapt(k.proj_adapters, path + "attn.proj", k.attended, attended, h_, {0});
    Typed middle = activation(h_);
    host::add(middle.at(), x.at(), attended.at(), rows_ * h_);
    k.ln_2 = norm(path + "ln_2", parallel() ? x : middle);
    Typed y = v_.experts > 0 ? mixture(path, k) : dense(path, k);
    if (parallel()) host::add(y.at(), attended.at(), y.at(), rows_ * h_);
    host::add(y.at(), parallel() ? x.at() : middle.at(), y.at(), rows_ * h_);
    kept_.push_back(std::move(k));
    return y;
  }

  // d: the gradient of the layer's output, then of its input (the residual stream adds up in it).
  void layer_backward(const std::string& path, Layer& k, Typed& d) {
    if (post()) return post_layer_backward(path, k, d);
    Typed d_normed = activation(h_);
    if (v_.experts > 0)
      mixture_backward(path, k, d, d_normed);
    else
      dense_backward(path, k, d, d_normed);
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

  const std::int64_t d_, q_, kv_;
  const std::vector<int> kinds_;       // of each layer
  models::Variants v_ = spec_.variants;  // of the layer under way; the ends have the model's
  std::int64_t ffn_hidden_ = spec_.ffn_hidden;
  std::vector<Layer> kept_;
};

}  // namespace

void train_micro_batch(MicroBatch& batch, double* loss) {
  if (batch.spec->family == models::Family::chain)
    train_chain(batch, loss);
  else if (batch.spec->family == models::Family::graph)
    train_graph(batch, loss);
  else
    Transformer(batch).train(loss);
}

}  // namespace tests
