#include "exec/host/optimizers.hpp"

#include "exec/host/quantise.hpp"
#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;
using exec::default_hyper;
using exec::Hyper;
using planner::OptimizerKind;

namespace {

constexpr OptimizerKind kUnquantised[] = {OptimizerKind::sgd,      OptimizerKind::momentum,
                                          OptimizerKind::adagrad,  OptimizerKind::rmsprop,
                                          OptimizerKind::adadelta, OptimizerKind::adam,
                                          OptimizerKind::adamw,    OptimizerKind::amsgrad};

std::vector<Buffer> zero_slots(OptimizerKind kind, std::int64_t n, DType m, DType v) {
  const planner::Optimizer& o = planner::optimizer(kind);
  std::vector<Buffer> slots;
  for (int i = 0; i < o.first_moments; ++i) slots.push_back(zeros(m, n));
  for (int i = 0; i < o.second_moments; ++i) slots.push_back(zeros(v, n));
  return slots;
}

std::vector<View> views(std::vector<Buffer>& slots) {
  std::vector<View> out;
  for (Buffer& b : slots) out.push_back(b.view());
  return out;
}

// The papers' formulas for one scalar, kept apart from the kernel's: own state, own order.
struct Scalar {
  OptimizerKind kind;
  Hyper h;
  double w, m = 0, v = 0, extra = 0;

  void step(double g, int t, bool decays) {
    const bool decoupled = kind == OptimizerKind::adamw;
    const double wd = decays ? h.weight_decay : 0;
    const double w0 = decoupled ? w * (1 - h.learning_rate * wd) : w;
    if (!decoupled) g += wd * w;
    w = w0 - h.learning_rate * direction(g, t);
  }

  double direction(double g, int t) {
    const double g2 = std::pow(g, 2);
    switch (kind) {
      case OptimizerKind::sgd: return g;
      case OptimizerKind::momentum: return m = h.beta1 * m + g;
      case OptimizerKind::adagrad: v += g2; return g / (std::sqrt(v) + h.epsilon);
      case OptimizerKind::rmsprop:
        v += (1 - h.beta2) * (g2 - v);
        return g / (std::sqrt(v) + h.epsilon);
      case OptimizerKind::adadelta: {
        v += (1 - h.beta2) * (g2 - v);
        const double d = g * std::sqrt((extra + h.epsilon) / (v + h.epsilon));
        extra += (1 - h.beta2) * (d * d - extra);
        return d;
      }
      default: break;
    }
    m += (1 - h.beta1) * (g - m);
    v += (1 - h.beta2) * (g2 - v);
    extra = std::max(extra, v);
    const double second = kind == OptimizerKind::amsgrad ? extra : v;
    return m / (1 - std::pow(h.beta1, t)) /
           (std::sqrt(second / (1 - std::pow(h.beta2, t))) + h.epsilon);
  }
};

double first_step(OptimizerKind kind, const Hyper& h, double w, double g, bool decays = false) {
  Buffer weight(f64, Values{w}), gradient(f64, Values{g});
  std::vector<Buffer> slots = zero_slots(kind, 1, f64, f64);
  update(kind, h, 1, {.weight = weight, .gradient = gradient, .n = 1, .decays = decays},
         views(slots));
  return weight.at(0);
}

}  // namespace

TEST_CASE("gradients are scaled down to a limit of their norm, and never up") {
  CHECK(clip_scale(4.0, 3.0) == 1.0);  // a norm of 2
  CHECK(clip_scale(0.0, 3.0) == 1.0);
  CHECK(clip_scale(16.0, 1.0) == 1.0 / (4.0 + 1e-6));  // torch.nn.utils.clip_grad_norm_
  for (const DType t : {f32, DType::f64}) {
    Buffer weight(t, Values{1.0, 2.0}), gradient(t, Values{-6.0, 8.0});
    const double squares = sum_of_squares(gradient, 2);
    CHECK(squares == 100.0);
    const Hyper h{.learning_rate = 1.0};
    update(OptimizerKind::sgd, h, 1,
           {.weight = weight, .gradient = gradient, .n = 2, .squares = &squares, .clip = 5.0}, {});
    CHECK(weight.at(0) == Approx(4.0).epsilon(1e-6));    // 1 + 6/2
    CHECK(weight.at(1) == Approx(-2.0).epsilon(1e-6));   // 2 - 8/2
    CHECK(gradient.at(0) == -6.0);     // as it was
  }
}

TEST_CASE("first steps from w = 1 with g = 2, by hand") {
  Hyper h{.learning_rate = 0.5, .beta1 = 0.9, .beta2 = 0.75, .epsilon = 0, .weight_decay = 0.25};
  CHECK(first_step(OptimizerKind::sgd, h, 1, 2) == 0.0);            // 1 - 0.5 x 2
  CHECK(first_step(OptimizerKind::sgd, h, 1, 2, true) == -0.125);   // g + 0.25 = 2.25
  CHECK(first_step(OptimizerKind::momentum, h, 1, 2) == 0.0);       // m = 2
  CHECK(first_step(OptimizerKind::adagrad, h, 1, 2) == 0.5);        // 2 / sqrt(4) = 1
  CHECK(first_step(OptimizerKind::rmsprop, h, 1, 2) == 0.0);        // s = 0.25 x 4 = 1, 2 / 1
  CHECK(first_step(OptimizerKind::adam, h, 1, 2) == Approx(0.5));   // g / |g| after corrections
  CHECK(first_step(OptimizerKind::amsgrad, h, 1, 2) == Approx(0.5));
  CHECK(first_step(OptimizerKind::adamw, h, 1, 2, true) == Approx(0.375));  // 1 x (1 - 0.125) - 0.5
  CHECK(first_step(OptimizerKind::adamw, h, 1, 2, false) == Approx(0.5));
  h.epsilon = 1;  // E[g^2] = 1: sqrt(0 + 1) / sqrt(1 + 1) x 2 = sqrt 2
  CHECK(first_step(OptimizerKind::adadelta, h, 1, 2) == Approx(1 - 0.5 * std::sqrt(2.0)));
}

TEST_CASE("the defaults are those of the papers") {
  const Hyper adam = default_hyper(OptimizerKind::adam);  // Kingma and Ba, algorithm 1
  CHECK(adam.learning_rate == 0.001);
  CHECK(adam.beta1 == 0.9);
  CHECK(adam.beta2 == 0.999);
  CHECK(adam.epsilon == 1e-8);
  CHECK(default_hyper(OptimizerKind::rmsprop).beta2 == 0.9);
  CHECK(default_hyper(OptimizerKind::adadelta).beta2 == 0.95);
}

TEST_CASE("twenty steps of every optimizer follow the scalar formulas") {
  const OptimizerKind kind = GENERATE(from_range(std::begin(kUnquantised), std::end(kUnquantised)));
  const DType type = GENERATE(DType::f64, DType::f32);
  const bool decays = GENERATE(true, false);
  CAPTURE(planner::optimizer(kind).name, core::name(type), decays);
  Random r(81);
  const std::int64_t n = 37;
  Hyper h = default_hyper(kind);
  h.weight_decay = 0.1;
  Buffer weight = random(r, type, n);
  std::vector<Buffer> slots = zero_slots(kind, n, type, type);
  std::vector<Scalar> reference;
  for (const double w : weight.values()) reference.push_back({kind, h, w});
  for (int t = 1; t <= 20; ++t) {
    Buffer gradient = random(r, type, n);
    const Values g = gradient.values();
    update(kind, h, t, {.weight = weight, .gradient = gradient, .n = n, .decays = decays},
           views(slots));
    for (std::size_t i = 0; i < reference.size(); ++i) reference[i].step(g[i], t, decays);
  }
  // About ten roundings a step of terms below 1, and gradients that pass zero: 20 x 50 u.
  for (std::size_t i = 0; i < reference.size(); ++i) {
    CHECK(std::abs(weight.at(static_cast<std::int64_t>(i)) - reference[i].w) <
          1000 * roundoff(type));
  }
}

TEST_CASE("with a master copy the master moves and the weight is its rounding") {
  Random r(82);
  const std::int64_t n = 600;
  Buffer master = random(r, f32, n), weight(DType::bf16, n), plain = master,
         gradient = random(r, DType::bf16, n);
  std::vector<Buffer> a = zero_slots(OptimizerKind::adamw, n, f32, f32), b = a;
  const Hyper h = default_hyper(OptimizerKind::adamw);
  update(OptimizerKind::adamw, h, 1,
         {.weight = weight, .master = master, .gradient = gradient, .n = n, .decays = true},
         views(a));
  update(OptimizerKind::adamw, h, 1,
         {.weight = plain, .gradient = gradient, .n = n, .decays = true}, views(b));
  CHECK(master == plain);
  CHECK(weight == as(DType::bf16, master));
}

TEST_CASE("updating shards gives the bits of updating the whole") {
  const OptimizerKind kind =
      GENERATE(OptimizerKind::adamw, OptimizerKind::amsgrad, OptimizerKind::adadelta);
  const DType moment = GENERATE(DType::f32, DType::bf16);
  Random r(83);
  const std::int64_t n = 1300;
  Buffer whole = random(r, f32, n), parts = whole, gradient = random(r, f32, n);
  std::vector<Buffer> a = zero_slots(kind, n, moment, f32), b = a;
  const Hyper h = default_hyper(kind);
  for (int t = 1; t <= 3; ++t) {
    update(kind, h, t, {.weight = whole, .gradient = gradient, .n = n, .decays = true}, views(a));
    std::int64_t first = 0;
    for (const std::int64_t size : {1, 7, 505, 700, 87}) {
      std::vector<View> slots = views(b);
      for (View& s : slots) s = s.at(first);
      update(kind, h, t, {.weight = parts.view().at(first), .gradient = gradient.view().at(first),
                          .n = size, .decays = true}, slots);
      first += size;
    }
  }
  CHECK(whole == parts);
  CHECK(a == b);
}

TEST_CASE("the 8-bit maps have 256 distinct ascending values, the signed one its negatives") {
  for (const CodeMap* map : {&signed_map(), &unsigned_map()}) {
    for (std::size_t i = 1; i < map->size(); ++i) CHECK((*map)[i] > (*map)[i - 1]);
    CHECK(map->back() == 1.0F);
  }
  CHECK(unsigned_map()[0] == 0.0F);
  CHECK(unsigned_map()[1] == Approx(3.25e-7));  // 1e-6 x (0.1 + 0.9 / 4)
  CHECK(signed_map()[127] == 0.0F);
  CHECK(signed_map()[128] == Approx(5.5e-7));   // 1e-6 x (0.1 + 0.9 / 2)
  CHECK(signed_map()[0] == -signed_map()[254]);
}

TEST_CASE("quantising picks the nearest value of the map, and codes survive a round trip") {
  Random r(84);
  const CodeMap& map = GENERATE(true, false) ? signed_map() : unsigned_map();
  float x[kQuantBlock];
  for (float& v : x)
    v = static_cast<float>(std::pow(10.0, 3 * r() - 3)) * (map[0] < 0 && r() < 0 ? -2.0F : 2.0F);
  x[7] = 4.0F;  // the greatest is positive: 1 is in both maps, -1 in neither
  std::uint8_t codes[kQuantBlock], again[kQuantBlock];
  const float scale = quantise(map, x, kQuantBlock, codes);
  for (std::int64_t i = 0; i < kQuantBlock; ++i) {
    double nearest = 1e9;
    for (const float m : map)
      nearest = std::min(nearest, std::abs(double(m) - double(x[i] / scale)));
    CHECK(std::abs(double(map[codes[i]]) - double(x[i] / scale)) == Approx(nearest).margin(1e-12));
  }
  float back[kQuantBlock];
  dequantise(map, codes, scale, kQuantBlock, back);
  CHECK(quantise(map, back, kQuantBlock, again) == scale);
  CHECK(std::equal(std::begin(codes), std::end(codes), std::begin(again)));
}

TEST_CASE("adam in 8 bits follows adam within the map's spacing, tail block included") {
  Random r(85);
  const std::int64_t n = 2 * kQuantBlock + 19, blocks = 3;
  Buffer weight = random(r, f32, n), exact = weight, untouched = weight;
  std::vector<Buffer> moments = zero_slots(OptimizerKind::adam, n, f32, f32);
  std::vector<std::uint8_t> codes[2] = {std::vector<std::uint8_t>(n + 1),
                                        std::vector<std::uint8_t>(n + 1)};
  Buffer m_scale = zeros(f32, blocks), v_scale = zeros(f32, blocks);
  codes[0].back() = codes[1].back() = 99;  // beyond the tail
  const View slots[] = {
      {codes[0].data(), DType::u8}, {codes[1].data(), DType::u8}, m_scale, v_scale};
  Hyper h = default_hyper(OptimizerKind::adam8bit);
  h.learning_rate = 0.01;
  Buffer gradient = random(r, f32, n);
  for (int t = 1; t <= 10; ++t) {
    update(OptimizerKind::adam8bit, h, t, {.weight = weight, .gradient = gradient, .n = n}, slots);
    if (t == 1) {
      update(OptimizerKind::adam, h, 1, {.weight = exact, .gradient = gradient, .n = n},
             views(moments));
      CHECK(weight == exact);  // the first step sees unquantised moments
      continue;
    }
    update(OptimizerKind::adam, h, t, {.weight = exact, .gradient = gradient, .n = n},
           views(moments));
  }
  CHECK(codes[0].back() == 99);
  CHECK(codes[1].back() == 99);
  // With a constant gradient every step is lr. Elements of at least a tenth of the block's maximum
  // have m within 0.9/64/2/0.1 = 7 % (one decade cut in 64) and v, down to a hundredth of its
  // maximum, within 0.9/64/2/0.1 = 7 % too: a step errs by at most 7 + 3.5 + second order < 12 %.
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::abs(gradient.at(i)) < 0.1) continue;
    CHECK(std::abs(weight.at(i) - exact.at(i)) < 0.12 * 9 * 0.01);
    CHECK(std::abs(weight.at(i) - untouched.at(i)) > 0.05);
  }
}
