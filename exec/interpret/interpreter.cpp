#include "exec/interpret/interpreter.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "core/clock.hpp"
#include "exec/host/kernels.hpp"
#include "sim/program/cursor.hpp"
#include "sim/program/turns.hpp"

namespace exec {

using program::Action;
using program::ActionKind;
using program::Call;
using program::Stream;

static std::size_t size_of(const Operand& operand) {
  return static_cast<std::size_t>(operand.bytes().value());
}

static KernelContext kernel_context(const RunContext& c, int rank) {
  KernelContext k;
  k.samples = c.program.samples;
  k.global_batch = c.program.global_batch;
  k.vocab = c.spec.vocab;
  k.heads = c.spec.heads;
  k.slice.ranks = c.program.mesh.context;
  k.slice.rows = c.program.seq_len / k.slice.ranks;
  k.norm_epsilon = c.spec.layer_norm_epsilon;
  k.seed = c.seed;
  k.data_ranks = c.program.mesh.data;
  k.samples_apart = c.program.global_batch * c.program.mesh.context / c.program.mesh.data;
  if (c.program.mesh.is_server(rank)) return k;
  k.tensor_rank = c.program.mesh.index(program::Group::tensor, rank);
  k.expert_rank = c.program.mesh.index(program::Group::expert, rank);
  k.slice.index = c.program.mesh.index(program::Group::context, rank);
  return k;
}

Interpreter::Interpreter(const RunContext& context, int rank)
    : context_(context),
      rank_(rank),
      class_(context.program.classes[static_cast<std::size_t>(context.program.class_of(rank))]),
      part_(context.program.part_of(rank)),
      training_(context.training.value_or(default_training(context.program.optimizer.kind))),
      kernels_(kernel_context(context, rank)),
      backend_(context.backends ? context.backends(class_, rank)
                                : host_backend(class_, context.program.samples)),
      memory_(
          class_, part_, [this](std::size_t bytes) { return backend_->reserve(bytes); },
          [this](std::size_t bytes) { return backend_->reserve_host(bytes); },
          context.steps - context.first),
      next_step_(context.first),
      in_turns_(program::takes_turns(context.program)),
      together_(program::steps_together(context.program)),
      slowness_(context.slowness.empty() ? 1.0
                                         : context.slowness[static_cast<std::size_t>(rank)]),
      serves_beside_(program::serves_beside(class_)),
      streams_(class_, *backend_,
               [this](const std::string& m) { context_.world.abort(rank_, m); },
               !context.world.calls_wait()) {
  open_communicators();
  initialise_weights();
  initialise_loss_scale();
  if (in_turns_ && class_.is_server) begin_turns();
}

Interpreter::~Interpreter() {
  if (server_.joinable()) server_.join();
}

StepTimes Interpreter::step(std::int64_t index) {
  step_index_ = index;
  times_ = {};
  try {
    backend_->begin_marks();
    if (log_ != nullptr) backend_->begin_records();
    if (together_ || !began_) barrier_->barrier();
    if (!began_ && serves_beside_) start_serving();
    began_ = true;
    if (log_ != nullptr) {
      log_->which = which();
      log_->live = memory_.ledger().now();
    }
    const double start = core::steady_seconds();
    give_step();
    if (!backend_->on_host()) make_next_samples();
    backend_->drain();
    times_.step = core::steady_seconds() - start;
    if (log_ != nullptr) backend_->end_records();
    next_step_ = index + 1;
    if (next_step_ == context_.steps) await_turns(next_step_ - context_.first);
    if (log_ != nullptr) resolve_log();
  } catch (const std::exception& e) {
    // Before this rank's streams are joined: one of them may wait for a peer that waits for us.
    context_.world.abort(rank_, e.what());
    throw;
  }
  return times_;
}

program::StepOf Interpreter::which() const {
  if (class_.schedule.flushes) return {};
  return {step_index_ - context_.first, context_.steps - context_.first};
}

// Where the version lies that a step reads.
int Interpreter::version(std::uint16_t buffer, std::int64_t step) const {
  return static_cast<int>((step - context_.first) % class_.buffers[buffer].slots);
}

void Interpreter::issue_all() {
  evaluations_ = 0;
  calls_ = 0;
  const bool serves = in_turns_ && !class_.is_worker;
  program::for_each_call(class_, [&](Call call) {
    if (is_turn_beside(call)) return;
    if (serves) take_turn(call);
    issue_block(call);
  }, which());
  streams_.drain();
}

void Interpreter::issue_block(const Call& call) {
  const program::Block& block = class_.blocks[call.block];
  evaluations_ += block.name.starts_with("layer.forward") || block.name == "layer.recompute";
  for (std::uint32_t i = block.first; i < block.last; ++i) issue(class_.actions[i], call);
  ++calls_;
}

std::optional<double> Interpreter::loss() const {
  if (class_.loss_buffer == program::kNone || kernels_.tensor_rank != 0) return std::nullopt;
  double value = 0;
  backend_->read(&value, memory_.persistent(class_.loss_buffer).data, sizeof value);
  return value;
}

std::optional<host::LossScaleState> Interpreter::loss_scale() const {
  if (class_.scale_buffer == program::kNone) return std::nullopt;
  host::LossScaleState state;
  backend_->read(&state, memory_.persistent(class_.scale_buffer).data, sizeof state);
  return state;
}

void Interpreter::issue(const Action& a, const Call& call) {
  if ((a.flags & program::kSkipFirstMicroBatch) != 0 && call.micro_batch == 0) return;
  if (log_ != nullptr) log_memory(a, call);
  if (a.kind == ActionKind::alloc) return memory_.allocate(class_.views[a.first_arg], call);
  if (a.kind == ActionKind::free) return memory_.free(class_.views[a.first_arg], call);

  std::vector<Operand> args;
  args.reserve(a.arg_count);
  for (std::uint32_t i = 0; i < a.arg_count; ++i)
    args.push_back(memory_.resolve(class_.views[a.first_arg + i], call));
  std::vector<Ticket> waits;
  for (std::uint32_t i = 0; i < a.wait_count; ++i) {
    const program::Wait& w = class_.waits[a.first_wait + i];
    waits.push_back(streams_.latest(w.on, call));
    PLANNER_CHECK(waits.back().sequence > 0 || w.may_precede, "a wait has no signal before it");
  }
  if (keeping_ && (a.kind == ActionKind::load || a.kind == ActionKind::copy))
    host_work_.push_back({&a, call, args});
  Ticket signal;
  if (a.signal != program::kNone)
    signal = streams_.issue(class_.signals[a.signal], call, a.stream);

  if (a.stream != Stream::compute) {
    const Action* action = &a;
    return streams_.enqueue(
        a.stream, std::move(waits),
        [this, action, call, number = calls_, args = std::move(args)] {
          if (log_ == nullptr) return run(*action, call, args);
          run_logged(*action, call, number, args);
        },
        signal);
  }
  for (const Ticket& t : waits) {
    const double start = core::steady_seconds();
    streams_.wait(t, Stream::compute);
    const Stream by = streams_.signaller(t);
    const bool pipeline = program::carries_messages(by);
    (pipeline ? times_.pipeline_wait : times_.exposed_communication) +=
        core::steady_seconds() - start;
  }
  if (log_ == nullptr && !backend_->on_host()) {
    run(a, call, args);
  } else {
    const double seconds = run_logged(a, call, calls_, args);
    if (backend_->on_host()) account(a, seconds);
  }
  streams_.complete(signal, Stream::compute);
}

// Between two marks of its stream, of which it returns the difference. Work that a backend holds
// back until the second is the action's as well.
double Interpreter::run_logged(const Action& a, const Call& call, std::uint32_t number,
                               const std::vector<Operand>& args) {
  const double start = backend_->mark(a.stream);
  if (log_ != nullptr) {
    const auto& entries = log_->streams[static_cast<std::size_t>(a.stream)];
    backend_->begin_entry(a.stream, static_cast<std::uint32_t>(entries.size()));
  }
  run(a, call, args);
  if (slowness_ > 1) linger(a, backend_->mark(a.stream) - start);
  const double finish = backend_->mark(a.stream);
  if (log_ != nullptr) backend_->end_entry();
  log(a, call, number, start, finish);
  return finish - start;
}

void Interpreter::log(const Action& a, const Call& call, std::uint32_t number, double start,
                      double finish) {
  if (log_ == nullptr) return;
  const auto action = static_cast<std::uint32_t>(&a - class_.actions.data());
  log_->streams[static_cast<std::size_t>(a.stream)].push_back(
      {action, number, call, start, finish});
}

void Interpreter::log_memory(const Action& a, const Call& call) {
  if (a.kind != ActionKind::alloc && a.kind != ActionKind::free) return;
  const program::View& view = class_.views[a.first_arg];
  const program::Buffer& buffer = class_.buffers[view.buffer];
  const core::Bytes bytes = buffer.instance_bytes(program::layer_index(view, call));
  const std::int64_t sign = a.kind == ActionKind::alloc ? 1 : -1;
  log_->memory.push_back({backend_->mark(Stream::compute), buffer.term, bytes * sign});
}

// Marks become seconds.
void Interpreter::resolve_log() {
  const std::scoped_lock lock(turns_mutex_);
  for (std::vector<LoggedAction>& stream : log_->streams)
    for (LoggedAction& a : stream) {
      a.start = backend_->seconds(a.start);
      a.finish = backend_->seconds(a.finish);
    }
  for (LoggedMemory& m : log_->memory) m.time = backend_->seconds(m.time);
  if (backend_->on_host()) return;
  const double step = times_.step;
  times_ = times_of(class_, *log_);
  times_.step = step;
}

std::vector<Operand> Interpreter::state_buffers() const {
  std::vector<Operand> all;
  for (std::size_t i = 0; i < class_.buffers.size(); ++i) {
    const program::Buffer& b = class_.buffers[i];
    const bool lasts = b.term == program::Term::weights || b.term == program::Term::optimizer;
    if (!b.persistent || !lasts) continue;
    const auto buffer = static_cast<std::uint16_t>(i);
    for (int layer = 0; layer < b.extent; ++layer)
      for (int slot = 0; slot < b.slots; ++slot)
        all.push_back(memory_.persistent(buffer, layer, version(buffer, next_step_ + slot)));
  }
  return all;
}

std::vector<std::span<std::byte>> Interpreter::state() {
  std::vector<std::span<std::byte>> all;
  const std::vector<Operand> buffers = state_buffers();
  if (!backend_->on_host()) state_.resize(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!backend_->on_host()) state_[i].resize(size_of(buffers[i]));
    auto* data = backend_->on_host() ? static_cast<std::byte*>(buffers[i].data) : state_[i].data();
    all.emplace_back(data, size_of(buffers[i]));
  }
  return all;
}

void Interpreter::fetch_state() {
  await_turns(next_step_ - context_.first);
  const std::vector<Operand> buffers = state_buffers();
  for (std::size_t i = 0; i < state_.size(); ++i)
    backend_->read(state_[i].data(), buffers[i].data, state_[i].size());
}

void Interpreter::put_state() {
  const std::vector<Operand> buffers = state_buffers();
  for (std::size_t i = 0; i < state_.size(); ++i)
    backend_->write(buffers[i].data, state_[i].data(), state_[i].size());
}

void Interpreter::run(const Action& a, const Call& call, const std::vector<Operand>& args) {
  switch (a.kind) {
    case ActionKind::forward:
    case ActionKind::input_gradient:
    case ActionKind::weight_gradient:
      kernels_.first_sample = first_sample(call);
      return backend_->run(a, class_.operators[a.op], args, kernels_);
    case ActionKind::load:
      return load(a, call, args[0]);
    case ActionKind::zero:
      return backend_->zero(a.stream, args[0]);
    case ActionKind::copy:
      return copy(a, call, args);
    case ActionKind::cast:
      if (args[1].f8 == nullptr) return backend_->cast(a.stream, args[0], args[1]);
      return backend_->cast_to_f8(a.stream, args[0], std::span(args).subspan(1));
    case ActionKind::dequantise:
      return backend_->dequantise(a.stream, context_.quantization, args[0], args[1]);
    case ActionKind::accumulate:
      if (a.op != program::kNone)      // gradients of keys, in their columns of dqkv
        return backend_->add_columns(a.stream, args[0], args[1],
                                     context_.program.samples * kernels_.slice.rows);
      return backend_->add_into(a.stream, args[0], args[1]);
    case ActionKind::square_sum:
      return square_sum(a, call, args);
    case ActionKind::scale_step:
      return scale_step(a, args);
    case ActionKind::optimizer:
      return optimizer(a, call, args);
    case ActionKind::fence:
    case ActionKind::alloc:
    case ActionKind::free:
      return;
    default:
      return transfer(a, call, args);
  }
}

std::vector<double> Interpreter::all_weights() const {
  if (class_.weights_buffer == program::kNone) return {};
  const std::uint16_t buffer = class_.weights_buffer;
  const int slots = class_.buffers[buffer].slots;
  const Operand w = memory_.persistent(buffer, 0, version(buffer, next_step_ + slots - 1));
  std::vector<std::byte> stored(size_of(w));
  backend_->read(stored.data(), w.data, stored.size());
  std::vector<double> values(static_cast<std::size_t>(w.elements));
  host::cast({values.data(), core::DType::f64}, {stored.data(), w.type}, w.elements);
  return values;
}

}  // namespace exec
