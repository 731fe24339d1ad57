#pragma once
// Api: every call that the CUDA backend makes to a driver, a runtime or a library, and nothing
// else. One implementation calls CUDA (exec/cuda/runtime); the other is its twin on the host
// (exec/cuda/twin), which executes the same kernels in an order that a GPU might choose and fails
// when a test wants it to. Handles are opaque. Work given to a stream returns before it is done;
// a call throws DeviceFailure for what went wrong in it, or before it. One object is one GPU.
// Thread-safe; each thread binds the device before its other calls, and a stream is given work by
// one thread at a time.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/units.hpp"
#include "exec/cuda/api/activity_library.hpp"
#include "exec/cuda/api/attention_library.hpp"
#include "exec/cuda/api/failure.hpp"
#include "exec/cuda/api/product_choices.hpp"
#include "exec/cuda/nvml/readings.hpp"
#include "exec/cuda/nvml/topology.hpp"
#include "exec/interpret/backend.hpp"

namespace exec::cuda {

struct StreamOf;
struct EventOf;
struct PoolOf;
struct GraphOf;
using StreamHandle = StreamOf*;
using EventHandle = EventOf*;
using PoolHandle = PoolOf*;
using GraphHandle = GraphOf*;

struct DeviceInfo {
  std::string name;                    // "NVIDIA H200"
  int major = 0, minor = 0;            // compute capability
  int multiprocessors = 1;
  std::size_t shared_per_block = 0;    // bytes, at most, when asked for
  core::Bytes total{};
  std::string driver, runtime, pci;    // "13.0", "13.0", "0000:1b:00.0"
  int index = 0;                       // among those that the driver shows
};

// Of a pool: the most that was in use, and that it held of the device, since it was made.
struct PoolMarks {
  core::Bytes used{}, reserved{};
};

struct DeviceMemory {
  core::Bytes free{}, total{};
};

// What a product reads and writes beside its matrices lies so, in bytes: the library asks for the
// alignment of matrices alone, and takes vectors of 16 bytes from the rest.
constexpr std::uintptr_t kProductAlignment = 16;

struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

// A kernel and what it is launched with. The driver takes `function` and `arguments`; where kernels
// are compiled for the host, `body` runs one thread of the grid.
struct Launch {
  const char* name = "";
  Extent grid, block;
  std::size_t shared = 0;              // dynamic, bytes
  const void* function = nullptr;
  void** arguments = nullptr;
  std::function<void()> body;
};

class Api {
 public:
  virtual ~Api() = default;

  // The calling thread's calls are about this device until it binds another. The thread that made
  // the object has bound it.
  virtual void bind() = 0;

  virtual DeviceInfo device() = 0;
  virtual DeviceMemory memory() = 0;   // as the driver says
  // What the driver and libraries took of the device when they were opened.
  virtual core::Bytes context_bytes() = 0;
  virtual Readings readings() = 0;
  // Of all GPUs of this machine.
  virtual Topology topology() = 0;

  // ---- memory
  virtual PoolHandle create_pool() = 0;
  virtual void destroy(PoolHandle pool) noexcept = 0;
  virtual PoolMarks marks(PoolHandle pool) = 0;
  // Usable at once, by every stream. release(): nothing given before may still use it.
  virtual void* allocate(PoolHandle pool, std::size_t bytes) = 0;
  virtual void release(PoolHandle pool, void* memory) noexcept = 0;
  // Of the host, for copies that need not wait; kernels read and write it in its place.
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(void* memory) noexcept = 0;

  // ---- order
  virtual StreamHandle create_stream(bool urgent) = 0;
  virtual void destroy(StreamHandle stream) noexcept = 0;
  virtual EventHandle create_event(bool timed) = 0;
  virtual void destroy(EventHandle event) noexcept = 0;
  virtual void record(EventHandle event, StreamHandle stream) = 0;
  virtual void wait(StreamHandle stream, EventHandle event) = 0;
  virtual void synchronise(StreamHandle stream) = 0;
  virtual void synchronise(EventHandle event) = 0;
  // As synchronise(stream), but without waiting inside the driver: `look` is called meanwhile, and
  // what it throws ends the wait.
  virtual void synchronise(StreamHandle stream, const std::function<void()>& look) = 0;
  // Whether the last moment of it that was given to a stream has come. From any thread that has
  // bound the device.
  virtual bool happened(EventHandle event) = 0;
  // Of two timed events that have happened.
  virtual double seconds_between(EventHandle from, EventHandle to) = 0;

  // ---- work
  // Between any two places of the device and of pinned memory.
  virtual void copy(const RowCopy& copy, StreamHandle stream) = 0;
  virtual void copy_in(void* to, const void* pinned, std::size_t bytes, StreamHandle stream) = 0;
  virtual void copy_out(void* pinned, const void* from, std::size_t bytes, StreamHandle stream) = 0;
  virtual void set_zero(void* to, std::size_t bytes, StreamHandle stream) = 0;
  virtual void launch(const Launch& launch, StreamHandle stream) = 0;
  // From now on products take the fastest of the algorithms that the library proposes, as timed
  // when a shape first comes: their last bits may differ from run to run. kept: what has been
  // chosen before stays so, and what is timed is added; it outlives the interface, and nobody else
  // uses it while products run.
  virtual void time_products(ProductChoices* kept) = 0;
  // Whose proposals are counted: "cuBLASLt 130100".
  virtual std::string product_library() = 0;
  // c (=|+=) alpha a b (+ bias), sums in f32 (f64 where c is), rounded once; workspace of
  // product_workspace() bytes, of this stream alone. REQUIRES: the bias lies at a multiple of
  // kProductAlignment, and so does what multiply_gelu() keeps or reads beside.
  virtual void multiply(const host::MixedGemm& product, void* workspace, StreamHandle stream) = 0;
  // As multiply(), but c = gelu(sums), of the tanh form, and `before` receives the sums themselves;
  // gradient: c = sums gelu'(before). Each is rounded once, `before` lies as c does. False: the
  // library has none of this shape, and nothing was given.
  virtual bool multiply_gelu(const host::MixedGemm& product, const host::View& before,
                             bool gradient, void* workspace, StreamHandle stream) = 0;
  virtual std::size_t product_workspace() = 0;
  // A library's attention; what it takes of the device is in context_bytes() afterwards. Destroyed
  // before the interface.
  virtual OpenedAttention open_attention() = 0;

  // ---- work that is given as one (CUDA graphs)
  // What `origin` is given from now on, and every stream once it waits for an event that a kept
  // stream recorded since, is kept and not done. Until the end nothing kept is synchronised with,
  // and none of these streams waits for an event from before. One at a time of a rank.
  virtual void begin_capture(StreamHandle origin) = 0;
  // REQUIRES: `origin` waits for the end of every stream that joined. Throws DeviceFailure, of kind
  // `graph` where nothing but the keeping failed; nothing is kept then.
  virtual GraphHandle end_capture(StreamHandle origin) = 0;
  // After a failure: forgets what was kept.
  virtual void abandon_capture(StreamHandle origin) noexcept = 0;
  // All of it, in its order, behind what the stream was given; the memory it names is read then.
  virtual void launch(GraphHandle graph, StreamHandle stream) = 0;
  virtual void destroy(GraphHandle graph) noexcept = 0;

  // ---- what the device records
  // Destroyed before the interface. What it takes of the device while it records counts as used.
  virtual OpenedActivity open_activity() = 0;

  // ---- ranges that profilers show
  // A range lies within that which the thread pushed last. `name` ends with a zero.
  virtual void push_range(const char* /*name*/) {}
  virtual void pop_range() {}
};

}  // namespace exec::cuda
