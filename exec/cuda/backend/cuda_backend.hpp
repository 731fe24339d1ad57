#pragma once
// CudaBackend: one rank on a GPU. The rank's buffers lie in one range of a memory pool of its own;
// each stream of the Program is a stream of the device, each event instance an event; nothing waits
// for the device within a step. A sum that a layer norm reads next is held back, so that one kernel
// does both; so is, where asked for, a product that a GELU reads next.

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "exec/cuda/api/range_memory.hpp"
#include "exec/cuda/api/watch.hpp"
#include "exec/cuda/backend/attention_choice.hpp"
#include "exec/cuda/backend/device_records.hpp"
#include "exec/cuda/backend/message_pool.hpp"
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/interpret/backend.hpp"

namespace exec::cuda {

// Whether products compute the GELU that reads them, or its gradient, and how often they did.
struct GeluChoice {
  bool by_products = false;
  std::atomic<std::int64_t> joined = 0, refused = 0;  // refused: the library has none for the shape
  std::string text() const;
};

// What the ranks of a run share; outlives them.
struct SharedDevice {
  Api& api;
  MessagePool& messages;
  AttentionChoice& attention;
  GeluChoice& gelu;
  DeviceRecorder& records;
  DeviceInfo info;
  Watch* watch = nullptr;              // null: nothing ends a wait for the device
  RangeMemory* ranges = nullptr;       // null: ranges are of the driver's pools
  int layout = 0;                      // of the one rank that has a range of these
  const float* maps = nullptr;         // of exec/host/quantise.hpp, on the device
  // Held by the driver and libraries before any rank began; the free bytes then.
  core::Bytes context{}, free{};
  core::Bytes workspace{};             // that a rank has at least
  int ranks = 1;
  std::uint64_t stochastic = 0;        // seed of stochastic rounding; 0: to nearest
};

// Bytes in which products, attention and column sums work; they are not part of a rank's range.
std::size_t workspace_of(const SharedDevice& device, const program::RankClass& rank_class,
                         std::int64_t samples);

class CudaBackend final : public Backend {
 public:
  CudaBackend(const SharedDevice& device, const program::RankClass& rank_class,
              std::int64_t samples, int rank);
  ~CudaBackend() override;

  void enter_thread() override { device_.api.bind(); }

  std::byte* reserve(std::size_t bytes) override;
  std::byte* reserve_host(std::size_t bytes) override;
  std::byte* scratch(Stream stream, std::size_t bytes) override;
  bool on_host() const override { return false; }
  void write(void* to, const void* from, std::size_t bytes) override;
  void read(void* to, const void* from, std::size_t bytes) override;
  MemoryBeside beside() const override;

  void run(const program::Action& action, const models::Operator& op,
           std::span<const Operand> args, const KernelContext& context) override;
  void load(Stream stream, const Operand& to, const void* from) override;
  void zero(Stream stream, const Operand& what) override;
  void cast(Stream stream, const Operand& from, const Operand& to) override;
  void cast_to_f8(Stream stream, const Operand& from, std::span<const Operand> to) override;
  void add_into(Stream stream, const Operand& from, const Operand& into) override;
  void add_columns(Stream stream, const Operand& from, const Operand& into,
                   std::int64_t rows) override;
  void dequantise(Stream stream, planner::Quantization kind, const Operand& codes,
                  const Operand& matrix) override;
  void update(Stream stream, const exec::Update& update) override;
  void add_squares(Stream stream, host::View x, std::int64_t n, double* sum) override;
  void step_loss_scale(Stream stream, host::LossScaleState* state, const double* squares,
                       const host::LossScaleRule& rule) override;
  void copy(Stream stream, const RowCopy& copy) override;
  MessageMemory& messages(Stream stream) override;

  void signal(Stream stream, std::size_t event) override;
  void wait(Stream stream, std::size_t event) override;
  void drain() override;

  std::string begin_recording() override;
  std::string end_recording() override;
  void forget_recording() noexcept override;
  void refill(const Operand& to, const void* from) override;
  void replay(std::int64_t step, double learning_rate) override;

  double mark(Stream stream) override;
  double seconds(double mark) override;
  void begin_marks() override;

  void begin_records() override;
  void end_records() override { device_.records.end(); }
  void begin_entry(Stream stream, std::uint32_t entry) override {
    device_.records.enter(rank_, stream, entry);
  }
  void end_entry() override { device_.records.leave(); }

 private:
  // A stream of the Program: what it is given work with, and what it uses beside buffers.
  struct Lane {
    Lane(Queue with, MessagePool& pool, std::function<const Queue&()> now)
        : queue(with), messages(pool, std::move(now)) {}
    Queue queue;
    StreamMessages messages;
    std::byte* scratch = nullptr;
    std::size_t scratch_bytes = 0;
    std::vector<EventHandle> marks;    // timed, used again in each step
    std::size_t marks_used = 0;
  };
  struct Pinned {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  // A sum that has not been launched.
  // name: of the operator, as all below.
  struct HeldSum {
    const char* name = "";
    host::View y, a, b;
    std::int64_t elements = 0;
  };
  // A linear layer's product, or its input's gradient, that has not been launched.
  struct HeldProduct {
    enum class Pass : std::uint8_t { none, forward, backward };
    Pass pass = Pass::none;
    const char* name = "";
    host::View out, in, w, bias;       // backward: dx, dy
    host::LinearShape shape;
  };
  // Maxima of rows of logits that have not been launched; where `sums` is there, sums neither.
  struct HeldMax {
    const char* name = "";
    host::View max, logits;
    host::LogitShape shape;
    host::View sums = {}, targets = {};
  };
  // Updates that have not been launched, of one step and by one rule.
  struct HeldUpdates {
    planner::OptimizerKind kind{};
    Hyper hyper;
    std::int64_t step = 0;
    std::vector<ParameterUpdate> all;
  };

  // A step that is kept: what of it lies on the device, and its own events.
  struct Recording {
    bool open = false;                 // work is being kept
    GraphHandle graph = nullptr;
    std::vector<EventHandle> events;   // by instance: those that were recorded before are past
    std::vector<char> happened;        // by instance, in this recording
    std::vector<EventHandle> ends;     // a moment of each stream: where it joins or returns
    StepNumbers* numbers = nullptr;    // on the device
    StepNumbers* pinned_numbers = nullptr;
    std::optional<Hyper> hyper;  // of every update
  };

  void open_recording();
  void keep_work(bool keeps) noexcept;
  void open(const program::RankClass& rank_class, std::int64_t samples);
  void close() noexcept;
  Lane& lane(Stream stream);
  // The stream's queue, after what was held back for it.
  const Queue& queue(Stream stream);
  // What was held back (held.cpp).
  void launch_held();
  void launch_held_sum();
  void launch_held_product();
  void launch_held_max();
  void launch_held_updates();
  // Each: whether the action was launched with what was held back, or is held back itself.
  bool launch_joined(const program::Action& action, const models::Operator& op,
                     std::span<const Operand> args, const KernelContext& context);
  bool launch_with_held_sum(const program::Action& action, const models::Operator& op,
                            std::span<const Operand> args, const KernelContext& context);
  bool launch_with_held_product(const program::Action& action, const models::Operator& op,
                                std::span<const Operand> args, const KernelContext& context);
  bool launch_with_held_max(const program::Action& action, const models::Operator& op,
                            std::span<const Operand> args, const KernelContext& context);
  void hold_update(const exec::Update& update, const ParameterUpdate& own);
  bool hold_product(const program::Action& action, const models::Operator& op,
                    std::span<const Operand> args, const KernelContext& context);
  bool launch_by_library(const program::Action& action, const models::Operator& op,
                         std::span<const Operand> args, const KernelContext& context);
  std::byte* pinned(std::size_t bytes);
  std::byte* allocate(std::size_t bytes);

  const SharedDevice& device_;
  const int rank_;
  Api& api_;
  PoolHandle pool_ = nullptr;          // the rank's range
  PoolHandle beside_ = nullptr;        // workspaces, scratch
  std::byte* range_ = nullptr;
  bool range_is_pooled_ = true;        // else of device_.ranges
  std::byte* host_range_ = nullptr;    // pinned: streams and kernels reach it
  std::array<std::unique_ptr<Lane>, program::kStreams> lanes_;
  std::vector<std::byte*> allocations_;        // of beside_
  std::vector<EventHandle> events_;            // by instance
  std::vector<Pinned> pinned_;
  std::size_t pinned_used_ = 0;                // of this step
  Pinned bounce_;                      // two halves, and when each was last copied
  std::array<EventHandle, 2> bounced_{};
  HeldSum held_;
  HeldProduct product_;
  HeldMax max_;
  HeldUpdates updates_;
  Recording recording_;
  EventHandle base_ = nullptr;                 // the moment that marks are counted from
  double base_seconds_ = 0;                    // of the steady clock
};

}  // namespace exec::cuda
