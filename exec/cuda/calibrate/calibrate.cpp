#include "exec/cuda/calibrate/calibrate.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "exec/cuda/backend/attention_choice.hpp"
#include "exec/cuda/calibrate/bench.hpp"
#include "exec/cuda/kernels/kernels.hpp"
#include "hw_profiles/load.hpp"
#include "planner/evaluate/communicators.hpp"
#include "sim/cost/kernel.hpp"
#include "sim/cost/launches.hpp"

namespace exec::cuda {
namespace {

using core::DType;

// By what a device's name holds, or how it ends: "NVIDIA L40" is no L4. Cards that the kernels are
// built for: compute capabilities 8.0 to 10.0.
struct Shipped {
  std::string_view text;
  const char* profile;
  bool ends = false;
};
constexpr std::array<Shipped, 25> kShipped{{
    {"H200", "h200-sxm-141g"},
    {"H20", "h20-sxm-96g", true},
    {"H800", "h800-sxm-80g", true},
    {"H100 PCIe", "h100-pcie-80g"},
    {"H100", "h100-sxm-80g"},
    {"GB200", "gb200-186g"},
    {"B200", "b200-sxm-180g"},
    {"A100-PCIE-40", "a100-pcie-40g"},
    {"A100 80GB PCIe", "a100-pcie-80g"},
    {"A100-SXM4-40", "a100-sxm-40g"},
    {"A100-SXM4-80", "a100-sxm-80g"},
    {"A800-SXM4-80", "a800-sxm-80g"},
    {"A10G", "a10g"},
    {"NVIDIA A10", "a10", true},
    {"NVIDIA A40", "a40", true},
    {"L40S", "l40s"},
    {"NVIDIA L4", "l4", true},
    {"RTX 3060", "rtx3060-12g", true},
    {"RTX 3080", "rtx3080"},
    {"RTX 3090", "rtx3090", true},
    {"RTX 3090 Ti", "rtx3090ti"},
    {"RTX 4080", "rtx4080", true},
    {"RTX 4090", "rtx4090"},
    {"RTX A5000", "rtx-a5000"},
    {"RTX A6000", "rtx-a6000"},
}};

constexpr int kInGraph = 100;          // kernels: about as many as two layers launch

// Fields that say what products keep: of other frameworks, and of this executor.
constexpr std::array kProductFields{"gpu.gemm_efficiency", "gpu.gemm_sustained",
                                    "native.gemm_sustained"};
constexpr std::array kMemoryFields{"gpu.memory_efficiency", "native.memory_efficiency"};

class GpuCalibrator {
 public:
  GpuCalibrator(Api& api, PointBook& book, hw_profiles::Profile profile, bool small)
      : book_(book), bench_(api, small ? core::Bytes(0) : planner::workspace_bytes(profile)),
        attention_(AttentionKernel::automatic, api), profile_(std::move(profile)),
        where_("planner calibrate on " + api.device().name), small_(small) {}

  Calibration run() {
    products();
    memory();
    attention();
    launches();
    transfers();
    return {profile_, book_.points(), product_error_};
  }

 private:
  void set(const char* field, const std::string& text, const std::string& how) {
    const core::Status done =
        hw_profiles::set(profile_, field, text, fmt::format("{}; {}", where_, how));
    PLANNER_CHECK(done.ok(), core::to_text(done.ok() ? core::Problems{} : done.problems()));
  }
  // What the cost formulas make of it with this field at 1, over what was measured: its value.
  void set_efficiency(const char* field, const std::vector<double>& perfect,
                      const std::vector<double>& measured, const std::string& how) {
    double sum = 0;
    for (std::size_t i = 0; i < perfect.size(); ++i) sum += perfect[i] / measured[i];
    set(field,
        fmt::format("{:.4f}", std::clamp(sum / static_cast<double>(perfect.size()), 0.001, 1.0)),
        how);
  }
  std::vector<std::int64_t> sizes(std::initializer_list<std::int64_t> full) const {
    return small_ ? std::vector<std::int64_t>{16, 32} : std::vector<std::int64_t>(full);
  }

  void products() {
    std::vector<ProductRow> rows;
    for (const std::int64_t m : sizes({1024, 4096, 16384}))
      for (const std::int64_t hidden : sizes({768, 1600, 4096}))
        for (const auto& [n, k] : {std::pair{3 * hidden, hidden}, std::pair{hidden, 4 * hidden}})
          rows.push_back({m, n, k, product(m, n, k)});
    // Each point lasts half a second, so the card is at its power limit: this measures what steps
    // keep. Products that share a step with other kernels run at a higher clock. Their bound is
    // gpu.gemm_efficiency, which therefore stays as the profile states it, if that is more.
    const hw_profiles::Sourced* const shipped = profile_.lookup(kProductFields[0]);
    PLANNER_CHECK(shipped != nullptr, "a GPU's profile states its best product");
    const hw_profiles::Sourced best = *shipped;
    const double most = profile_.gpu.gemm_efficiency;
    for (const char* const field : kProductFields) set(field, "1", "for comparison");
    const cost::Machine whole = cost::make_machine(profile_, {});
    std::vector<double> perfect, measured;
    for (const ProductRow& r : rows) {
      perfect.push_back(cost::gemm_time({r.m, r.n, r.k}, DType::bf16, whole).value());
      measured.push_back(r.seconds);
    }
    for (const char* const field : kProductFields)
      set_efficiency(field, perfect, measured,
                     fmt::format("{} products in bf16, random data", rows.size()));
    if (profile_.gpu.gemm_efficiency < most) {
      const core::Status kept = hw_profiles::set(profile_, best.field, best.text, best.source);
      PLANNER_CHECK(kept.ok(), "what a profile said can be said again");
    }
    const cost::Machine made = cost::make_machine(profile_, {});
    for (const ProductRow& r : rows)
      product_error_ += std::abs(cost::gemm_time({r.m, r.n, r.k}, DType::bf16, made).value() /
                                     r.seconds - 1) / static_cast<double>(rows.size());
  }
  double product(std::int64_t m, std::int64_t n, std::int64_t k) {
    return timed(
        book_, bench_, fmt::format("product {} x {} x {} bf16", m, n, k), [=, this]() -> Call {
          const View y = bench_.real(m * n), x = bench_.real(m * k), w = bench_.real(n * k);
          return [=](const Queue& q) { linear(q, y, x, w, {}, {m, n, k, n, k}, false); };
        });
  }

  void memory() {
    for (const char* const field : kMemoryFields) set(field, "1", "for comparison");
    const cost::Machine whole = cost::make_machine(profile_, {});
    std::vector<double> perfect, measured;
    const auto add = [&](std::int64_t bytes, double seconds) {
      perfect.push_back(cost::memory_time(core::Bytes(bytes), whole).value());
      measured.push_back(seconds);
    };
    for (const std::int64_t mib : sizes({64, 256, 1024})) {
      const std::int64_t n = small_ ? mib << 4 : mib << 19;   // elements of bf16
      add(4 * n, timed(book_, bench_, fmt::format("copy of {} elements", n), [=, this]() -> Call {
        const View to = bench_.real(n), from = bench_.real(n);
        return [=](const Queue& q) {
          q.api.copy({.to = static_cast<std::byte*>(to.data),
                      .from = static_cast<const std::byte*>(from.data),
                      .width = static_cast<std::size_t>(2 * n)},
                     q.stream);
        };
      }));
      add(4 * n, timed(book_, bench_, fmt::format("gelu of {} elements", n), [=, this]() -> Call {
        const View y = bench_.real(n), x = bench_.real(n);
        return [=](const Queue& q) { gelu(q, y, x, n, models::Activation::gelu_tanh); };
      }));
      add(6 * n, timed(book_, bench_, fmt::format("sum of {} elements", n), [=, this]() -> Call {
        const View y = bench_.real(n), a = bench_.real(n), b = bench_.real(n);
        return [=](const Queue& q) { cuda::add(q, y, a, b, n); };
      }));
    }
    for (const char* const field : kMemoryFields)
      set_efficiency(field, perfect, measured,
                     fmt::format("{} copies, activations and sums", perfect.size()));
  }

  // Of the kernels that runs take by default: the library's where it is installed.
  void attention() {
    for (const char* const field : {"gpu.attention_flash2", "native.attention_forward",
                                    "native.attention_backward"})
      set(field, "1", "for comparison");
    for (const char* const field : {"native.narrow_forward", "native.narrow_backward"})
      set(field, fmt::format("{}", cost::Machine{}.narrow_forward), "for comparison");
    const cost::Machine whole = cost::make_machine(profile_, {});
    std::vector<double> perfect, measured;
    Rates forward, backward;
    for (const std::int64_t d : sizes({64, 128}))
      for (const std::int64_t seq : sizes({512, 1024, 2048})) {
        const std::int64_t heads = small_ ? 1 : 12, samples = small_ ? 1 : 8192 / seq;
        const host::AttentionShape s{samples, seq, heads, heads, d, true};
        const std::int64_t out = samples * seq * heads * d;
        // The full square, as the operator graph states it: two products of 2 seq^2 d a head, and
        // backward five (models/operators_transformer.cpp).
        const double square = 4.0 * static_cast<double>(out) * static_cast<double>(seq);
        const std::int64_t blocks = blocks_of_call(s);
        const auto of = [&](double products, std::int64_t tensors) {
          return cost::attention_time({.flops = core::Flops(products / 2 * square), .seq_len = seq,
                                       .head_dim = d, .forward = products == 2, .blocks = blocks},
                                      DType::bf16, core::Bytes(2 * tensors * out), whole).value();
        };
        const double seconds[] = {attention_pass(s, out, false), attention_pass(s, out, true)};
        perfect.push_back(of(2, 4) + of(5, 8));
        measured.push_back(seconds[0] + seconds[1]);
        const bool narrow = d < 128;
        forward.add(narrow, of(2, 4) / seconds[0]);
        backward.add(narrow, of(5, 8) / seconds[1]);
      }
    set_efficiency("gpu.attention_flash2", perfect, measured,
                   fmt::format("{} shapes in bf16, forward and backward: {}", perfect.size(),
                               attention_.name()));
    set_attention("native.attention_forward", "native.narrow_forward", forward);
    set_attention("native.attention_backward", "native.narrow_backward", backward);
  }
  // Blocks of keys of one call of the library's backward pass; own kernels take all at once.
  std::int64_t blocks_of_call(const host::AttentionShape& s) const {
    if (!attention_.absent().empty()) return 0;
    models::Operator op;
    op.kind = models::OpKind::attention;
    op.rows = op.keys = s.seq;
    op.heads = s.heads, op.kv_heads = s.kv_heads, op.head_dim = s.head_dim;
    const auto most = static_cast<std::int64_t>(bench_.queue().workspace_bytes);
    return cost::backward_calls(op, s.samples, core::Bytes(most)).blocks;
  }
  // Of what a machine of efficiency 1 would take, over what was measured, by width of the heads.
  struct Rates {
    double sum[2] = {};
    int count[2] = {};
    void add(bool narrow, double rate) { sum[narrow] += rate, ++count[narrow]; }
    double mean(bool narrow) const { return count[narrow] > 0 ? sum[narrow] / count[narrow] : 0; }
  };
  void set_attention(const char* rate, const char* narrow, const Rates& found) {
    const std::string how = fmt::format("{} and {} shapes in bf16, heads of 128 and narrower: {}",
                                        found.count[0], found.count[1], attention_.name());
    const double wide = found.count[0] > 0 ? found.mean(false) : found.mean(true);
    const double kept = std::clamp(wide, 0.001, 1.0);
    set(rate, fmt::format("{:.4f}", kept), how);
    set(narrow, fmt::format("{:.4f}", cost::Machine{}.narrow_forward * found.mean(true) / kept),
        how);
  }
  double attention_pass(const host::AttentionShape& s, std::int64_t out, bool backward) {
    const std::string name = fmt::format("attention of {} tokens, heads of {}, {}", s.seq,
                                         s.head_dim, backward ? "backward" : "forward");
    return timed(book_, bench_, name, [=, this]() -> Call {
      const View y = bench_.real(out), qkv = bench_.real(3 * out);
      const View lse = bench_.real(s.samples * s.heads * s.seq, DType::f32);
      const auto forward = [=, this](const Queue& q) {
        if (!attention_.forward(q, y, lse, qkv, s)) cuda::attention(q, y, lse, qkv, s);
      };
      if (!backward) return forward;
      forward(bench_.queue());         // so that y and lse are those of qkv
      const View dy = bench_.real(out), dqkv = bench_.real(3 * out);
      return [=, this](const Queue& q) {
        if (!attention_.backward(q, dqkv, dy, qkv, y, lse, s))
          attention_input_gradient(q, dqkv, dy, qkv, y, lse, s);
      };
    });
  }

  // Kernels of next to no work, one behind the other: what submitting one takes.
  void launches() {
    const double seconds = timed(book_, bench_, "launch of a kernel", [this]() -> Call {
      const View y = bench_.real(8), x = bench_.real(8);
      return [=](const Queue& q) { relu(q, y, x, 8); };
    });
    const std::string text = fmt::format("{:.4g} us", seconds * 1e6);
    set("native.kernel_submit", text, "sums of 8 elements, one behind the other");
    timed(book_, bench_, fmt::format("graph of {} such kernels", kInGraph), [this]() -> Call {
      const View y = bench_.real(8), x = bench_.real(8);
      const GraphHandle graph = bench_.kept([&](const Queue& q) {
        for (int i = 0; i < kInGraph; ++i) relu(q, y, x, 8);
      });
      return [=](const Queue& q) { q.api.launch(graph, q.stream); };
    });
  }

  void transfers() {
    const std::size_t bytes = small_ ? 1024 : Bench::kPinned;
    timed(book_, bench_, fmt::format("transfer of {} bytes to the device", bytes),
          [=, this]() -> Call {
            const View to = bench_.real(static_cast<std::int64_t>(bytes / 2));
            return [=, this](const Queue& q) {
              q.api.copy_in(to.data, bench_.pinned(), bytes, q.stream);
            };
          });
  }

  PointBook& book_;
  Bench bench_;
  AttentionChoice attention_;
  hw_profiles::Profile profile_;
  std::string where_;
  bool small_;
  double product_error_ = 0;
};

}  // namespace

core::Result<hw_profiles::Profile> shipped_profile(const std::string& device) {
  for (const Shipped& s : kShipped)
    if (s.ends ? device.ends_with(s.text) : device.find(s.text) != std::string::npos)
      return hw_profiles::find_profile(s.profile);
  return core::Problem{"--backend cuda", fmt::format("a GPU with a shipped profile ({})",
                                                     fmt::join(hw_profiles::profile_names(), ", ")),
                       device, "write a profile for it first: see hw_profiles/README.md"};
}

core::Result<Calibration> calibrate_gpu(Api& api, BookOptions options, bool small) {
  const std::string device = api.device().name;
  auto profile = small ? hw_profiles::find_profile("h200-sxm-141g") : shipped_profile(device);
  if (!profile.ok()) return profile.problems();
  options.ranks = 1;
  auto book = PointBook::open(std::move(options));
  if (!book.ok()) return book.problems();
  return GpuCalibrator(api, *book, std::move(*profile), small).run();
}

}  // namespace exec::cuda
