#pragma once
// Twin: a GPU played on the host, for tests. Device memory is host memory, full of NaNs until it is
// written; kernels run on emulated grids (exec/cuda/emulate), products on OpenBLAS. Work is kept
// until somebody waits for it, and then runs stream by stream in an order drawn from a seed that
// respects streams and events and nothing else: a wait that is missing between streams shows as a
// wrong result. A thread that gives work without having bound the device ends the test. Any call
// can be made to fail. Thread-safe; emulation runs on one thread at a time.

#include <map>
#include <memory>

#include "core/units.hpp"
#include "exec/cuda/api/api.hpp"
#include "exec/cuda/emulate/meter.hpp"

namespace exec::cuda {

struct TwinOptions {
  std::uint64_t seed = 1;
  core::Bytes memory{std::int64_t{64} << 30};
  bool meters = false;                 // counts what work moves and computes
};

// What kernels and the library's calls read and write of the device's memory, each byte once a
// launch, and the FLOPs of the library's calls.
struct Metered {
  emulate::Traffic bytes;
  core::Flops flops{};
};

class Twin final : public Api {
 public:
  explicit Twin(const TwinOptions& options = {});
  ~Twin() override;

  // The nth call (from 1, counted from now) of this name fails: "allocate", "launch", "copy",
  // "copy_in", "copy_out", "multiply", "multiply_gelu", "record", "wait", "synchronise",
  // "create_stream", "create_pool", "device", "begin_capture", "end_capture", "launch_graph",
  // "attention", "open_attention" (it is absent then), "prepare_attention" (it refuses),
  // "open_activity" (absent), "start_activity" (it refuses).
  // FailureKind::device: every later call fails as well.
  void fail(const std::string& call, int nth, FailureKind kind);
  // How often each kernel was launched, products and the library's calls too; and how many kernels
  // in the innermost range of each name (push_range), empty: in none.
  std::map<std::string, std::int64_t> launches() const;
  std::map<std::string, std::int64_t> launches_within() const;
  // What work moved and computed, by the ranges that it was given in, from the outermost and with
  // '/' between. REQUIRES: TwinOptions::meters. Bytes of own kernels are counted where the binary
  // links counted_kernels.
  std::map<std::string, Metered> metered() const;
  // How often kept work was launched.
  std::int64_t graph_launches() const;
  // Work that was given and not yet run; memory, streams and events that were not given back.
  std::size_t pending() const;
  std::size_t leaked() const;

  void bind() override;
  DeviceInfo device() override;
  DeviceMemory memory() override;
  core::Bytes context_bytes() override { return core::Bytes(0); }
  // By the library that PLANNER_TWIN_NVML names; empty without one.
  Readings readings() override;
  Topology topology() override;
  PoolHandle create_pool() override;
  void destroy(PoolHandle pool) noexcept override;
  PoolMarks marks(PoolHandle pool) override;
  void* allocate(PoolHandle pool, std::size_t bytes) override;
  void release(PoolHandle pool, void* memory) noexcept override;
  void* allocate_pinned(std::size_t bytes) override;
  void release_pinned(void* memory) noexcept override;
  StreamHandle create_stream(bool urgent) override;
  void destroy(StreamHandle stream) noexcept override;
  EventHandle create_event(bool timed) override;
  void destroy(EventHandle event) noexcept override;
  void record(EventHandle event, StreamHandle stream) override;
  void wait(StreamHandle stream, EventHandle event) override;
  void synchronise(StreamHandle stream) override;
  void synchronise(EventHandle event) override;
  void synchronise(StreamHandle stream, const std::function<void()>& look) override;
  bool happened(EventHandle event) override;
  double seconds_between(EventHandle from, EventHandle to) override;
  void copy(const RowCopy& copy, StreamHandle stream) override;
  void copy_in(void* to, const void* pinned, std::size_t bytes, StreamHandle stream) override;
  void copy_out(void* pinned, const void* from, std::size_t bytes, StreamHandle stream) override;
  void set_zero(void* to, std::size_t bytes, StreamHandle stream) override;
  void launch(const Launch& launch, StreamHandle stream) override;
  // Of each shape the first and only one.
  void time_products(ProductChoices* kept) override;
  std::string product_library() override { return "twin 1"; }
  void multiply(const host::MixedGemm& product, void* workspace, StreamHandle stream) override;
  // For columns of a multiple of 8.
  bool multiply_gelu(const host::MixedGemm& product, const host::View& before, bool gradient,
                     void* workspace, StreamHandle stream) override;
  std::size_t product_workspace() override;
  // A library of 16-bit types, heads of a multiple of 8; backward takes half a square of scores.
  OpenedAttention open_attention() override;
  OpenedActivity open_activity() override;
  void begin_capture(StreamHandle origin) override;
  GraphHandle end_capture(StreamHandle origin) override;
  void abandon_capture(StreamHandle origin) noexcept override;
  void launch(GraphHandle graph, StreamHandle stream) override;
  void destroy(GraphHandle graph) noexcept override;
  void push_range(const char* name) override;
  void pop_range() override;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace exec::cuda
