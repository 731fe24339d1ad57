// Section gemm: cuBLASLt throughput over the matrix products of GPT-2 and Llama layers and over
// squares, on normally distributed random data (zeros draw less power and clock higher), 32 MiB
// workspace, the heuristic's first algorithm. Points last well under a second, so a card may hold
// a higher clock than in training; section clock gives the sustained figure.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tools/probe/cuda.hpp"
#include "tools/probe/kernels.hpp"
#include "tools/probe/matmul.hpp"
#include "tools/probe/statistics.hpp"
#include "tools/probe/worker.hpp"

namespace probe {
namespace {

struct Point {
  Shape shape;
  Kind kind;
  Layout layout;
};

// Operands of one size for all points, filled once.
struct Operands {
  DeviceBuffer a, b, c, workspace{kWorkspaceBytes};
  explicit Operands(std::size_t bytes) : a(bytes), b(bytes), c(bytes) {}
};

Json describe(const Point& point) {
  Json json = Json::object();
  json["m"] = point.shape.m;
  json["n"] = point.shape.n;
  json["k"] = point.shape.k;
  json["type"] = name_of(point.kind);
  json["layout"] = name_of(point.layout);
  return json;
}

std::size_t largest_operand(const Point& p) {
  const auto m = static_cast<std::size_t>(p.shape.m), n = static_cast<std::size_t>(p.shape.n);
  const auto k = static_cast<std::size_t>(p.shape.k);
  return std::max({m * k * operand_bytes(p.kind), k * n * operand_bytes(p.kind),
                   m * n * result_bytes(p.kind)});
}

// A sample holds enough products for about a millisecond.
Json measure_point(const RepeatRule& rule, cublasLtHandle_t handle, const Point& point,
                   const Operands& with, const Stream& stream) {
  Json json = describe(point);
  if (largest_operand(point) > with.a.size()) {
    json["skipped"] = "an operand needs " + std::to_string(largest_operand(point)) +
                      " bytes, this card has room for " + std::to_string(with.a.size());
    return json;
  }
  const Matmul matmul(handle, point.shape, point.kind, point.layout);
  const auto run = [&] {
    matmul.run(with.a.get(), with.b.get(), with.c.get(), with.workspace.get(), stream);
  };
  for (int i = 0; i < 2; ++i) run();
  const double once = device_seconds(stream, 2, run);
  const int batch = std::clamp(static_cast<int>(1e-3 / once), 1, 100);
  const Summary seconds = measure(rule, [&] { return device_seconds(stream, batch, run); });
  json["batch"] = batch;
  json["seconds"] = to_json(seconds);
  json["tflops"] = to_json(rate(seconds, point.shape.flops() / 1e12));
  json["algorithm"] = matmul.algorithm();
  return json;
}

RepeatRule short_rule(const Worker& worker) {
  return worker.options().quick ? RepeatRule{5, 20, 0.03} : RepeatRule{7, 50, 0.08};
}

std::vector<Point> squares(bool quick) {
  std::vector<Point> points;
  for (int side = 256; side <= 8192; side *= 2) {
    points.push_back({{side, side, side}, Kind::bf16, Layout::tn});
  }
  const std::vector<int> few = quick ? std::vector{4096} : std::vector{1024, 2048, 4096, 8192};
  for (const int side : few) {
    points.push_back({{side, side, side}, Kind::tf32, Layout::tn});
    points.push_back({{side, side, side}, Kind::f32, Layout::tn});
  }
  return points;
}

struct Layer {
  const char* model;
  int outputs, inputs;
};
// Weight shapes [outputs, inputs] of published configurations; `/8`: one of 8 tensor-parallel
// parts. Query, key and value are one product, as are gate and up.
constexpr std::array<Layer, 22> kLayers{{
    {"gpt2-124m", 2304, 768}, {"gpt2-124m", 768, 768}, {"gpt2-124m", 3072, 768},
    {"gpt2-124m", 768, 3072}, {"gpt2-124m", 50304, 768}, {"gpt2-1.5b", 4800, 1600},
    {"gpt2-1.5b", 1600, 1600}, {"gpt2-1.5b", 6400, 1600}, {"gpt2-1.5b", 1600, 6400},
    {"gpt2-1.5b", 50304, 1600}, {"llama-7b", 12288, 4096}, {"llama-7b", 4096, 4096},
    {"llama-7b", 22016, 4096}, {"llama-7b", 4096, 11008}, {"llama-7b", 32000, 4096},
    {"llama3-8b", 6144, 4096}, {"llama3-8b", 28672, 4096}, {"llama3-8b", 4096, 14336},
    {"llama3-8b", 128256, 4096}, {"llama3-70b/8", 1280, 8192}, {"llama3-70b/8", 7168, 8192},
    {"llama3-70b/8", 8192, 3584}}};

// The forward product of every layer by tokens; for 8192 tokens the two gradients too.
Json layers(const Worker& worker, cublasLtHandle_t handle, const Operands& operands,
            const Stream& stream, bool& truncated) {
  const std::vector<int> tokens =
      worker.options().quick ? std::vector{8192} : std::vector{8192, 2048, 512, 16384, 1};
  Json list = Json::array();
  for (const int m : tokens) {
    for (const Layer& layer : kLayers) {
      std::vector<Point> points{{{m, layer.outputs, layer.inputs}, Kind::bf16, Layout::tn}};
      if (m == 8192 && !worker.options().quick) {
        points.push_back({{m, layer.inputs, layer.outputs}, Kind::bf16, Layout::nn});
        points.push_back({{layer.outputs, layer.inputs, m}, Kind::bf16, Layout::nt});
        points.push_back({{layer.outputs, layer.inputs, m}, Kind::bf16_to_f32, Layout::nt});
      }
      for (const Point& point : points) {
        if ((truncated = truncated || worker.left() <= 0.0)) return list;
        Json json = measure_point(short_rule(worker), handle, point, operands, stream);
        json["model"] = layer.model;
        list.push(std::move(json));
      }
    }
  }
  return list;
}

std::uint16_t bf16_of(float value) {  // exact for the small integers used here
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
}

// A product of small integers, exact in bf16 and fp32, against a host loop: proves that the layouts
// mean what matmul.hpp says, so that a figure belongs to the product it names.
Json check_layout(cublasLtHandle_t handle, const Operands& with, const Stream& stream,
                  Layout layout) {
  constexpr int kM = 48, kN = 32, kK = 64;
  const auto a = [](int i, int k) { return static_cast<float>((3 * i + 5 * k) % 7 - 3); };
  const auto b = [](int k, int j) { return static_cast<float>((2 * k + 11 * j) % 5 - 2); };
  std::vector<std::uint16_t> host_a(kM * kK), host_b(kK * kN);
  for (int i = 0; i < kM; ++i)
    for (int k = 0; k < kK; ++k) {
      const int at = layout == Layout::nt ? k * kM + i : i * kK + k;
      host_a[static_cast<std::size_t>(at)] = bf16_of(a(i, k));
    }
  for (int k = 0; k < kK; ++k)
    for (int j = 0; j < kN; ++j) {
      const int at = layout == Layout::tn ? j * kK + k : k * kN + j;
      host_b[static_cast<std::size_t>(at)] = bf16_of(b(k, j));
    }
  PROBE_TRY(cudaMemcpy(with.a.get(), host_a.data(), 2 * host_a.size(), cudaMemcpyHostToDevice));
  PROBE_TRY(cudaMemcpy(with.b.get(), host_b.data(), 2 * host_b.size(), cudaMemcpyHostToDevice));
  const Matmul matmul(handle, {kM, kN, kK}, Kind::bf16_to_f32, layout);
  matmul.run(with.a.get(), with.b.get(), with.c.get(), with.workspace.get(), stream);
  stream.wait();
  std::vector<float> got(kM * kN);
  PROBE_TRY(cudaMemcpy(got.data(), with.c.get(), 4 * got.size(), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kM; ++i)
    for (int j = 0; j < kN; ++j) {
      float sum = 0.0F;
      for (int k = 0; k < kK; ++k) sum += a(i, k) * b(k, j);
      if (got[static_cast<std::size_t>(i * kN + j)] != sum) {
        throw DeviceError(std::string("layout ") + name_of(layout) + " is wrong at row " +
                          std::to_string(i) + ", column " + std::to_string(j));
      }
    }
  return "equal";
}

void fill_random(const Operands& with, Kind kind, const Stream& stream) {
  const std::size_t count = with.a.size() / operand_bytes(kind);
  if (operand_bytes(kind) == 2) {
    fill_normal_bf16(with.a.get(), count, 1, stream);
    fill_normal_bf16(with.b.get(), count, 2, stream);
  } else {
    fill_normal_f32(with.a.as<float>(), count, 1, stream);
    fill_normal_f32(with.b.as<float>(), count, 2, stream);
  }
  stream.wait();
}

Json square_points(const Worker& worker, cublasLtHandle_t handle, const Operands& operands,
                   const Stream& stream) {
  Json list = Json::array();
  std::size_t filled = 0;
  for (const Point& point : squares(worker.options().quick)) {
    if (operand_bytes(point.kind) != filled) fill_random(operands, point.kind, stream);
    filled = operand_bytes(point.kind);
    list.push(measure_point(short_rule(worker), handle, point, operands, stream));
  }
  return list;
}

Json zeros_and_random(const Worker& worker, cublasLtHandle_t handle, const Operands& operands,
                      const Stream& stream) {
  const Point point{{8192, 8192, 8192}, Kind::bf16, Layout::tn};
  // Long enough for the power limit to act, which is what the two differ by.
  const double seconds = worker.options().quick ? 0.7 : 3.0;
  const RepeatRule rule{20, 10000, seconds};
  Json json = Json::object();
  json["random"] = measure_point(rule, handle, point, operands, stream);
  PROBE_TRY(cudaMemset(operands.a.get(), 0, operands.a.size()));
  PROBE_TRY(cudaMemset(operands.b.get(), 0, operands.b.size()));
  PROBE_TRY(cudaDeviceSynchronize());
  json["zeros"] = measure_point(rule, handle, point, operands, stream);
  return json;
}

}  // namespace

void run_gemm(Worker& worker) {
  use_device(worker.options().device);
  const Stream stream;
  cublasLtHandle_t handle = nullptr;
  PROBE_TRY(cublasLtCreate(&handle));
  // The largest operand of the list is 16384 x 128256 results of 2 bytes; small cards get less.
  const std::size_t wanted = std::size_t{16384} * 128256 * 2;
  const Operands operands(std::min(wanted, memory_now().free / 5 / 4096 * 4096));
  worker.part("layouts_checked", [&] {
    Json json = Json::object();
    for (const Layout layout : {Layout::tn, Layout::nn, Layout::nt}) {
      json[name_of(layout)] = check_layout(handle, operands, stream, layout);
    }
    return json;
  });
  worker.part("squares", [&] { return square_points(worker, handle, operands, stream); });
  fill_random(operands, Kind::bf16, stream);
  worker.part("zeros_and_random_8192", [&] {
    return zeros_and_random(worker, handle, operands, stream);
  });
  fill_random(operands, Kind::bf16, stream);
  worker.part("layers", [&] {
    bool truncated = false;
    Json list = layers(worker, handle, operands, stream, truncated);
    if (truncated) worker.data()["truncated"] = true;
    return list;
  });
}

}  // namespace probe
