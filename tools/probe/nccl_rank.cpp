// One rank of section nccl, a process of its own. Alone it finds what a communicator costs in GPU
// memory by channel count; among others on the same GPU it checks all-reduces of known values by
// equality and counts the bytes that the loopback device carried.

#include "tools/probe/nccl_rank.hpp"

#include <array>
#include <cstring>
#include <fstream>
#include <thread>

#include "tools/probe/cuda.hpp"
#include "tools/probe/files.hpp"
#include "tools/probe/kernels.hpp"
#include "exec/cuda/nvml/nvml.hpp"
#include "tools/probe/statistics.hpp"
#include "tools/probe/worker.hpp"

namespace probe {

using exec::cuda::Nvml;

std::vector<std::string> to_arguments(const RankOptions& o) {
  return {"nccl-rank", o.folder, std::to_string(o.rank), std::to_string(o.ranks),
          std::to_string(o.device), o.quick ? "1" : "0"};
}

RankOptions rank_options(const std::vector<std::string>& arguments) {
  if (arguments.size() != 6) throw std::runtime_error("an nccl-rank takes 5 values");
  return {arguments[1], std::stoi(arguments[2]), std::stoi(arguments[3]), std::stoi(arguments[4]),
          arguments[5] == "1"};
}

std::string rank_file(const RankOptions& options, const char* extension) {
  return options.folder + "/rank" + std::to_string(options.rank) + extension;
}

#ifdef PROBE_WITH_NCCL
namespace {

constexpr std::size_t kLargest = std::size_t{64} << 20;

void save(const RankOptions& options, const Json& json) {
  write_whole(rank_file(options, ".json"), json.dump());
}

std::int64_t taken(const MemoryNow& before, const MemoryNow& after) {
  return static_cast<std::int64_t>(before.free) - static_cast<std::int64_t>(after.free);
}

// One rank: initialise, first all-reduce, destroy, with the free memory read between.
Json alone_with(int channels, const DeviceBuffer& buffer, const Stream& stream) {
  Json json = Json::object();
  json["max_ctas"] = channels > 0 ? Json(channels) : Json();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (channels > 0) config.minCTAs = config.maxCTAs = channels;
  ncclUniqueId id{};
  ncclComm_t communicator = nullptr;
  const MemoryNow before = memory_now();
  const double start = now();
  PROBE_TRY(ncclGetUniqueId(&id));
  PROBE_TRY(ncclCommInitRankConfig(&communicator, 1, id, 0, &config));
  json["init_seconds"] = now() - start;
  const MemoryNow made = memory_now();
  PROBE_TRY(ncclAllReduce(buffer.get(), buffer.as<char>() + kLargest / 2, kLargest / 8, ncclFloat,
                          ncclSum, communicator, stream));
  stream.wait();
  const MemoryNow used = memory_now();
  PROBE_TRY(ncclCommDestroy(communicator));
  json["init_bytes"] = taken(before, made);
  json["first_all_reduce_bytes"] = taken(made, used);
  json["after_destroy_bytes"] = taken(before, memory_now());
  return json;
}

// The first communicator of a process pays for the library's kernels too, so it is listed apart.
Json alone(const RankOptions& options) {
  const DeviceBuffer buffer(kLargest);
  const Stream stream;
  Json json = Json::object();
  json["first_communicator"] = alone_with(0, buffer, stream);
  json["later_communicators"] = Json::array();
  save(options, json);
  for (const int channels : {0, 1, 2, 4, 8, 16, 32}) {
    json["later_communicators"].push(alone_with(channels, buffer, stream));
    save(options, json);
  }
  return json;
}

ncclUniqueId shared_id(const RankOptions& options) {
  const std::string path = options.folder + "/nccl_id";
  ncclUniqueId id{};
  if (options.rank == 0) {
    PROBE_TRY(ncclGetUniqueId(&id));
    write_whole(path, std::string_view(id.internal, sizeof id.internal));
    return id;
  }
  // No limit of its own: the section kills every rank at its deadline.
  std::string text;
  while ((text = read_or_empty(path)).size() != sizeof id.internal) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::memcpy(id.internal, text.data(), sizeof id.internal);
  return id;
}

std::optional<std::uint64_t> loopback_bytes() {
  std::ifstream in("/sys/class/net/lo/statistics/tx_bytes");
  std::uint64_t bytes = 0;
  if (!(in >> bytes)) return std::nullopt;
  return bytes;
}

struct Group {
  const RankOptions& options;
  ncclComm_t communicator;
  const Stream& stream;
  const DeviceBuffer& send;
  const DeviceBuffer& receive;
  const DeviceBuffer& small;  // barrier word and mismatch counter

  void all_reduce(std::size_t count) const {
    PROBE_TRY(ncclAllReduce(send.get(), receive.get(), count, ncclFloat, ncclSum, communicator,
                            stream));
    stream.wait();
  }
  void barrier() const {
    PROBE_TRY(ncclAllReduce(small.get(), small.get(), 1, ncclFloat, ncclSum, communicator, stream));
    stream.wait();
  }
};

// Rank r sends (r + 1) (i % 7 + 1); the sum is n (n + 1) / 2 (i % 7 + 1), a small integer, so any
// order of additions gives exactly it.
unsigned long long mismatches(const Group& group, std::size_t count) {
  const int n = group.options.ranks;
  auto* counter = reinterpret_cast<unsigned long long*>(group.small.as<char>() + 64);
  PROBE_TRY(cudaMemsetAsync(counter, 0, sizeof *counter, group.stream));
  count_mismatches(group.receive.as<float>(), count, static_cast<float>(n * (n + 1) / 2), counter,
                   group.stream);
  unsigned long long found = 0;
  PROBE_TRY(cudaMemcpyAsync(&found, counter, sizeof found, cudaMemcpyDeviceToHost, group.stream));
  group.stream.wait();
  return found;
}

// The count of operations is fixed: all ranks must issue the same ones.
Json reduce_size(const Group& group, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float);
  const int repeats = bytes > (std::size_t{4} << 20) || group.options.quick ? 3 : 7;
  PROBE_TRY(cudaMemsetAsync(group.receive.get(), 0, bytes, group.stream));
  group.all_reduce(count);  // connects, and gives the result that is checked
  Json json = Json::object();
  json["bytes"] = bytes;
  const unsigned long long wrong = mismatches(group, count);
  if (wrong > 0) {
    throw DeviceError("an all-reduce of " + std::to_string(bytes) + " bytes gave " +
                      std::to_string(wrong) + " elements that differ from the exact sum");
  }
  json["checked"] = "equal";
  group.barrier();
  const auto before = loopback_bytes();
  group.barrier();  // nobody sends data before everybody has read the counter
  const Summary seconds = measure({repeats, repeats, 0.0}, [&] {
    const double start = now();
    group.all_reduce(count);
    return now() - start;
  });
  group.barrier();
  const auto after = loopback_bytes();
  group.barrier();  // nobody goes on before everybody has read it again
  json["seconds"] = to_json(seconds);
  // Ring: every rank sends 2 (n - 1) / n of the vector, n ranks together 2 (n - 1) vectors.
  json["ring_payload_bytes"] =
      static_cast<std::size_t>(2 * (group.options.ranks - 1) * repeats) * bytes;
  json["loopback_tx_bytes"] = before && after ? Json(*after - *before) : Json();
  return json;
}

void memory(Json& json, const char* name, const Nvml& nvml) {
  const auto state = nvml.memory();
  json["memory"][name]["nvml_used_bytes"] = state ? Json(state->used) : Json();
  json["memory"][name]["cuda_free_bytes"] = memory_now().free;
}

Json among(const RankOptions& options, const Nvml& nvml) {
  const Stream stream;
  const DeviceBuffer send(kLargest), receive(kLargest), small(128);
  fill_pattern(send.as<float>(), kLargest / sizeof(float), static_cast<float>(options.rank + 1),
               stream);
  PROBE_TRY(cudaMemset(small.get(), 0, small.size()));
  stream.wait();
  Json json = Json::object();
  json["rank"] = options.rank;
  memory(json, "before_init", nvml);  // other ranks may be anywhere here
  const double start = now();
  ncclComm_t communicator = nullptr;
  PROBE_TRY(ncclCommInitRank(&communicator, options.ranks, shared_id(options), options.rank));
  json["init_seconds"] = now() - start;
  const Group group{options, communicator, stream, send, receive, small};
  group.barrier();
  memory(json, "all_initialised", nvml);  // the whole card, every rank past its first collective
  json["all_reduce"] = Json::array();
  save(options, json);
  for (std::size_t bytes = 1024; bytes <= kLargest; bytes *= options.quick ? 256 : 16) {
    json["all_reduce"].push(reduce_size(group, bytes));
    save(options, json);
  }
  memory(json, "all_reduced", nvml);
  group.barrier();
  PROBE_TRY(ncclCommDestroy(communicator));
  return json;
}

}  // namespace
#endif

int run_nccl_rank([[maybe_unused]] const std::vector<std::string>& arguments) {
#ifdef PROBE_WITH_NCCL
  const RankOptions options = rank_options(arguments);
  try {
    const Nvml nvml(pci_bus_id(options.device));
    use_device(options.device);
    save(options, options.ranks == 1 ? alone(options) : among(options, nvml));
    return 0;
  } catch (const std::exception& error) {
    write_whole(rank_file(options, ".error"), error.what());
    return 3;
  }
#else
  return 3;
#endif
}

}  // namespace probe
