// A library's attention as the twin plays it: plainly, in f64, rounded once.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "exec/cuda/twin/state.hpp"
#include "exec/host/convert.hpp"

namespace exec::cuda {
namespace {

using Values = std::vector<double>;

// One head of one sample: its rows lie `row` elements apart.
struct Head {
  std::byte* first;
  core::DType type;
  std::int64_t rows, columns, row;
  host::View at(std::int64_t r) const { return host::View{first, type}.at(r * row); }
  Values read() const {
    Values v(static_cast<std::size_t>(rows * columns));
    for (std::int64_t r = 0; r < rows; ++r) host::load(at(r), columns, &v[index(r, 0)]);
    return v;
  }
  void write(const Values& v) const {
    for (std::int64_t r = 0; r < rows; ++r) host::store(at(r), columns, &v[index(r, 0)]);
  }
  std::size_t index(std::int64_t r, std::int64_t c) const {
    return static_cast<std::size_t>(r * columns + c);
  }
};

// The heads of one sample, found by their number.
class Heads {
 public:
  Heads(const AttentionPart& p, const AttentionPlaces& at, std::int64_t sample)
      : p_(p), at_(at), sample_(sample) {}
  Head query(std::byte* first, std::int64_t head) const {
    return head_of(first, head, p_.row, p_.head_dim);
  }
  Head value(std::byte* first, std::int64_t head) const {
    return head_of(first, head, p_.row, p_.value_dim);
  }
  Head out(std::byte* first, std::int64_t head) const {
    return head_of(first, head, p_.out_row, p_.value_dim);
  }
  Head lse(std::int64_t head) const {
    const std::int64_t at = (sample_ * p_.heads + head) * p_.seq;
    return {at_.lse + at * 4, core::DType::f32, p_.seq, 1, 1};
  }

 private:
  Head head_of(std::byte* first, std::int64_t head, std::int64_t row, std::int64_t d) const {
    const std::int64_t at = sample_ * p_.seq * row + head * d;
    return {first + at * (core::bits(p_.type) / 8), p_.type, p_.seq, d, row};
  }
  const AttentionPart& p_;
  const AttentionPlaces& at_;
  std::int64_t sample_;
};

double product(const Values& a, std::int64_t i, const Values& b, std::int64_t j, std::int64_t d) {
  double sum = 0;
  for (std::int64_t c = 0; c < d; ++c)
    sum += a[static_cast<std::size_t>(i * d + c)] * b[static_cast<std::size_t>(j * d + c)];
  return sum;
}
void add(Values& to, std::int64_t i, double by, const Values& of, std::int64_t j, std::int64_t d) {
  for (std::int64_t c = 0; c < d; ++c)
    to[static_cast<std::size_t>(i * d + c)] += by * of[static_cast<std::size_t>(j * d + c)];
}

// Keys that query i sees: [first_of, last_of).
std::int64_t first_of(const AttentionPart& p, std::int64_t i) {
  return p.window > 0 ? std::max<std::int64_t>(0, i + 1 - p.window) : 0;
}
std::int64_t last_of(const AttentionPart& p, std::int64_t i) { return p.causal ? i + 1 : p.seq; }

void forward_head(const AttentionPart& p, const AttentionPlaces& at, const Heads& heads,
                  std::int64_t head) {
  const std::int64_t key = head / (p.heads / p.kv_heads), d = p.head_dim, wide = p.value_dim;
  const Values q = heads.query(at.q, head).read(), k = heads.query(at.k, key).read(),
               v = heads.value(at.v, key).read();
  Values out(static_cast<std::size_t>(p.seq * wide), 0.0), lse(static_cast<std::size_t>(p.seq));
  for (std::int64_t i = 0; i < p.seq; ++i) {
    Values score;
    const std::int64_t first = first_of(p, i), last = last_of(p, i);
    for (std::int64_t j = first; j < last; ++j)
      score.push_back(p.scale * product(q, i, k, j, d));
    const double most = *std::ranges::max_element(score);
    double sum = 0;
    for (const double s : score) sum += std::exp(s - most);
    const double all = lse[static_cast<std::size_t>(i)] = most + std::log(sum);
    for (std::int64_t j = first; j < last; ++j)
      add(out, i, std::exp(score[static_cast<std::size_t>(j - first)] - all), v, j, wide);
  }
  heads.out(at.out, head).write(out);
  heads.lse(head).write(lse);
}

// Adds to the gradients of the key head.
void backward_head(const AttentionPart& p, const AttentionPlaces& at, const Heads& heads,
                   std::int64_t head, Values& dk, Values& dv) {
  const std::int64_t key = head / (p.heads / p.kv_heads), d = p.head_dim, wide = p.value_dim;
  const Values q = heads.query(at.q, head).read(), k = heads.query(at.k, key).read(),
               v = heads.value(at.v, key).read(), out = heads.out(at.out, head).read(),
               dout = heads.out(at.dout, head).read(), lse = heads.lse(head).read();
  Values dq(q.size(), 0.0);
  for (std::int64_t i = 0; i < p.seq; ++i) {
    const double delta = product(dout, i, out, i, wide);
    for (std::int64_t j = first_of(p, i); j < last_of(p, i); ++j) {
      const double w =
          std::exp(p.scale * product(q, i, k, j, d) - lse[static_cast<std::size_t>(i)]);
      const double ds = p.scale * w * (product(dout, i, v, j, wide) - delta);
      add(dv, j, w, dout, i, wide);
      add(dq, i, ds, k, j, d);
      add(dk, j, ds, q, i, d);
    }
  }
  heads.query(at.dq, head).write(dq);
}

void compute(const AttentionPart& p, const AttentionPlaces& at) {
  const std::int64_t group = p.heads / p.kv_heads;
  for (std::int64_t sample = 0; sample < p.samples; ++sample) {
    const Heads heads(p, at, sample);
    for (std::int64_t key = 0; key < p.kv_heads; ++key) {
      Values dk(static_cast<std::size_t>(p.seq * p.head_dim), 0.0);
      Values dv(static_cast<std::size_t>(p.seq * p.value_dim), 0.0);
      for (std::int64_t head = key * group; head < (key + 1) * group; ++head)
        p.backward ? backward_head(p, at, heads, head, dk, dv) : forward_head(p, at, heads, head);
      if (!p.backward) continue;
      heads.query(at.dk, key).write(dk);
      heads.value(at.dv, key).write(dv);
    }
  }
}

class TwinAttention final : public AttentionLibrary {
 public:
  using Called = std::function<void(const char*)>;
  using Give =
      std::function<void(StreamHandle, const AttentionPart&, std::function<void()>)>;
  TwinAttention(Called called, Give give) : called_(std::move(called)), give_(std::move(give)) {}

  std::string name() const override { return "the twin's library"; }
  Prepared prepare(const AttentionPart& p) override {
    try {
      called_("prepare_attention");
    } catch (const DeviceFailure& failure) {
      return {0, failure.what()};
    }
    if (core::bits(p.type) != 16 || p.head_dim % 8 != 0 || p.value_dim % 8 != 0)
      return {0, name() + " has heads of a multiple of 8 in 16-bit types"};
    return {workspace(p), {}};
  }
  void run(const AttentionPart& p, const AttentionPlaces& at, void* memory,
           StreamHandle stream) override {
    called_("attention");
    give_(stream, p, [p, at, memory] {
      std::memset(memory, 0xFF, workspace(p));
      compute(p, at);
    });
  }

 private:
  static std::size_t workspace(const AttentionPart& p) {
    return p.backward ? static_cast<std::size_t>(p.samples * p.heads * p.seq * p.seq * 2) : 0;
  }
  Called called_;
  Give give_;
};

}  // namespace

OpenedAttention Twin::open_attention() {
  const auto called = [this](const char* name) {
    const std::scoped_lock lock(state_->mutex);
    state_->called(name);
  };
  const auto give = [this](StreamHandle stream, const AttentionPart& part,
                           std::function<void()> work) {
    const std::scoped_lock lock(state_->mutex);
    state_->count("library_attention");
    state_->give(stream, {state_->metered(std::move(work), metered_of(part))});
  };
  try {
    called("open_attention");
  } catch (const DeviceFailure& failure) {
    return {nullptr, failure.what()};
  }
  return {std::make_unique<TwinAttention>(called, give), {}};
}

}  // namespace exec::cuda
