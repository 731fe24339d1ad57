// Mixtures of experts on an emulated grid against exec/host.
#include "exec/host/experts.hpp"

#include "tests/unit/cuda/support.hpp"

using namespace cuda_tests;
namespace host = exec::host;

namespace {

struct PlacesOf {
  explicit PlacesOf(std::int64_t n) : ids(static_cast<std::size_t>(n), -1) {}
  operator View() { return {ids.data(), DType::i32}; }  // NOLINT
  std::pmr::vector<std::int32_t> ids;
};

// The places of random logits.
PlacesOf routed(Random& r, const host::RoutingShape& s) {
  Buffer logits = random(r, DType::f64, s.rows() * s.experts);
  Buffer gates(DType::f64, s.rows() * s.chosen);
  PlacesOf places(s.rows() * s.chosen);
  Scratch ws(host::top_k_workspace(s));
  host::top_k(gates, places, logits, s, ws);
  return places;
}

struct RoutingCell { std::int64_t samples, tokens, experts, chosen; };
// Windows of one and of many tokens, a last one cut short, more experts than lanes of a warp.
constexpr RoutingCell kRoutingCells[] = {
    {2, 9, 4, 2}, {1, 7, 6, 4}, {3, 5, 8, 8}, {1, 40, 64, 6}, {2, 33, 5, 2}};

}  // namespace

TEST_CASE("tokens choose on the grid whom they choose on the host, with the same gates") {
  Random r(51);
  for (const DType t : kTypes)
    for (const RoutingCell& c : kRoutingCells)
      for (const models::Router& router :
           {models::Router{}, models::Router{.scale = 2.5}, models::Router{.normalised = false},
            models::Router{.sigmoid = true, .scale = 1.5},
            models::Router{.sigmoid = true, .normalised = false}}) {
        const host::RoutingShape s{c.samples, c.tokens, c.experts, c.chosen, router};
        const std::int64_t copies = s.rows() * s.chosen, all = s.rows() * s.experts;
        CAPTURE(core::name(t), c.tokens, c.experts, c.chosen, router.sigmoid, router.normalised);
        Device device;
        const cuda::Queue q = device.queue();
        Buffer logits = random(r, t, all, 2), gates(t, copies), gates2 = gates;
        Buffer dgates = random(r, t, copies), dlogits(t, all), dlogits2 = dlogits;
        PlacesOf places(copies), places2(copies);
        Scratch ws(host::top_k_workspace(s));
        cuda::top_k(q, gates, places, logits, s);
        device.wait();
        host::top_k(gates2, places2, logits, s, ws);
        CHECK(places.ids == places2.ids);
        check_close("gates", gates, gates2, t);
        cuda::top_k_gradient(q, dlogits, dgates, gates2, places, logits, s);
        device.wait();
        host::top_k_gradient(dlogits2, dgates, gates2, places, logits, s);
        check_close("d_logits", dlogits, dlogits2, t);
      }
}

TEST_CASE("equal logits, and logits that are no numbers, leave every copy a place of its own") {
  for (const double logit : {1.0, std::numeric_limits<double>::quiet_NaN()}) {
    const host::RoutingShape s{2, 21, 6, 4};
    Device device;
    Buffer logits(DType::f32, Values(static_cast<std::size_t>(s.rows() * s.experts), logit));
    Buffer gates(DType::f32, s.rows() * s.chosen);
    PlacesOf places(s.rows() * s.chosen);
    cuda::top_k(device.queue(), gates, places, logits, s);
    device.wait();
    std::ranges::sort(places.ids);
    for (std::size_t i = 0; i < places.ids.size(); ++i)
      REQUIRE(places.ids[i] == static_cast<std::int32_t>(i));
  }
}

TEST_CASE("rows on their way to experts and back are their host twins") {
  Random r(52);
  for (const DType t : kTypes)
    for (const std::int64_t n : {5, 48, 264})
      for (const bool weighs : {true, false}) {
        const host::RoutingShape routing{2, 9, 4, 2};
        const host::CopyShape s{routing.rows(), n, 2, weighs};
        const std::int64_t rows = s.rows * n, copies = 2 * rows;
        PlacesOf places = routed(r, routing);
        Device device;
        const cuda::Queue q = device.queue();
        Buffer x = random(r, t, rows), sent(t, copies), sent2 = sent;
        Buffer gates = random(r, t, 2 * s.rows), back = random(r, t, copies);
        Buffer y(t, rows), y2 = y, dy = random(r, t, rows);
        Buffer dback(t, copies), dback2 = dback, dgates(t, 2 * s.rows), dgates2 = dgates;
        cuda::dispatch(q, sent, x, places, s);
        cuda::combine(q, y, back, gates, places, s);
        cuda::combine_gradient(q, dback, dgates, dy, back, gates, places, s);
        device.wait();
        host::dispatch(sent2, x, places, s);
        host::combine(y2, back, gates, places, s);
        host::combine_gradient(dback2, dgates2, dy, back, gates, places, s);
        CHECK(sent == sent2);
        check_close("combine", y, y2, t);
        check_close("d_back", dback, dback2, t);
        check_close("d_gates", dgates, dgates2, t);
        for (const bool accumulate : {false, true}) {
          Buffer dx = random(r, t, rows), dx2 = dx;
          cuda::dispatch_gradient(q, dx, back, places, s, accumulate);
          device.wait();
          host::dispatch_gradient(dx2, back, places, s, accumulate);
          check_close("d_x", dx, dx2, t);
        }
      }
}

TEST_CASE("products of experts are their host twins, with as many rows of each or not") {
  Random r(53);
  // Rows of a sample, experts, ranks they come from; columns that have this rank's biases.
  struct Shape { std::int64_t rows, experts, origins, first, biased; };
  for (const DType t : kTypes)
    for (const Shape& of : {Shape{12, 4, 1, 0, 22}, Shape{12, 3, 2, 0, 22}, Shape{13, 4, 1, 8, 14},
                            Shape{6, 8, 1, 0, 11}, Shape{24, 2, 3, 16, 6}}) {
      const host::ExpertShape s{2,          of.rows,  22,        18, of.experts,
                                of.origins, of.first, of.biased, 22};
      const std::int64_t rows = 2 * of.rows;
      CAPTURE(core::name(t), of.rows, of.experts, of.origins);
      Device device;
      const cuda::Queue q = device.queue();
      Buffer x = random(r, t, rows * 18), w = random(r, t, of.experts * 22 * 18);
      Buffer b = random(r, t, of.experts * 22), dy = random(r, t, rows * 22);
      Buffer y(t, rows * 22), y2 = y;
      Scratch ws(host::expert_linear_workspace(t, s));
      for (const bool biased : {false, true}) {
        const View bias = biased ? View(b) : View{};
        cuda::expert_linear(q, y, x, w, bias, s);
        device.wait();
        host::expert_linear(y2, x, w, bias, s, ws);
        check_close("expert_linear", y, y2, t);
      }
      for (const bool accumulate : {false, true}) {
        Buffer dx = random(r, t, rows * 18), dx2 = dx;
        cuda::expert_linear_input_gradient(q, dx, dy, w, s, accumulate);
        device.wait();
        host::expert_linear_input_gradient(dx2, dy, w, s, accumulate, ws);
        check_close("d_x", dx, dx2, t);
      }
      for (const DType g : {t, statistic(t)}) {
        Buffer dw = random(r, g, w.size()), dw2 = dw, db = random(r, g, b.size());
        Buffer wide = as(statistic(t), db);
        cuda::expert_linear_weight_gradient(q, dw, db, dy, x, s);
        device.wait();
        host::expert_linear_weight_gradient(dw2, dy, x, s, ws);
        host::expert_bias_gradient(wide, dy, s);
        check_close("d_w", dw, dw2, g);
        check_close("d_b", db, wide, g);
      }
    }
}
