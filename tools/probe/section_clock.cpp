// Section clock: the SM clock that the card holds under a long matrix product, by NVML and, where
// NVML says nothing, by counting SM clocks against the global timer inside a kernel that runs
// beside the product.

#include <vector>

#include "tools/probe/cuda.hpp"
#include "tools/probe/kernels.hpp"
#include "tools/probe/matmul.hpp"
#include "exec/cuda/nvml/nvml.hpp"
#include "tools/probe/statistics.hpp"
#include "tools/probe/worker.hpp"

namespace probe {

using exec::cuda::Nvml;

namespace {

constexpr unsigned long long kSpinNanoseconds = 2'000'000;

// Megahertz that one spin of 2 ms saw. Waits for the spin's stream only.
double spin_megahertz(const Stream& stream, const DeviceBuffer& out) {
  unsigned long long counts[2] = {0, 0};
  spin(out.as<unsigned long long>(), kSpinNanoseconds, stream);
  PROBE_TRY(cudaMemcpyAsync(counts, out.get(), sizeof counts, cudaMemcpyDeviceToHost, stream));
  stream.wait();
  if (counts[1] == 0) throw DeviceError("the global timer did not advance");
  return 1e3 * static_cast<double>(counts[0]) / static_cast<double>(counts[1]);
}

struct Load {
  int side = 8192;
  cublasLtHandle_t handle = nullptr;
  DeviceBuffer a, b, c, workspace{kWorkspaceBytes};
  Stream stream, beside{Stream::Priority::highest};
  DeviceBuffer counts{16};

  explicit Load(int side_)
      : side(side_), a(bytes(side_)), b(bytes(side_)), c(bytes(side_)) {
    const auto count = static_cast<std::size_t>(side) * static_cast<std::size_t>(side);
    PROBE_TRY(cublasLtCreate(&handle));
    fill_normal_bf16(a.get(), count, 1, stream);
    fill_normal_bf16(b.get(), count, 2, stream);
    stream.wait();
  }
  ~Load() { cublasLtDestroy(handle); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  static std::size_t bytes(int side) {
    return 2 * static_cast<std::size_t>(side) * static_cast<std::size_t>(side);
  }
};

// What is collected while the product runs.
struct Series {
  Json samples = Json::array();
  std::vector<double> spin_mhz, nvml_mhz, watts, tflops;
};

void keep(std::vector<double>& list, const std::optional<double>& value, bool steady) {
  if (value && steady) list.push_back(*value);
}

void sample(Series& series, const Load& load, const Nvml& nvml, double at, bool steady) {
  const double mhz = spin_megahertz(load.beside, load.counts);
  const auto reported = nvml.clock_mhz(Nvml::Clock::sm);
  const auto watts = nvml.power_watts();
  Json json = Json::object();
  json["at_seconds"] = at;
  json["sm_mhz_counted"] = mhz;
  json["sm_mhz_nvml"] = or_null(reported);
  json["memory_mhz_nvml"] = or_null(nvml.clock_mhz(Nvml::Clock::memory));
  json["watts"] = or_null(watts);
  json["celsius"] = or_null(nvml.temperature_celsius());
  json["clock_reasons"] = or_null(nvml.clock_reasons());
  series.samples.push(std::move(json));
  keep(series.spin_mhz, mhz, steady);
  keep(series.nvml_mhz, reported ? std::optional<double>(*reported) : std::nullopt, steady);
  keep(series.watts, watts, steady);
}

// Chunks of products, always one queued behind the running one, so that the card never idles while
// the host samples. The first 2 s (ramp-up of clock, power and temperature) stay out of summaries.
Series run_load(const Load& load, const Nvml& nvml, double seconds, double warm_up) {
  const Matmul matmul(load.handle, {load.side, load.side, load.side}, Kind::bf16, Layout::tn);
  const auto run = [&] {
    matmul.run(load.a.get(), load.b.get(), load.c.get(), load.workspace.get(), load.stream);
  };
  run();
  const double once = device_seconds(load.stream, 2, run);
  const int chunk = std::max(1, static_cast<int>(0.1 / once));
  const double flops = 2.0 * load.side * load.side * load.side * chunk;

  Series series;
  const Event ticks[2];
  const double start = now();
  ticks[0].record(load.stream);
  for (int i = 0; i < chunk; ++i) run();
  for (int k = 1; now() - start < seconds; ++k) {
    const Event& previous = ticks[(k + 1) % 2];
    const Event& current = ticks[k % 2];
    current.record(load.stream);               // end of the running chunk
    for (int i = 0; i < chunk; ++i) run();     // the next one, queued
    const bool steady = now() - start >= warm_up;
    sample(series, load, nvml, now() - start, steady);
    const double spent = seconds_between(previous, current);
    if (steady) series.tflops.push_back(flops / spent / 1e12);
  }
  load.stream.wait();
  return series;
}

}  // namespace

void run_clock(Worker& worker) {
  const int device = worker.options().device;
  const Nvml nvml(pci_bus_id(device));
  use_device(device);
  if (!nvml.problem().empty()) worker.data()["nvml_problem"] = nvml.problem();
  int side = 8192;
  while (side > 1024 && 4 * Load::bytes(side) > memory_now().free) side /= 2;
  const Load load(side);
  worker.part("light_load_mhz_counted", [&] {
    return to_json(measure({5, 20, 0.3}, [&] { return spin_megahertz(load.beside, load.counts); }));
  });
  worker.part("sustained", [&] {
    const double seconds = worker.options().quick ? 5.0 : 12.0;
    const auto energy = nvml.energy_joules();
    const double start = now();
    const Series series = run_load(load, nvml, std::min(seconds, worker.left()), 2.0);
    const double spent = now() - start;
    const auto energy_after = nvml.energy_joules();
    Json json = Json::object();
    json["product"] = std::to_string(side) + "^3 bf16, normal random data";
    json["seconds"] = spent;
    json["warm_up_seconds"] = 2.0;
    json["sm_mhz_counted"] = to_json(summarize(series.spin_mhz));
    json["sm_mhz_nvml"] = to_json(summarize(series.nvml_mhz));
    json["watts"] = to_json(summarize(series.watts));
    json["tflops"] = to_json(summarize(series.tflops));
    json["energy_joules"] = energy && energy_after ? Json(*energy_after - *energy) : Json();
    json["samples"] = series.samples;
    return json;
  });
}

}  // namespace probe
