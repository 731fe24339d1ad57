#include "exec/cuda/backend/cuda_backend.hpp"

#include <algorithm>
#include <cstring>

#include "core/check.hpp"
#include "core/clock.hpp"
#include "exec/cuda/backend/kernel_table.hpp"
#include "exec/cuda/backend/range_of.hpp"
#include "exec/interpret/arguments.hpp"
#include "exec/interpret/operator_shapes.hpp"
#include "sim/cost/launches.hpp"

namespace exec::cuda {

using program::ActionKind;
using program::Stream;

namespace {

constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
// A mark is the number of a lane's timed event; lanes are told apart by a large step.
constexpr double kLaneStep = 1LL << 40;

// Of a range that is copied piece by piece.
class Pieces {
 public:
  explicit Pieces(std::size_t bytes) : bytes_(bytes) {}
  std::size_t count() const { return (bytes_ + kPieceBytes - 1) / kPieceBytes; }
  std::size_t at(std::size_t i) const { return i * kPieceBytes; }
  std::size_t size(std::size_t i) const { return std::min(kPieceBytes, bytes_ - at(i)); }

 private:
  std::size_t bytes_;
};

std::size_t bytes_of(const Operand& o) { return static_cast<std::size_t>(o.bytes().value()); }

}  // namespace

std::size_t workspace_of(const SharedDevice& device, const program::RankClass& rank_class,
                         std::int64_t samples) {
  std::size_t workspace = std::max(device.api.product_workspace(),
                                   static_cast<std::size_t>(device.workspace.value()));
  for (const models::Operator& op : rank_class.operators)
    workspace = std::max(workspace, workspace_bytes(op, samples));
  return workspace;
}

CudaBackend::CudaBackend(const SharedDevice& device, const program::RankClass& rank_class,
                         std::int64_t samples, int rank)
    : device_(device), rank_(rank), api_(device.api) {
  api_.bind();                         // ranks are threads
  try {
    open(rank_class, samples);
  } catch (...) {
    close();
    throw;
  }
}

CudaBackend::~CudaBackend() { close(); }

void CudaBackend::open(const program::RankClass& rank_class, std::int64_t samples) {
  pool_ = api_.create_pool();
  beside_ = api_.create_pool();
  const std::size_t workspace = workspace_of(device_, rank_class, samples);
  const auto open_lane = [&](Stream s, std::size_t bytes) {
    auto& lane = lanes_[static_cast<std::size_t>(s)];
    if (lane) return;
    const StreamHandle stream = api_.create_stream(s != Stream::compute);
    lane = std::make_unique<Lane>(
        Queue{api_, stream, device_.info.multiprocessors, nullptr, bytes}, device_.messages,
        [this, s]() -> const Queue& { return queue(s); });
    if (bytes > 0) lane->queue.workspace = allocate(bytes);
  };
  open_lane(Stream::compute, workspace);
  for (const program::Action& a : rank_class.actions) open_lane(a.stream, 0);
  std::size_t events = 0;
  for (const program::Event& e : rank_class.events)
    events += static_cast<std::size_t>(e.extent * e.slots);
  for (std::size_t i = 0; i < events; ++i) events_.push_back(api_.create_event(false));
  base_ = api_.create_event(true);
  bounce_.data = static_cast<std::byte*>(api_.allocate_pinned(2 * kPieceBytes));
  for (EventHandle& e : bounced_) e = api_.create_event(false);
}

// Whatever was opened, in an order that asks nothing of what has failed.
void CudaBackend::close() noexcept {
  forget_recording();
  for (EventHandle e : recording_.events) api_.destroy(e);
  for (EventHandle e : recording_.ends) api_.destroy(e);
  if (recording_.pinned_numbers != nullptr) api_.release_pinned(recording_.pinned_numbers);
  for (auto& lane : lanes_) {
    if (!lane) continue;
    for (EventHandle e : lane->marks) api_.destroy(e);
    api_.destroy(lane->queue.stream);
  }
  for (EventHandle e : events_) api_.destroy(e);
  if (base_ != nullptr) api_.destroy(base_);
  for (EventHandle e : bounced_)
    if (e != nullptr) api_.destroy(e);
  for (const Pinned& p : pinned_) api_.release_pinned(p.data);
  if (bounce_.data != nullptr) api_.release_pinned(bounce_.data);
  if (host_range_ != nullptr) api_.release_pinned(host_range_);
  for (std::byte* a : allocations_) api_.release(beside_, a);
  if (range_ != nullptr && range_is_pooled_) api_.release(pool_, range_);
  if (range_ != nullptr && !range_is_pooled_) device_.ranges->release_range(range_);
  if (beside_ != nullptr) api_.destroy(beside_);
  if (pool_ != nullptr) api_.destroy(pool_);
}

CudaBackend::Lane& CudaBackend::lane(Stream stream) {
  auto& lane = lanes_[static_cast<std::size_t>(stream)];
  PLANNER_CHECK(lane != nullptr, "a stream that the class does not use");
  return *lane;
}

const Queue& CudaBackend::queue(Stream stream) {
  if (stream == Stream::compute) launch_held();
  return lane(stream).queue;
}

std::byte* CudaBackend::allocate(std::size_t bytes) {
  return allocations_.emplace_back(static_cast<std::byte*>(api_.allocate(beside_, bytes)));
}

std::byte* CudaBackend::reserve(std::size_t bytes) {
  PLANNER_CHECK(range_ == nullptr, "a rank has one range");
  const std::size_t size = std::max<std::size_t>(bytes, 256);
  if (device_.ranges != nullptr)
    range_ = static_cast<std::byte*>(device_.ranges->allocate_range(size, device_.layout));
  range_is_pooled_ = range_ == nullptr;
  if (range_is_pooled_) range_ = static_cast<std::byte*>(api_.allocate(pool_, size));
  const Queue& q = queue(Stream::compute);
  api_.set_zero(range_, bytes, q.stream);
  api_.synchronise(q.stream);
  return range_;
}

std::byte* CudaBackend::reserve_host(std::size_t bytes) {
  PLANNER_CHECK(host_range_ == nullptr, "a rank has one range of the host");
  host_range_ = static_cast<std::byte*>(api_.allocate_pinned(bytes));
  std::memset(host_range_, 0, bytes);
  return host_range_;
}

std::byte* CudaBackend::scratch(Stream stream, std::size_t bytes) {
  Lane& l = lane(stream);
  if (l.scratch_bytes >= bytes && l.scratch != nullptr) return l.scratch;
  // Work under way may still use the smaller one: it is given back with the rest.
  l.scratch = allocate(std::max<std::size_t>(bytes, 256));
  l.scratch_bytes = bytes;
  return l.scratch;
}

// Pieces take the two halves of the pinned block in turn. The device copies one piece while the
// host copies another.
void CudaBackend::write(void* to, const void* from, std::size_t bytes) {
  const StreamHandle stream = queue(Stream::compute).stream;
  const Pieces pieces(bytes);
  for (std::size_t i = 0; i < pieces.count(); ++i) {
    if (i >= 2) api_.synchronise(bounced_[i % 2]);
    std::byte* const half = bounce_.data + i % 2 * kPieceBytes;
    std::memcpy(half, static_cast<const std::byte*>(from) + pieces.at(i), pieces.size(i));
    api_.copy_in(static_cast<std::byte*>(to) + pieces.at(i), half, pieces.size(i), stream);
    api_.record(bounced_[i % 2], stream);
  }
  api_.synchronise(stream);
}

void CudaBackend::read(void* to, const void* from, std::size_t bytes) {
  const StreamHandle stream = queue(Stream::compute).stream;
  const Pieces pieces(bytes);
  const auto ask = [&](std::size_t i) {
    if (i >= pieces.count()) return;
    api_.copy_out(bounce_.data + i % 2 * kPieceBytes,
                  static_cast<const std::byte*>(from) + pieces.at(i), pieces.size(i), stream);
    api_.record(bounced_[i % 2], stream);
  };
  ask(0);
  for (std::size_t i = 0; i < pieces.count(); ++i) {
    ask(i + 1);
    api_.synchronise(bounced_[i % 2]);
    std::memcpy(static_cast<std::byte*>(to) + pieces.at(i), bounce_.data + i % 2 * kPieceBytes,
                pieces.size(i));
  }
}

MemoryBeside CudaBackend::beside() const {
  MemoryBeside m;
  m.workspace = api_.marks(beside_).used;
  m.context = device_.context;
  core::Bytes messages{0};
  for (const auto& l : lanes_)
    if (l) messages += l->messages.made();
  m.message_blocks = messages;
  m.communicators = device_.watch != nullptr ? device_.watch->taken() : core::Bytes(0);
  // Alone on the card the driver's own figure is this rank's; else it is put together.
  m.device = device_.ranks == 1
                 ? device_.context + (device_.free - api_.memory().free)
                 : device_.context + api_.marks(pool_).reserved + api_.marks(beside_).reserved +
                       messages;
  return m;
}

bool CudaBackend::launch_by_library(const program::Action& action, const models::Operator& op,
                                    std::span<const Operand> args, const KernelContext& context) {
  if (op.kind != models::OpKind::attention || cost::meets_other_ranks(op)) return false;
  const Queue& q = queue(action.stream);
  const host::AttentionShape shape = attention_shape(op, context);
  if (!AttentionChoice::may_compute(shape)) return false;
  if (action.kind == ActionKind::forward) {
    const Forward<ops::attention> a(op, args);
    if (a.has("sinks")) return false;  // the library is not asked for them
    return device_.attention.forward(q, a["out"], a["lse"], a["qkv"], shape);
  }
  // The statistics hold the sinks: the gradients of q, k and v are made as without.
  const InputGradient<ops::attention> a(op, args);
  if (!device_.attention.backward(q, a["d_qkv"], a["d_out"], a["qkv"], a["out"], a["lse"], shape))
    return false;
  sink_gradient(q, op, args, context);
  return true;
}

void CudaBackend::run(const program::Action& action, const models::Operator& op,
                      std::span<const Operand> args, const KernelContext& context) {
  const RangeOf range(api_, action.kind, op.name.c_str());
  if (!launch_joined(action, op, args, context) &&
      !launch_by_library(action, op, args, context))
    launch_action(queue(action.stream), action, op, args, context);
}

// Bytes that stay as they are until the step is over.
std::byte* CudaBackend::pinned(std::size_t bytes) {
  if (pinned_used_ == pinned_.size()) pinned_.emplace_back();
  Pinned& p = pinned_[pinned_used_++];
  if (p.bytes < bytes) {
    if (p.data != nullptr) api_.release_pinned(p.data);
    p = {};
    p.data = static_cast<std::byte*>(api_.allocate_pinned(bytes));
    p.bytes = bytes;
  }
  return p.data;
}

void CudaBackend::load(Stream stream, const Operand& to, const void* from) {
  std::byte* const host = pinned(bytes_of(to));
  std::memcpy(host, from, bytes_of(to));
  // Maxima that are held back read nothing of it, and the sums that they wait for read this.
  if (stream == Stream::compute) {
    if (max_.sums) launch_held_max();
    launch_held_product();
    launch_held_sum();
    launch_held_updates();
  }
  api_.copy_in(to.data, host, bytes_of(to), lane(stream).queue.stream);
}

void CudaBackend::zero(Stream stream, const Operand& what) {
  if (what.elements > 0) api_.set_zero(what.data, bytes_of(what), queue(stream).stream);
}

void CudaBackend::cast(Stream stream, const Operand& from, const Operand& to) {
  const RangeOf range(api_, ActionKind::cast);
  if (from.type != to.type) return cuda::cast(queue(stream), view(to), view(from), to.elements);
  copy(stream, {.to = static_cast<std::byte*>(to.data),
                .from = static_cast<const std::byte*>(from.data),
                .width = bytes_of(to)});
}

void CudaBackend::cast_to_f8(Stream stream, const Operand& from, std::span<const Operand> to) {
  std::vector<View> views;
  for (const Operand& one : to) views.push_back(view(one));
  const RangeOf range(api_, ActionKind::cast);
  cuda::cast_to_f8(queue(stream), views, view(from));
}

void CudaBackend::add_into(Stream stream, const Operand& from, const Operand& into) {
  const RangeOf range(api_, ActionKind::accumulate);
  cuda::add_into(queue(stream), view(into), view(from), into.elements);
}

void CudaBackend::add_columns(Stream stream, const Operand& from, const Operand& into,
                              std::int64_t rows) {
  const RangeOf range(api_, ActionKind::accumulate);
  const std::int64_t width = from.elements / rows, columns = into.elements / rows;
  put_columns(queue(stream), view(into), view(from), {rows, columns, columns - width, width},
              true);
}

void CudaBackend::dequantise(Stream stream, planner::Quantization kind, const Operand& codes,
                             const Operand& matrix) {
  const RangeOf range(api_, ActionKind::dequantise);
  decode_matrix(queue(stream), kind, codes.data, view(matrix), matrix.elements, codes.elements,
                device_.maps);
}

void CudaBackend::update(Stream stream, const exec::Update& u) {
  if (recording_.open) recording_.hyper = u.hyper;
  const ParameterUpdate own{u.parameters, {u.slots.begin(), u.slots.end()}};
  if (stream == Stream::compute) return hold_update(u, own);
  const RangeOf range(api_, ActionKind::optimizer);
  cuda::update(queue(stream), u.kind, u.hyper, u.step, std::span(&own, 1), device_.maps,
               device_.stochastic, recording_.open ? recording_.numbers : nullptr);
}

void CudaBackend::add_squares(Stream stream, host::View x, std::int64_t n, double* sum) {
  const RangeOf range(api_, ActionKind::square_sum);
  cuda::add_squares(queue(stream), sum, x, n);
}

void CudaBackend::step_loss_scale(Stream stream, host::LossScaleState* state,
                                  const double* squares, const host::LossScaleRule& rule) {
  const RangeOf range(api_, ActionKind::scale_step);
  cuda::step_loss_scale(queue(stream), state, squares, rule);
}

void CudaBackend::copy(Stream stream, const RowCopy& c) {
  if (c.width > 0 && c.rows > 0) api_.copy(c, queue(stream).stream);
}

MessageMemory& CudaBackend::messages(Stream stream) { return lane(stream).messages; }

void CudaBackend::signal(Stream stream, std::size_t event) {
  if (recording_.open) recording_.happened[event] = 1;
  api_.record((recording_.open ? recording_.events : events_)[event], queue(stream).stream);
}
// What happened before a recording began is past whenever that is replayed.
void CudaBackend::wait(Stream stream, std::size_t event) {
  if (recording_.open && recording_.happened[event] == 0) return;
  api_.wait(queue(stream).stream, (recording_.open ? recording_.events : events_)[event]);
}
void CudaBackend::drain() {
  Watch* const watch = device_.watch;
  for (std::size_t s = 0; s < lanes_.size(); ++s) {
    if (!lanes_[s]) continue;
    const StreamHandle stream = queue(static_cast<Stream>(s)).stream;
    if (watch == nullptr)
      api_.synchronise(stream);
    else
      api_.synchronise(stream, [watch] { watch->look(); });
  }
  if (watch != nullptr) watch->drained();
  pinned_used_ = 0;
}

// A product that is held back stays so, or a step with marks would have other bits: its time is
// then its successor's.
double CudaBackend::mark(Stream stream) {
  if (stream == Stream::compute) {
    launch_held_sum();
    launch_held_updates();
  }
  const StreamHandle handle = lane(stream).queue.stream;
  Lane& l = lane(stream);
  if (l.marks_used == l.marks.size()) l.marks.push_back(api_.create_event(true));
  api_.record(l.marks[l.marks_used], handle);
  return static_cast<double>(stream) * kLaneStep + static_cast<double>(l.marks_used++);
}

double CudaBackend::seconds(double mark) {
  const auto stream = static_cast<std::size_t>(mark / kLaneStep);
  const auto index = static_cast<std::size_t>(mark - static_cast<double>(stream) * kLaneStep);
  return base_seconds_ + api_.seconds_between(base_, lanes_[stream]->marks[index]);
}

void CudaBackend::begin_marks() {
  for (auto& l : lanes_)
    if (l) l->marks_used = 0;
  api_.record(base_, queue(Stream::compute).stream);
  base_seconds_ = core::steady_seconds();
}

// The device's moments are of the steady clock: marks are counted from one that is past there.
void CudaBackend::begin_records() {
  device_.records.begin();
  begin_marks();
  api_.synchronise(base_);
  base_seconds_ = core::steady_seconds();
}

}  // namespace exec::cuda
