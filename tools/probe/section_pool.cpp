// Section pool: how an explicit cudaMemPool rounds, reserves, reuses and trims, by scripts of
// allocations whose used and reserved bytes are read after every step; and what the calls cost.

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "tools/probe/cuda.hpp"
#include "tools/probe/statistics.hpp"
#include "tools/probe/worker.hpp"

namespace probe {
namespace {

constexpr std::size_t kKiB = std::size_t{1} << 10;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kGiB = std::size_t{1} << 30;

class Pool {
 public:
  explicit Pool(int device) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    PROBE_TRY(cudaMemPoolCreate(&pool_, &properties));
    set(cudaMemPoolAttrReleaseThreshold, std::numeric_limits<std::uint64_t>::max());
  }
  ~Pool() {
    cudaStreamSynchronize(stream_);  // errors ignored: destructors do not throw
    cudaMemPoolDestroy(pool_);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void* take(std::size_t bytes) {
    void* data = nullptr;
    PROBE_TRY(cudaMallocFromPoolAsync(&data, bytes, pool_, stream_));
    return data;
  }
  void give(void* data) { PROBE_TRY(cudaFreeAsync(data, stream_)); }
  void wait() const { stream_.wait(); }
  void trim() { PROBE_TRY(cudaMemPoolTrimTo(pool_, 0)); }
  void set(cudaMemPoolAttr what, std::uint64_t value) {
    PROBE_TRY(cudaMemPoolSetAttribute(pool_, what, &value));
  }
  std::uint64_t get(cudaMemPoolAttr what) const {
    std::uint64_t value = 0;
    PROBE_TRY(cudaMemPoolGetAttribute(pool_, what, &value));
    return value;
  }
  Json state(const std::string& after) const {
    stream_.wait();
    Json json = Json::object();
    json["after"] = after;
    json["used"] = get(cudaMemPoolAttrUsedMemCurrent);
    json["reserved"] = get(cudaMemPoolAttrReservedMemCurrent);
    json["used_high"] = get(cudaMemPoolAttrUsedMemHigh);
    json["reserved_high"] = get(cudaMemPoolAttrReservedMemHigh);
    return json;
  }

 private:
  cudaMemPool_t pool_ = nullptr;
  Stream stream_;
};

// One allocation in a new pool: how a request becomes used and reserved bytes.
Json rounding(int device) {
  constexpr std::array<std::size_t, 17> kRequests{
      1,        256,          257,     512,      513,      4 * kKiB,
      64 * kKiB, kMiB,        2 * kMiB, 2 * kMiB + 1, 3 * kMiB, 16 * kMiB,
      32 * kMiB, 33 * kMiB,   63 * kMiB, 100 * kMiB, kGiB};
  Json list = Json::array();
  for (const std::size_t request : kRequests) {
    Pool pool(device);
    void* data = pool.take(request);
    Json point = Json::object();
    pool.wait();
    point["request"] = request;
    point["used"] = pool.get(cudaMemPoolAttrUsedMemCurrent);
    point["reserved"] = pool.get(cudaMemPoolAttrReservedMemCurrent);
    list.push(std::move(point));
    pool.give(data);
  }
  return list;
}

Json many_small(int device) {
  Pool pool(device);
  std::vector<void*> all;
  for (int i = 0; i < 1000; ++i) all.push_back(pool.take(1000));
  Json json = pool.state("1000 allocations of 1000 bytes");
  for (void* data : all) pool.give(data);
  return json;
}

// Every second of 64 blocks is freed, then blocks of twice the size are asked for: a pool that can
// remap pages needs no new memory, one that cannot grows by all of them.
Json fragmentation(int device) {
  Pool pool(device);
  Json list = Json::array();
  std::vector<void*> blocks, doubles;
  for (int i = 0; i < 64; ++i) blocks.push_back(pool.take(32 * kMiB));
  list.push(pool.state("64 blocks of 32 MiB"));
  for (std::size_t i = 0; i < blocks.size(); i += 2) pool.give(blocks[i]);
  list.push(pool.state("every second freed"));
  for (int i = 0; i < 16; ++i) doubles.push_back(pool.take(64 * kMiB));
  list.push(pool.state("16 blocks of 64 MiB"));
  for (std::size_t i = 1; i < blocks.size(); i += 2) pool.give(blocks[i]);
  for (void* data : doubles) pool.give(data);
  list.push(pool.state("all freed"));
  pool.set(cudaMemPoolAttrUsedMemHigh, 0);
  pool.set(cudaMemPoolAttrReservedMemHigh, 0);
  list.push(pool.state("high-water marks set to 0"));
  void* data = pool.take(2000 * kMiB);
  list.push(pool.state("one block of 2000 MiB"));
  pool.give(data);
  pool.wait();
  pool.trim();
  list.push(pool.state("freed, trimmed to 0"));
  return list;
}

// Sizes of a small training step, alternating and out of order, three times: a pool in a steady
// state reserves no more in later rounds.
Json rounds(int device) {
  constexpr std::array<std::size_t, 8> kSizes{5 * kMiB,  77 * kMiB,      kMiB / 2, 130 * kMiB,
                                              41 * kMiB, 12 * kKiB, 9 * kMiB, 3 * kMiB};
  Pool pool(device);
  Json list = Json::array();
  for (int round = 1; round <= 3; ++round) {
    std::vector<void*> kept;
    for (int layer = 0; layer < 8; ++layer) {
      void* temporary = pool.take(kSizes[static_cast<std::size_t>(7 - layer)]);
      for (const std::size_t size : kSizes) kept.push_back(pool.take(size));
      pool.give(temporary);
    }
    list.push(pool.state("round " + std::to_string(round) + " forward"));
    for (auto it = kept.rbegin(); it != kept.rend(); ++it) pool.give(*it);
  }
  return list;
}

Json host_cost(const RepeatRule& rule, int batch, const std::function<void()>& call) {
  return to_json(measure(rule, [&] {
    const double start = now();
    for (int i = 0; i < batch; ++i) call();
    return (now() - start) / batch;
  }));
}

Json costs(int device) {
  Json json = Json::object();
  Pool pool(device);
  pool.give(pool.take(64 * kMiB));
  json["pool_take_and_give_64MiB_warm_seconds"] =
      host_cost({10, 50, 0.2}, 20, [&] { pool.give(pool.take(64 * kMiB)); });
  pool.wait();
  json["pool_grow_1GiB_seconds"] = to_json(measure({3, 5, 0.5}, [&] {
    pool.trim();
    const double start = now();
    void* data = pool.take(kGiB);
    pool.wait();
    const double spent = now() - start;
    pool.give(data);
    pool.wait();
    return spent;
  }));
  for (const std::size_t size : {kMiB, 64 * kMiB, kGiB}) {
    json["cudaMalloc_and_cudaFree_" + std::to_string(size / kMiB) + "MiB_seconds"] =
        host_cost({5, 20, 0.2}, 1, [&] {
          void* data = nullptr;
          PROBE_TRY(cudaMalloc(&data, size));
          PROBE_TRY(cudaFree(data));
        });
  }
  return json;
}

}  // namespace

void run_pool(Worker& worker) {
  const int device = worker.options().device;
  use_device(device);
  worker.part("rounding", [&] { return rounding(device); });
  worker.part("many_small", [&] { return many_small(device); });
  worker.part("fragmentation", [&] { return fragmentation(device); });
  worker.part("rounds", [&] { return rounds(device); });
  worker.part("costs", [&] { return costs(device); });
}

}  // namespace probe
