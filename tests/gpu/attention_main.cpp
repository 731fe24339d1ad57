// Attention with and without tensor cores and by cuDNN on a GPU, in turn: a row of JSON for each
// shape of GPT-2 and two longer heads, forward and backward, on standard output. cuDNN's is called
// as a run calls it, with as much workspace as it likes, and so again where results need not repeat
// bit by bit. Where it is absent or does not have the shape, the row says why. Exit 77 where no GPU
// answers, with the reason. usage: gpu_attention [PAIRS]

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "core/random.hpp"
#include "exec/cuda/backend/attention_choice.hpp"
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/runtime/cuda_api.hpp"
#include "exec/host/convert.hpp"

namespace {

namespace cuda = exec::cuda;
namespace host = exec::host;
using core::DType;

struct Cell {
  const char* name;
  std::int64_t samples, seq, heads, kv_heads, d;
};
constexpr Cell kCells[] = {
    {"gpt2-124m", 32, 1024, 12, 12, 64},  {"gpt2-1.5b", 8, 1024, 25, 25, 64},
    {"heads of 80", 8, 2048, 16, 16, 80}, {"heads of 128, grouped", 4, 4096, 32, 8, 128},
};
constexpr int kCalls = 5;              // of the quick ones between two events; the plain one: once
enum Kernel { kTensorCores, kPlain, kCudnn, kCudnnWide, kCudnnFree, kKernels };
constexpr std::array<const char*, kKernels> kNames{"tensor_cores", "plain", "cudnn", "cudnn_wide",
                                                   "cudnn_free"};
constexpr std::size_t kOfRun = std::size_t{256} << 20, kWide = std::size_t{4} << 30;

struct Choices {
  cuda::AttentionChoice run, wide, free;
  explicit Choices(cuda::Api& api)
      : run(cuda::AttentionKernel::automatic, api), wide(cuda::AttentionKernel::automatic, api),
        free(cuda::AttentionKernel::automatic, api, false) {}
  cuda::AttentionChoice& of(Kernel k) { return k == kCudnn ? run : k == kCudnnWide ? wide : free; }
};

class Bench {
 public:
  Bench(cuda::Api& api, Choices& cudnn, const Cell& c)
      : api_(api), cudnn_(cudnn), pool_(api.create_pool()), stream_(api.create_stream(false)),
        begin_(api.create_event(true)), end_(api.create_event(true)),
        shape_{c.samples, c.seq, c.heads, c.kv_heads, c.d, true} {
    const std::int64_t rows = c.samples * c.seq, out = rows * c.heads * c.d;
    statistics_ = c.samples * c.heads * c.seq;
    qkv_ = random(rows * shape_.qkv_columns());
    dqkv_ = random(rows * shape_.qkv_columns());
    dout_ = random(out);
    out_ = random(out);
    lse_ = {api.allocate(pool_, static_cast<std::size_t>(statistics_) * 4), DType::f32};
    // As a run has it (hw_profiles/frameworks/native.json, workspace_of).
    workspace_bytes_ = std::max(kOfRun, static_cast<std::size_t>(statistics_) * 8);
    workspace_ = static_cast<std::byte*>(api.allocate(pool_, kWide));
  }
  ~Bench() {
    api_.destroy(begin_);
    api_.destroy(end_);
    api_.destroy(stream_);
    api_.destroy(pool_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Seconds; below 0: cuDNN was not called.
  double forward(Kernel kernel) {
    return timed(kernel, [&](const cuda::Queue& q) {
      if (kernel >= kCudnn) return cudnn_.of(kernel).forward(q, out_, lse_, qkv_, shape_);
      const auto own = kernel == kPlain ? cuda::plain_attention : cuda::attention;
      own(q, out_, lse_, qkv_, shape_, {});
      return true;
    });
  }
  double backward(Kernel kernel) {
    return timed(kernel, [&](const cuda::Queue& q) {
      if (kernel >= kCudnn)
        return cudnn_.of(kernel).backward(q, dqkv_, dout_, qkv_, out_, lse_, shape_);
      (kernel == kPlain ? cuda::plain_attention_input_gradient : cuda::attention_input_gradient)(
          q, dqkv_, dout_, qkv_, out_, lse_, shape_);
      return true;
    });
  }
  // Of the scores that a causal row sees, two products forward, five backward.
  double flops(int products) const {
    const auto square = static_cast<double>(shape_.seq) * static_cast<double>(shape_.seq + 1) / 2;
    return 2.0 * products * square *
           static_cast<double>(shape_.samples * shape_.heads * shape_.head_dim);
  }

 private:
  // Normal numbers, repeated: zeros would run faster.
  host::View random(std::int64_t n) {
    constexpr std::int64_t kPattern = 1 << 20;
    std::vector<double> values(static_cast<std::size_t>(std::min(n, kPattern)));
    core::Random(1, 0).fill_normal(0, 0.0, 1.0, values);
    const std::size_t whole = values.size() * 2;
    auto* const pinned = static_cast<std::byte*>(api_.allocate_pinned(whole));
    host::store(host::View{pinned, DType::bf16}, static_cast<std::int64_t>(values.size()),
                values.data());
    const std::size_t bytes = static_cast<std::size_t>(n) * 2;
    auto* const data = static_cast<std::byte*>(api_.allocate(pool_, bytes));
    for (std::size_t at = 0; at < bytes; at += whole)
      api_.copy_in(data + at, pinned, std::min(whole, bytes - at), stream_);
    api_.synchronise(stream_);
    api_.release_pinned(pinned);
    return {data, DType::bf16};
  }
  double timed(Kernel kernel, const std::function<bool(const cuda::Queue&)>& call) {
    const cuda::Queue q{api_, stream_, api_.device().multiprocessors, workspace_,
                        kernel > kCudnn ? kWide : workspace_bytes_};
    const int calls = kernel == kPlain ? 1 : kCalls;
    bool called = true;
    api_.record(begin_, stream_);
    for (int i = 0; i < calls; ++i) called = call(q) && called;
    api_.record(end_, stream_);
    api_.synchronise(stream_);
    return called ? api_.seconds_between(begin_, end_) / calls : -1;
  }

  cuda::Api& api_;
  Choices& cudnn_;
  cuda::PoolHandle pool_;
  cuda::StreamHandle stream_;
  cuda::EventHandle begin_, end_;
  host::AttentionShape shape_;
  std::int64_t statistics_ = 0;
  host::View qkv_, dqkv_, dout_, out_, lse_;
  std::byte* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
};

using Times = std::array<std::vector<double>, kKernels>;

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}
std::string list(const std::vector<double>& v) {
  std::string text;
  for (const double x : v) {
    char word[32];
    std::snprintf(word, sizeof word, "%s%.4g", text.empty() ? "" : ", ", x);
    text += word;
  }
  return text;
}

void print_row(const Cell& c, const char* pass, double flops, const Times& t, Choices& cudnn) {
  std::printf("{\"name\": \"%s %s\", \"samples\": %lld, \"seq\": %lld, \"heads\": %lld, "
              "\"kv_heads\": %lld, \"head_dim\": %lld, \"type\": \"bf16\"",
              c.name, pass, static_cast<long long>(c.samples), static_cast<long long>(c.seq),
              static_cast<long long>(c.heads), static_cast<long long>(c.kv_heads),
              static_cast<long long>(c.d));
  for (int k = 0; k < kKernels; ++k) {
    const char* const name = kNames[static_cast<std::size_t>(k)];
    if (t[k].empty() || t[k].front() < 0) {
      std::string text = cudnn.of(static_cast<Kernel>(k)).text();
      std::ranges::replace(text, '"', '\'');
      std::printf(", \"%s\": \"%s\"", name, text.c_str());
      continue;
    }
    std::printf(", \"%s_seconds\": [%s], \"%s_tflops\": %.4g", name, list(t[k]).c_str(), name,
                flops / median(t[k]) / 1e12);
  }
  std::printf("}\n");
}

void measure(cuda::Api& api, Choices& cudnn, const Cell& c, int pairs) {
  Bench bench(api, cudnn, c);
  Times times[2];
  for (int i = -1; i < pairs; ++i)     // the first of each warms up
    for (int k = 0; k < kKernels; ++k) {
      const auto kernel = static_cast<Kernel>(k);
      const double seconds[2] = {bench.forward(kernel), bench.backward(kernel)};
      for (std::size_t pass = 0; pass < 2 && i >= 0; ++pass)
        times[pass][kernel].push_back(seconds[pass]);
    }
  print_row(c, "forward", bench.flops(2), times[0], cudnn);
  print_row(c, "backward", bench.flops(5), times[1], cudnn);
}

}  // namespace

int main(int count, char** arguments) try {
  const int pairs = count > 1 ? std::max(1, std::atoi(arguments[1])) : 5;
  const std::unique_ptr<cuda::Api> api = cuda::open_cuda();
  Choices cudnn(*api);
  for (const Cell& c : kCells) measure(*api, cudnn, c, pairs);
  return 0;
} catch (const cuda::DeviceFailure& failure) {
  std::printf("skipped: %s\n", failure.what());
  return 77;
}
