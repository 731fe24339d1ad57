#pragma once
// The GPU as a Platform: all ranks of a run on one card, each with a pool of its own, or one rank
// of a run whose ranks are processes with a card each.

#include <memory>

#include "exec/cuda/backend/cuda_backend.hpp"
#include "exec/run/platform.hpp"

namespace exec::cuda {

// The one rank of this process, where ranks are processes with a card each.
struct OwnRank {
  int rank = 0;
  Watch* watch = nullptr;              // of its communicators; outlives the platform
  RangeMemory* ranges = nullptr;       // of its buffers; outlives the platform
};

// How a run's actions become kernels.
struct GpuChoices {
  AttentionKernel attention = AttentionKernel::own;
  bool gelu_by_products = false;
  bool deterministic = true;           // the same inputs give the same bits; else what is fastest
  bool records = false;                // what the device itself records of a step is kept
  // What products choose and keep: the fastest of what the library proposes. Outlives the run.
  ProductChoices* products = nullptr;
  core::Bytes workspace{};             // of a rank, as the plan has it; at least what kernels need
};

class CudaPlatform final : public Platform {
 public:
  // own: absent where all ranks of the run are on this card. Throws DeviceFailure. api outlives it.
  explicit CudaPlatform(Api& api, const GpuChoices& choices = {},
                        std::optional<OwnRank> own = std::nullopt);
  ~CudaPlatform() override;

  std::string_view name() const override { return "cuda"; }
  core::Problems problems(const program::Program& program, const planner::Job& job,
                          std::span<const int> here) override;
  std::unique_ptr<Backend> backend(const program::Program& program,
                                   const program::RankClass& rank_class, int rank) override;
  std::optional<std::vector<LoggedKernel>> kernels(int rank) override {
    return recorder_.kernels(rank);
  }
  std::string device_states() override;
  void describe(RunRecord& record, RanksAre ranks) override;

 private:
  Api& api_;
  const GpuChoices choices_;
  AttentionChoice attention_;
  GeluChoice gelu_;
  DeviceRecorder recorder_;
  const std::optional<OwnRank> own_;
  PoolHandle pool_ = nullptr;
  std::unique_ptr<MessagePool> messages_;
  std::unique_ptr<SharedDevice> device_;
  Readings before_;
};

}  // namespace exec::cuda
