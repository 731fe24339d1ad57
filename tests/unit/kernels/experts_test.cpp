#include "exec/host/experts.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;

namespace {

struct Places {
  explicit Places(std::int64_t n) : ids(static_cast<std::size_t>(n), -1) {}
  operator View() { return {ids.data(), DType::i32}; }  // NOLINT
  std::vector<std::int32_t> ids;
};

// Gates and places of these logits.
struct Routed {
  Routed(Buffer& logits, const RoutingShape& s)
      : gates(logits.view().type, s.rows() * s.chosen), places(s.rows() * s.chosen) {
    Scratch ws(top_k_workspace(s));
    top_k(gates, places, logits, s, ws);
  }
  Buffer gates;
  Places places;
};

}  // namespace

TEST_CASE("tokens take their best experts until a window's are full, by hand") {
  // 3 experts, 1 choice: windows of 3 tokens, one for each expert, and 2 of a last window for
  // experts 1 and 2. All want expert 1; the first of each window has it.
  const RoutingShape s{1, 5, 3, 1};
  Buffer logits(f64, Values{0, 5, 1, 2, 9, 0, 0, 7, 3, 0, 2, 1, 0, 2, 1});
  Routed r(logits, s);
  // Expert 0 has copy 0, expert 1 copies 1 and 2, expert 2 copies 3 and 4.
  CHECK(r.places.ids == std::vector<std::int32_t>{1, 0, 3, 2, 4});
  CHECK(r.gates.values() == Values{1, 1, 1, 1, 1});
}

TEST_CASE("equal logits go to the lower expert, and the best comes first") {
  const RoutingShape s{1, 2, 4, 2};    // 4 copies, one for each expert
  Buffer logits(f64, Values{1, 1, 1, 3, 0, 0, 0, 0});
  Routed r(logits, s);
  CHECK(r.places.ids == std::vector<std::int32_t>{3, 0, 1, 2});
  CHECK(r.gates.at(0) == Approx(1 / (1 + std::exp(-2.0))));
  CHECK(r.gates.at(2) == 0.5);
}

TEST_CASE("routing is balanced in every sample, drops nothing and takes no expert twice") {
  Random random_of(GENERATE(1, 2));
  for (std::int64_t experts = 1; experts <= 7; ++experts)
    for (std::int64_t chosen = 1; chosen <= experts; ++chosen)
      for (std::int64_t tokens = 1; tokens <= 9; ++tokens) {
        const RoutingShape s{2, tokens, experts, chosen};
        Buffer logits = random(random_of, f64, s.rows() * experts);
        Routed r(logits, s);
        CAPTURE(experts, chosen, tokens);
        std::vector<std::int32_t> all = r.places.ids;
        std::ranges::sort(all);
        std::vector<std::int32_t> each(all.size());
        std::iota(each.begin(), each.end(), 0);
        CHECK(all == each);            // every place once
        for (std::int64_t row = 0; row < s.rows(); ++row) {
          std::set<std::int64_t> experts_of;
          double sum = 0;
          for (std::int64_t i = 0; i < chosen; ++i) {
            const std::int64_t place = r.places.ids[static_cast<std::size_t>(row * chosen + i)];
            std::int64_t e = 0;
            while (s.samples * s.first(e + 1) <= place) ++e;
            experts_of.insert(e);
            const std::int64_t quota = s.first(e + 1) - s.first(e);
            CHECK((place - s.samples * s.first(e)) / quota == row / tokens);  // sample by sample
            sum += r.gates.at(row * chosen + i);
          }
          CHECK(static_cast<std::int64_t>(experts_of.size()) == chosen);
          CHECK(sum == Approx(1.0));
        }
      }
}

TEST_CASE("whole windows of a sample are routed apart as they are together") {
  Random r(GENERATE(4, 5));
  for (const auto& [experts, chosen, window] : {std::tuple{4, 2, 2}, {8, 2, 4}, {6, 4, 3}}) {
    const RoutingShape all{1, 5 * window, experts, chosen}, rest{1, 3 * window, experts, chosen};
    Buffer logits = random(r, f64, all.rows() * experts);
    Values own = logits.values();
    own.erase(own.begin(), own.begin() + 2 * window * experts);
    Buffer last(f64, own);
    Routed together(logits, all), apart(last, rest);
    const auto expert_of = [&](const Routed& routed, const RoutingShape& s, std::int64_t at) {
      std::int64_t e = 0;
      while (s.first(e + 1) <= routed.places.ids[static_cast<std::size_t>(at)]) ++e;
      return e;
    };
    for (std::int64_t i = 0; i < rest.rows() * chosen; ++i)
      CHECK(expert_of(apart, rest, i) == expert_of(together, all, 2 * window * chosen + i));
  }
}

TEST_CASE("a sample's routing depends on neither the other samples nor the tokens after") {
  Random r(3);
  const RoutingShape both{2, 6, 4, 2}, one{1, 6, 4, 2};
  Buffer logits = random(r, f64, both.rows() * 4);
  Routed together(logits, both);
  for (std::int64_t sample : {0, 1}) {
    Values own = logits.values();
    own.erase(own.begin(), own.begin() + sample * 24);
    own.resize(24);
    Buffer alone(f64, own);
    Routed apart(alone, one);
    for (std::int64_t i = 0; i < 12; ++i) {
      const std::int64_t place = apart.places.ids[static_cast<std::size_t>(i)];
      const std::int64_t e = place / 3;  // three copies for each expert
      CHECK(together.places.ids[static_cast<std::size_t>(sample * 12 + i)] ==
            2 * 3 * e + sample * 3 + place % 3);
    }
  }
}

TEST_CASE("gradients of a mixture's gates, copies and products are those of central differences") {
  Random r(GENERATE(11, 12));
  const std::int64_t tokens = 4, n = 3, experts = 3, chosen = 2, samples = 2;
  const RoutingShape routing{samples, tokens, experts, chosen};
  const CopyShape copying{samples * tokens, n, chosen};
  const ExpertShape product{samples, tokens * chosen, n, n, experts, 1};
  // Far enough apart that no step of the differences changes a choice.
  Buffer logits = random(r, f64, routing.rows() * experts, 3.0);
  Buffer x = random(r, f64, copying.rows * n), w = random(r, f64, experts * n * n);
  Buffer dy = random(r, f64, copying.rows * n);
  Scratch ws(expert_linear_workspace(f64, product));
  const std::int64_t all = copying.rows * chosen * n;
  const auto loss = [&] {
    Routed to(logits, routing);
    Buffer copies(f64, all), made(f64, all), y(f64, copying.rows * n);
    dispatch(copies, x, to.places, copying);
    expert_linear(made, copies, w, {}, product, ws);
    combine(y, made, to.gates, to.places, copying);
    return dot(y, dy);
  };
  Routed to(logits, routing);
  Buffer copies(f64, all), made(f64, all), d_made(f64, all), d_copies(f64, all);
  dispatch(copies, x, to.places, copying);
  expert_linear(made, copies, w, {}, product, ws);
  Buffer d_gates(f64, copying.rows * chosen), d_logits(f64, logits.size());
  combine_gradient(d_made, d_gates, dy, made, to.gates, to.places, copying);
  top_k_gradient(d_logits, d_gates, to.gates, to.places, {}, routing);
  check_gradient(logits, d_logits, loss);
  expert_linear_input_gradient(d_copies, d_made, w, product, false, ws);
  Buffer dx(f64, x.size());
  dispatch_gradient(dx, d_copies, to.places, copying, false);
  check_gradient(x, dx, loss);
  Buffer before = random(r, f64, x.size()), sum = before;
  dispatch_gradient(sum, d_copies, to.places, copying, true);
  Buffer added = minus(sum, before);
  check_gradient(x, added, loss);
  Buffer dw = zeros(f64, w.size());
  expert_linear_weight_gradient(dw, d_made, copies, product, ws);
  check_gradient(w, dw, loss);
}

TEST_CASE("rows of several origins give the bits that each origin gives alone") {
  Random r(21);
  const ExpertShape both{1, 8, 5, 3, 2, 2}, one{1, 4, 5, 3, 2, 1};
  Buffer x = random(r, f32, 8 * 3), w = random(r, f32, 2 * 5 * 3), y(f32, 8 * 5),
         dw = zeros(f32, 30);
  Scratch ws(expert_linear_workspace(f32, both));
  expert_linear(y, x, w, {}, both, ws);
  expert_linear_weight_gradient(dw, y, x, both, ws);
  Buffer apart(f32, 8 * 5), sum = zeros(f32, 30);
  for (const std::int64_t origin : {0, 1}) {
    const View own = apart.view().at(origin * 20), from = x.view().at(origin * 12);
    expert_linear(own, from, w, {}, one, ws);
    expert_linear_weight_gradient(sum, own, from, one, ws);
  }
  CHECK(apart == y);
  CHECK(sum == dw);
}
