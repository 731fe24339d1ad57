// Kernels at the sizes of GPT-2's and Llama's small blocks: a sequence of 512 tokens, width 768.
#include <array>
#include <memory>

#include <fmt/format.h>

#include "exec/calibrate/measured_points.hpp"
#include "exec/host/kernels.hpp"
#include "exec/host/optimizers.hpp"
#include "exec/host/work.hpp"

namespace exec {
namespace {

using core::DType;
using Kind = TrafficRow::Kind;

constexpr std::int64_t kRows = 512, kWidth = 768, kInner = 3072, kHeadDim = 64, kVocab = 8192;

// Memory of one rank's body, filled with small values that no kernel dwells on.
class Pool {
 public:
  host::View real(std::int64_t n, DType type = DType::f32, double size = 1.0) {
    std::vector<double> values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = size * (static_cast<double>((i * 2654435761U) % 2001) / 1000.0 - 1.0);
    const host::View v = raw(core::bytes_of(n, type), type);
    host::cast(v, {values.data(), DType::f64}, n);
    return v;
  }
  host::View tokens(std::int64_t n, std::int64_t below) {
    const host::View v = raw(core::bytes_of(n, DType::i32), DType::i32);
    for (std::int64_t i = 0; i < n; ++i)
      static_cast<std::int32_t*>(v.data)[i] = static_cast<std::int32_t>(i * 7919 % below);
    return v;
  }
  host::Workspace workspace(core::Bytes bytes) { return {raw(bytes, DType::u8).data, bytes}; }

 private:
  host::View raw(core::Bytes bytes, DType type) {
    all_.push_back(
        std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes.value()) + 64));
    return {all_.back().get(), type};
  }
  std::vector<std::unique_ptr<std::byte[]>> all_;
};

using Call = std::function<void()>;

// A point whose buffers live as long as it is measured.
double timed(PointBook& book, const std::string& name, const std::function<Call(Pool&)>& make) {
  std::vector<Pool> pools(static_cast<std::size_t>(book.ranks()));
  return book.measure(name, [&](int r) { return make(pools[static_cast<std::size_t>(r)]); }).median;
}

struct Layer { std::int64_t rows, n, k; };

// The three products of a linear layer.
void time_layer(PointBook& book, const Layer& l, DType type, std::vector<ProductRow>& rows) {
  const host::LinearShape s{l.rows, l.n, l.k, l.n, l.k};
  const auto named = [&](const char* pass) {
    return fmt::format("linear {} {} x {} x {} {}", pass, l.rows, l.n, l.k, core::name(type));
  };
  const auto buffers = [&](Pool& p) {
    return std::tuple(p.real(l.rows * l.n, type), p.real(l.rows * l.k, type),
                      p.real(l.n * l.k, type), p.workspace(host::linear_workspace(type, s)));
  };
  const auto pass = [&](const char* name, auto kernel) {
    return timed(book, named(name), [&](Pool& p) -> Call {
      return std::apply([=](auto... buffer) -> Call { return [=] { kernel(buffer...); }; },
                        buffers(p));
    });
  };
  rows.push_back({l.rows, l.n, l.k, pass("forward", [=](auto y, auto x, auto w, auto ws) {
                    host::linear(y, x, w, {}, s, false, ws);
                  })});
  rows.push_back({l.rows, l.k, l.n, pass("input gradient", [=](auto y, auto x, auto w, auto ws) {
                    host::linear_input_gradient(x, y, w, s, false, ws);
                  })});
  rows.push_back({l.n, l.k, l.rows, pass("weight gradient", [=](auto y, auto x, auto w, auto ws) {
                    host::linear_weight_gradient(w, y, x, s, ws);
                  })});
}

models::Operator attention_operator(std::int64_t seq, std::int64_t heads) {
  models::Operator op;
  op.rows = op.keys = seq;
  op.heads = op.kv_heads = heads;
  op.head_dim = kHeadDim;
  op.n = heads * kHeadDim;
  return op;
}

core::Bytes f32_bytes(std::int64_t elements) { return core::bytes_of(elements, DType::f32); }

}  // namespace

Products product_points(PointBook& book) {
  constexpr std::array<Layer, 8> kLayers{{{kRows, 3 * kWidth, kWidth},
                                          {kRows, kWidth, kWidth},
                                          {kRows, kInner, kWidth},
                                          {kRows, kWidth, kInner},
                                          {2048, kWidth, kWidth},
                                          {256, 512, 512},
                                          {128, 256, 256},
                                          {256, kVocab, kWidth}}};
  Products all;
  for (const Layer& l : kLayers) time_layer(book, l, DType::f32, all.f32);
  for (std::size_t i = 0; i < 3; ++i) time_layer(book, kLayers[i], DType::bf16, all.bf16);
  for (std::size_t i = 0; i < 2; ++i) time_layer(book, kLayers[i], DType::f64, all.f64);
  return all;
}

std::vector<AttentionRow> attention_points(PointBook& book) {
  std::vector<AttentionRow> rows;
  constexpr std::int64_t kHeads = 4;
  for (const std::int64_t seq : {256, 512, 1024}) {
    const host::AttentionShape s{1, seq, kHeads, kHeads, kHeadDim, true};
    const std::int64_t q = seq * kHeads * kHeadDim;
    const models::Operator op = attention_operator(seq, kHeads);
    const auto add = [&](models::ops::Kernel kernel, const char* name,
                         const std::function<Call(Pool&)>& make) {
      const host::Work w = host::work(kernel, op, 1, {});
      rows.push_back({seq, kHeadDim, w.flops, w.bytes,
                      timed(book, fmt::format("attention {} of {} tokens", name, seq), make)});
    };
    add(models::ops::Kernel::forward, "forward", [&](Pool& p) -> Call {
      const auto out = p.real(q), lse = p.real(seq * kHeads), qkv = p.real(3 * q);
      const auto ws = p.workspace(host::attention_workspace(DType::f32, s));
      return [=] { host::attention(out, lse, qkv, s, ws); };
    });
    add(models::ops::Kernel::input_gradient, "backward", [&](Pool& p) -> Call {
      const auto out = p.real(q), lse = p.real(seq * kHeads, DType::f32, 4), qkv = p.real(3 * q);
      const auto dout = p.real(q), dqkv = p.real(3 * q);
      const auto ws = p.workspace(host::attention_workspace(DType::f32, s));
      return [=] { host::attention_input_gradient(dqkv, dout, qkv, out, lse, s, ws); };
    });
  }
  return rows;
}

std::vector<TrafficRow> traffic_points(PointBook& book) {
  std::vector<TrafficRow> rows;
  const std::int64_t e = kRows * kWidth, f = kRows * kInner;
  const auto add = [&](Kind kind, const char* name, std::int64_t elements,
                       const std::function<Call(Pool&)>& make) {
    rows.push_back({kind, f32_bytes(elements), timed(book, name, make)});
  };
  add(Kind::elementwise, "gelu forward", 2 * f, [&](Pool& p) -> Call {
    const auto y = p.real(f), x = p.real(f);
    return [=] { host::gelu(y, x, f); };
  });
  add(Kind::elementwise, "gelu backward", 3 * f, [&](Pool& p) -> Call {
    const auto d = p.real(f), x = p.real(f);
    return [=] { host::gelu_gradient(d, d, x, f); };
  });
  for (const char* name : {"first addition", "second addition"})
    add(Kind::elementwise, name, 3 * e, [&](Pool& p) -> Call {
      const auto y = p.real(e), a = p.real(e), b = p.real(e);
      return [=] { host::add(y, a, b, e); };
    });
  for (const char* which : {"first", "second"}) {
    add(Kind::elementwise, fmt::format("{} layer norm forward", which).c_str(), 2 * e,
        [&](Pool& p) -> Call {
          const auto y = p.real(e), x = p.real(e), m = p.real(kRows), s = p.real(kRows);
          const auto g = p.real(kWidth), b = p.real(kWidth);
          return [=] { host::layer_norm(y, m, s, x, g, b, kRows, kWidth, 1e-5); };
        });
    add(Kind::elementwise, fmt::format("{} layer norm backward", which).c_str(), 3 * e,
        [&](Pool& p) -> Call {
          const auto dx = p.real(e), dy = p.real(e), x = p.real(e), m = p.real(kRows);
          const auto s = p.real(kRows), g = p.real(kWidth), dg = p.real(kWidth),
                     db = p.real(kWidth);
          return [=] {
            host::layer_norm_weight_gradient(dg, db, dy, x, m, s, kRows, kWidth);
            host::layer_norm_input_gradient(dx, dy, x, g, m, s, kRows, kWidth, true);
          };
        });
  }
  add(Kind::norm, "rms norm forward and backward", 5 * e, [&](Pool& p) -> Call {
    const auto y = p.real(e), x = p.real(e), s = p.real(kRows), g = p.real(kWidth);
    const auto dg = p.real(kWidth), dx = p.real(e);
    return [=] {
      host::rms_norm(y, s, x, g, kRows, kWidth, 1e-5);
      host::rms_norm_weight_gradient(dg, y, x, s, kRows, kWidth);
      host::rms_norm_input_gradient(dx, y, x, g, s, kRows, kWidth, true);
    };
  });
  add(Kind::rotary, "rotary positions, both ways", 8 * e, [&](Pool& p) -> Call {
    const auto qkv = p.real(3 * e);
    const host::HeadShape s{kRows, kWidth / kHeadDim, kWidth / kHeadDim, kHeadDim};
    return [=] {
      host::rotate(qkv, s, {kHeadDim, kRows, false});
      host::rotate(qkv, s, {kHeadDim, kRows, true});
    };
  });
  add(Kind::gated, "swiglu forward and backward", 8 * f, [&](Pool& p) -> Call {
    const auto y = p.real(f), x = p.real(2 * f), dx = p.real(2 * f);
    return [=] {
      host::swiglu(y, x, kRows, kInner);
      host::swiglu_gradient(dx, y, x, kRows, kInner);
    };
  });
  const std::int64_t l = kRows * kVocab;
  // Maximum 1, sum 1, gradient in place 2: as the operator graph counts the three stages.
  add(Kind::loss, "loss of 512 tokens", 4 * l, [&](Pool& p) -> Call {
    const auto logits = p.real(l), max = p.real(kRows), sums = p.real(2 * kRows);
    const auto targets = p.tokens(kRows, kVocab);
    const host::LogitShape s{kRows, kVocab, kVocab, 0, kVocab};
    return [=] {
      double loss = 0;
      host::softmax_max(max, logits, s);
      host::softmax_sum(sums, logits, max, targets, s);
      host::cross_entropy(&loss, logits, max, sums, targets, s, 1.0 / kRows);
    };
  });
  return rows;
}

TrafficRow update_point(PointBook& book) {
  constexpr std::int64_t kElements = 4 << 20;
  constexpr std::int64_t kMoved = 7;     // weight, m and v read and written, the gradient read
  const double seconds = timed(book, "adamw of 4 Mi parameters", [&](Pool& p) -> Call {
    host::Parameters parameters;
    parameters.weight = p.real(kElements);
    parameters.gradient = p.real(kElements, DType::f32, 1e-2);
    parameters.n = kElements;
    parameters.decays = true;
    const std::vector<host::View> slots{p.real(kElements, DType::f32, 1e-2),
                                        p.real(kElements, DType::f32, 0.0)};
    return [=] {
      host::update(planner::OptimizerKind::adamw,
                   default_hyper(planner::OptimizerKind::adamw), 10, parameters, slots);
    };
  });
  return {Kind::elementwise, f32_bytes(kMoved * kElements), seconds};
}

}  // namespace exec
