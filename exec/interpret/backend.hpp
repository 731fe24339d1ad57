#pragma once
// Backend: what the actions of one rank run on: its memory, its kernels, the order of its streams.
// The interpreter walks the Program and calls this; a backend knows nothing of schedules. Work is
// given to a stream in order; a call may return before it is done (a device) or after (the host),
// so that data is read or written by the caller between steps alone. One object per rank; calls for
// one stream come from one thread at a time. A failure of the device is thrown once.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/result.hpp"
#include "exec/communicator/message_memory.hpp"
#include "exec/host/optimizers.hpp"
#include "exec/interpret/kernels.hpp"
#include "planner/question/quantization.hpp"

namespace exec {

// The optimizer on one range: what exec/host/optimizers.hpp's update() takes.
struct Update {
  planner::OptimizerKind kind{};
  Hyper hyper;
  std::int64_t step = 1;
  host::Parameters parameters;
  std::span<const host::View> slots;
};

// `rows` runs of `width` bytes, `pitch` bytes apart; one run: a plain copy.
struct RowCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t to_pitch = 0, from_pitch = 0, width = 0, rows = 1;
};

// What a rank's device holds beside its range, as measured; absent where nothing measures it.
struct MemoryBeside {
  std::optional<core::Bytes> workspace, context, device;
  std::optional<core::Bytes> communicators;   // what a communication library took
  std::optional<core::Bytes> message_blocks;  // of own kernels and servers, padded vectors
};
// Of a rank whose steps are kept.
struct KeptSteps {
  std::int64_t replayed = 0;           // steps that were given again
  std::string refused;                 // why nothing could be kept; empty: nothing went wrong
};

class Backend {
 public:
  using Stream = program::Stream;

  virtual ~Backend() = default;

  // The calling thread gives work from now on. Each thread that does calls it first, but for the
  // one that made the backend.
  virtual void enter_thread() {}

  // ---- memory -----------------------------------------------------------------------------------
  // The range of this rank's buffers, zeros; called once. Throws std::bad_alloc or what the device
  // says.
  virtual std::byte* reserve(std::size_t bytes) = 0;
  // Of the host's memory, for offloaded buffers; work may read and write it like the other range.
  virtual std::byte* reserve_host(std::size_t bytes) = 0;
  // Memory beside it, for what a stream does at the moment; asking for more may move it.
  virtual std::byte* scratch(Stream stream, std::size_t bytes) = 0;
  // Whether the caller may read and write buffers itself.
  virtual bool on_host() const { return true; }
  // Between steps; they wait for the bytes.
  virtual void write(void* to, const void* from, std::size_t bytes) = 0;
  virtual void read(void* to, const void* from, std::size_t bytes) = 0;
  virtual MemoryBeside beside() const { return {}; }

  // ---- work, in the order of a stream -----------------------------------------------------------
  // Forward, input_gradient or weight_gradient.
  virtual void run(const program::Action& action, const models::Operator& op,
                   std::span<const Operand> args, const KernelContext& context) = 0;
  // Bytes of the host into a buffer; `from` may be reused at once.
  virtual void load(Stream stream, const Operand& to, const void* from) = 0;
  virtual void zero(Stream stream, const Operand& what) = 0;
  virtual void cast(Stream stream, const Operand& from, const Operand& to) = 0;
  // Casts a matrix to 8 bits, once for each operand of `to`: by rows or by columns, as its f8 says.
  // REQUIRES: all operands of `to` have f8.
  virtual void cast_to_f8(Stream stream, const Operand& from, std::span<const Operand> to) = 0;
  virtual void add_into(Stream stream, const Operand& from, const Operand& into) = 0;
  // Each row of `from` to the last columns of the same row of `into`.
  virtual void add_columns(Stream stream, const Operand& from, const Operand& into,
                           std::int64_t rows) = 0;
  virtual void dequantise(Stream stream, planner::Quantization kind, const Operand& codes,
                          const Operand& matrix) = 0;
  virtual void update(Stream stream, const Update& update) = 0;
  // *sum += |x|^2 of n elements; sum lies in the range of this rank's buffers.
  virtual void add_squares(Stream stream, host::View x, std::int64_t n, double* sum) = 0;
  // *state = stepped() by the root of *squares; both lie in that range.
  virtual void step_loss_scale(Stream stream, host::LossScaleState* state, const double* squares,
                               const host::LossScaleRule& rule) = 0;
  virtual void copy(Stream stream, const RowCopy& copy) = 0;
  // For communicators that are called for this stream; lives as long as the backend.
  virtual MessageMemory& messages(Stream stream) = 0;

  // ---- order between streams --------------------------------------------------------------------
  // `event` happens when all that `stream` was given so far is done; what it is given from now on
  // waits for the latest such moment. Events are numbered from 0.
  virtual void signal(Stream, std::size_t /*event*/) {}
  virtual void wait(Stream, std::size_t /*event*/) {}
  // Until all is done.
  virtual void drain() {}

  // ---- a step that is given again ---------------------------------------------------------------
  // From begin_recording() to end_recording() work is kept and not done; each replay() then does
  // all of it, with what refill() gave since in place of what load() gave, in the order of the
  // loads, and as step `step` of the optimizer at that learning rate. Nothing is under way when
  // recording begins. The text says why work cannot be kept, and is empty where it can; nothing is
  // kept then.
  virtual std::string begin_recording() { return "this backend keeps no steps"; }
  virtual std::string end_recording() { return begin_recording(); }
  // What was recorded, if anything was, is never replayed.
  virtual void forget_recording() noexcept {}
  virtual void refill(const Operand& /*to*/, const void* /*from*/) {}
  virtual void replay(std::int64_t /*step*/, double /*learning_rate*/) {}

  // ---- time -------------------------------------------------------------------------------------
  // A moment of a stream, and its seconds of the steady clock, once drained.
  virtual double mark(Stream stream) = 0;
  virtual double seconds(double mark) { return mark; }
  // Forgets all marks. Between steps.
  virtual void begin_marks() {}

  // ---- what the device itself records (StepLog's kernels) ---------------------------------------
  // Around a step that is looked into: between begin_marks() and its first work; once drained.
  virtual void begin_records() {}
  virtual void end_records() {}
  // What the calling thread gives in between belongs to `entry` of the stream's list.
  virtual void begin_entry(Stream, std::uint32_t /*entry*/) {}
  virtual void end_entry() {}
};

// What the host does: kernels of exec/host on the calling thread.
std::unique_ptr<Backend> host_backend(const program::RankClass& rank_class, std::int64_t samples);

}  // namespace exec
