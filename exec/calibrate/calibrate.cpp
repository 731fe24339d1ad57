#include "exec/calibrate/calibrate.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "exec/calibrate/measured_points.hpp"
#include "exec/run/environment.hpp"
#include "hw_profiles/load.hpp"
#include "sim/cost/kernel.hpp"

namespace exec {
namespace {

// y = a + b x by least squares of relative errors; b is not negative.
struct Line { double a, b; };

Line fit_line(const std::vector<double>& x, const std::vector<double>& y) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double weight = 1 / (y[i] * y[i]);
    w += weight;
    wx += weight * x[i];
    wy += weight * y[i];
    wxx += weight * x[i] * x[i];
    wxy += weight * x[i] * y[i];
  }
  const double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  const double b = std::max(0.0, slope);
  return {std::max((wy - b * wx) / w, 1e-3 * wy / w), b};
}

double flops_of(const ProductRow& r) {
  return 2.0 * static_cast<double>(r.m) * static_cast<double>(r.n) * static_cast<double>(r.k);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Median of how much faster f32 is.
double slowdown(const std::vector<ProductRow>& rows, const std::vector<ProductRow>& f32) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < rows.size(); ++i) ratios.push_back(rows[i].seconds / f32[i].seconds);
  return median(ratios);
}

class Calibrator {
 public:
  Calibrator(const Measured& measured, hw_profiles::Profile profile, const std::string& where)
      : measured_(measured), profile_(std::move(profile)), where_(where) {}

  Calibration run() {
    set("node.gpus_per_node", fmt::format("{}", measured_.ranks), "ranks at work while measuring");
    products();
    memory();
    attention();
    ratios();
    overhead();
    links();
    return {profile_, {}, product_error_};
  }

 private:
  void set(const char* field, const std::string& text, const std::string& how) {
    const core::Status done =
        hw_profiles::set(profile_, field, text, fmt::format("{}; {}", where_, how));
    PLANNER_CHECK(done.ok(), core::to_text(done.ok() ? core::Problems{} : done.problems()));
  }
  static std::string flops(double per_second) {
    return fmt::format("{:.4g} GFLOP/s", per_second / 1e9);
  }
  cost::Machine machine() const { return cost::make_machine(profile_, {}); }

  // time P / FLOPs = (1 + K0 / K) / e, P the best rate seen.
  void products() {
    const Products& all = measured_.products;
    double best = 0;
    for (const ProductRow& r : all.f32) best = std::max(best, flops_of(r) / r.seconds);
    std::vector<double> x, y;
    for (const ProductRow& r : all.f32) {
      x.push_back(1.0 / static_cast<double>(r.k));
      y.push_back(r.seconds * best / flops_of(r));
    }
    const Line line = fit_line(x, y);
    const double efficiency = std::clamp(1 / line.a, 0.01, 1.0);
    const std::string how = fmt::format("{} products of linear layers", all.f32.size());
    set("gpu.peak_f32", flops(best), "best of " + how);
    set("gpu.peak_16bit", flops(best / slowdown(all.bf16, all.f32)), "bf16 against f32, " + how);
    set("gpu.peak_f64", flops(best / slowdown(all.f64, all.f32)), "f64 against f32, " + how);
    set("gpu.gemm_efficiency", fmt::format("{:.4f}", efficiency), "least squares over " + how);
    set("gpu.gemm_prologue_k", fmt::format("{:.0f}", std::max(1.0, line.b / line.a)),
        "least squares over " + how);
    const cost::Machine made = machine();
    for (const ProductRow& r : all.f32)
      product_error_ += std::abs(cost::gemm_time({r.m, r.n, r.k}, core::DType::f32, made).value() /
                                     r.seconds - 1) / static_cast<double>(all.f32.size());
  }

  void memory() {
    const TrafficRow& update = measured_.update;
    set("gpu.memory_bandwidth",
        fmt::format("{:.4g} GB/s",
                    static_cast<double>(update.bytes.value()) / update.seconds / 1e9),
        "AdamW in f32, read plus written");
    set("gpu.memory_efficiency", "1.0", "the bandwidth is itself measured");
  }

  void attention() {
    set("gpu.attention_flash2", "1", "for comparison");
    const cost::Machine whole = machine();
    double perfect = 0, measured = 0;
    for (const AttentionRow& r : measured_.attention) {
      perfect += cost::attention_time({.flops = r.square, .seq_len = r.seq,
                                       .head_dim = r.head_dim},
                                      core::DType::f32, r.bytes, whole)
                     .value() / r.seconds;
      measured += 1;
    }
    set("gpu.attention_flash2", fmt::format("{:.4f}", std::clamp(perfect / measured, 0.001, 1.0)),
        "forward and backward at 256, 512 and 1024 tokens");
  }

  // Time of the class's passes as a ratio of their bytes' time.
  void ratios() {
    const cost::Machine made = machine();
    double measured[5] = {}, moved[5] = {};
    for (const TrafficRow& r : measured_.traffic) {
      measured[static_cast<int>(r.kind)] += r.seconds;
      moved[static_cast<int>(r.kind)] += cost::memory_time(r.bytes, made).value();
    }
    const std::pair<const char*, TrafficRow::Kind> fields[] = {
        {"framework.traffic_elementwise", TrafficRow::Kind::elementwise},
        {"framework.traffic_norm", TrafficRow::Kind::norm},
        {"framework.traffic_loss", TrafficRow::Kind::loss},
        {"framework.traffic_rotary", TrafficRow::Kind::rotary},
        {"framework.traffic_gated", TrafficRow::Kind::gated}};
    for (const auto& [field, kind] : fields)
      set(field,
          fmt::format("{:.4g}", measured[static_cast<int>(kind)] / moved[static_cast<int>(kind)]),
          "time of the host's kernels over that of their bytes, f32");
  }

  void overhead() {
    const std::string text = fmt::format("{:.3g} us", measured_.action * 1e6);
    for (const char* field : {"native.kernel_submit", "native.graph_launch", "gpu.kernel_launch"})
      set(field, text, "a step of a model of width 8, by action");
  }

  // time = 2 (p - 1) (latency + bytes / p / bandwidth), ring.
  void links() {
    const std::vector<LinkRow>& rows = measured_.links;
    if (rows.empty()) return;
    const double hops = 2.0 * (measured_.ranks - 1);
    std::vector<double> x, y;
    for (const LinkRow& r : rows) {
      x.push_back(static_cast<double>(r.payload.value()) / measured_.ranks);
      y.push_back(r.seconds / hops);
    }
    Line line = fit_line(x, y);
    // On a busy machine a small message can take as long as a large one: the large one says what
    // the link carries at least.
    if (line.b <= 0) line.b = y.back() / x.back();
    const std::string how = fmt::format("ring all-reduce of 4 KiB to 16 MiB between {} ranks",
                                        measured_.ranks);
    set("node.link_latency", fmt::format("{:.4g} us", line.a * 1e6), how);
    set("node.link_bandwidth", fmt::format("{:.4g} GB/s", 1e-9 / line.b), how);
    const HoldRow& hold = *measured_.hold;
    if (hold.beside > hold.alone)
      set("node.hold_bandwidth",
          fmt::format("{:.4g} GB/s", static_cast<double>(hold.sent.value()) /
                                         (hold.beside - hold.alone) / 1e9),
          fmt::format("linear layers {:.3g} ms, beside all-reduces {:.3g} ms", hold.alone * 1e3,
                      hold.beside * 1e3));
  }

  const Measured& measured_;
  hw_profiles::Profile profile_;
  const std::string& where_;
  double product_error_ = 0;
};

}  // namespace

Calibration fit_profile(const Measured& measured, hw_profiles::Profile profile,
                        const std::string& where) {
  return Calibrator(measured, std::move(profile), where).run();
}

core::Result<Calibration> calibrate_host(BookOptions options) {
  auto book = PointBook::open(std::move(options));
  if (!book.ok()) return book.problems();
  auto profile = hw_profiles::find_profile("host");
  if (!profile.ok()) return profile.problems();
  Measured m;
  m.ranks = book->ranks();
  m.products = product_points(*book);
  m.update = update_point(*book);
  m.attention = attention_points(*book);
  m.traffic = traffic_points(*book);
  m.action = action_point(*book);
  m.links = link_points(*book);
  if (m.ranks > 1) m.hold = hold_point(*book, m.links);
  const std::string where = "planner calibrate on " + device_text(m.ranks);
  Calibration made = fit_profile(m, std::move(*profile), where);
  made.points = book->points();
  return made;
}

std::string to_text(const Calibration& c) {
  std::string text =
      fmt::format("{:<44} {:>10} {:>8} {:>8}\n", "point", "median", "spread", "repeats");
  for (const auto& [name, p] : c.points)
    text += fmt::format("{:<44} {:>10} {:>6.1f} % {:>8}\n", name,
                        core::to_text(core::Seconds(p.median)), 100 * p.spread(), p.repeats);
  text += '\n';
  for (const hw_profiles::Sourced& s : c.profile.sources)
    if (s.source.starts_with("planner calibrate"))
      text += fmt::format("{:<32} {}\n", s.field, s.text);
  text += fmt::format("\nproducts of linear layers are predicted to {:.1f} % (mean)\n",
                      100 * c.product_error);
  return text;
}

}  // namespace exec
