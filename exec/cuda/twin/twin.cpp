#include "exec/cuda/twin/twin.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "core/clock.hpp"
#include "core/parse_units.hpp"
#include "exec/cuda/emulate/grid.hpp"
#include "exec/cuda/twin/state.hpp"
#include "exec/host/convert.hpp"
#include "exec/host/kernels.hpp"

namespace exec::cuda {

namespace {

constexpr std::chrono::microseconds kBetweenLooks{50};  // other processes need the cores too

void compute_product(const host::MixedGemm& product) {
  const core::DType type = product.c.view.type;
  const core::Bytes size = host::mixed_gemm_workspace(type, product.m, product.n, product.k);
  std::vector<std::byte> memory(static_cast<std::size_t>(size.value()) + 64);
  host::mixed_gemm(type, product,
                   host::Workspace(memory.data(), core::Bytes(size.value() + 64)));
}

void check_beside(const host::View& v) {
  PLANNER_CHECK(reinterpret_cast<std::uintptr_t>(v.data) % kProductAlignment == 0,
                "what a product has beside its matrices is off its alignment");
}

}  // namespace

// Any stream whose first work is free to run. Meetings that have begun are looked at now and then,
// and where nothing else is free: work behind one may not count on it to be over soon.
StreamHandle Twin::State::choose() {
  std::vector<StreamHandle> ready, begun;
  for (StreamHandle s : streams) {
    if (s->queue.empty()) continue;
    const Work& w = s->queue.front();
    if (w.meeting && w.meeting->begun)
      begun.push_back(s);
    else if (w.meeting ? w.meeting->may_begin() : !w.waits || w.event->happened >= w.number)
      ready.push_back(s);
  }
  if (!begun.empty() && (ready.empty() || random.below(drawn++, 4) == 0))
    for (StreamHandle s : begun)
      if (s->queue.front().meeting->is_over()) ready.push_back(s);
  if (ready.empty()) return nullptr;
  return ready[random.below(drawn++, ready.size())];
}

bool Twin::State::any_meeting() const {
  return std::ranges::any_of(streams, [](StreamHandle s) {
    return !s->queue.empty() && s->queue.front().meeting != nullptr;
  });
}

void Twin::State::await_others(std::unique_lock<std::mutex>& lock,
                               const std::function<void()>& look) {
  std::vector<std::pair<Meeting*, std::uint64_t>> first;
  for (StreamHandle s : streams)
    if (!s->queue.empty() && s->queue.front().meeting)
      first.emplace_back(s->queue.front().meeting.get(), s->queue.front().meeting->board_now());
  // Whoever changed the board since that moment keeps this device from being stuck.
  if (choose() != nullptr) return;
  for (const auto& [meeting, board] : first) meeting->stuck(board);
  lock.unlock();
  if (look) look();
  std::this_thread::sleep_for(kBetweenLooks);
  lock.lock();
}

void Twin::State::run_until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done,
                            const std::function<void()>& look) {
  while (!done()) {
    if (running) {
      changed.wait(lock);
      continue;
    }
    StreamHandle s = choose();
    if (s == nullptr && any_meeting()) {
      await_others(lock, look);
      continue;
    }
    PLANNER_CHECK(s != nullptr, "streams wait for each other in a circle");
    if (const auto& meeting = s->queue.front().meeting; meeting && !meeting->begun) {
      meeting->begin();
      continue;
    }
    const Work work = std::move(s->queue.front());
    s->queue.pop_front();
    s->idle = false;
    running = true;
    if (work.run) {
      lock.unlock();
      work.run();
      lock.lock();
    } else if (!work.waits) {
      work.event->happened = std::max(work.event->happened, work.number);
      work.event->seconds = core::steady_seconds();
    }
    running = false;
    s->idle = true;
    changed.notify_all();
  }
}

Twin::Twin(const TwinOptions& options) : state_(std::make_unique<State>(options)) { bind(); }
void Twin::bind() { State::bound = state_.get(); }
Twin::~Twin() {
  for (PoolHandle pool : state_->pools) {
    for (auto& [memory, bytes] : pool->blocks) std::free(memory);
    delete pool;
  }
  for (StreamHandle s : state_->streams) delete s;
  for (EventHandle e : state_->events) delete e;
  for (GraphHandle g : state_->graphs) {
    for (EventHandle e : g->events) delete e;
    delete g;
  }
  for (void* p : state_->pinned) std::free(p);
}

void Twin::fail(const std::string& call, int nth, FailureKind kind) {
  const std::scoped_lock lock(state_->mutex);
  state_->faults[call] = {nth, kind};
}

std::map<std::string, std::int64_t> Twin::launches() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->launched;
}

std::map<std::string, std::int64_t> Twin::launches_within() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->launched_within;
}

void Twin::push_range(const char* name) { State::ranges.emplace_back(name); }
void Twin::pop_range() { State::ranges.pop_back(); }

std::size_t Twin::pending() const {
  const std::scoped_lock lock(state_->mutex);
  std::size_t n = 0;
  for (StreamHandle s : state_->streams) n += s->queue.size();
  return n;
}

std::size_t Twin::leaked() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->streams.size() + state_->events.size() + state_->pools.size() +
         state_->pinned.size() + state_->graphs.size() + state_->library.blocks.size();
}

DeviceInfo Twin::device() {
  const std::scoped_lock lock(state_->mutex);
  state_->called("device");
  return {"twin of a GPU on the host", 9, 0, 4, std::size_t{227} << 10, state_->options.memory,
          "none", "none", "none"};
}

DeviceMemory Twin::memory() {
  const std::scoped_lock lock(state_->mutex);
  return {state_->options.memory - core::Bytes(state_->used), state_->options.memory};
}

PoolHandle Twin::create_pool() {
  const std::scoped_lock lock(state_->mutex);
  state_->called("create_pool");
  return state_->pools.emplace_back(new PoolOf);
}

void Twin::destroy(PoolHandle pool) noexcept {
  const std::scoped_lock lock(state_->mutex);
  for (auto& [memory, bytes] : pool->blocks) {
    state_->used -= bytes;
    std::free(memory);
  }
  std::erase(state_->pools, pool);
  delete pool;
}

PoolMarks Twin::marks(PoolHandle pool) {
  const std::scoped_lock lock(state_->mutex);
  return {core::Bytes(pool->most), core::Bytes(pool->most)};
}

void* Twin::allocate_pinned(std::size_t bytes) {
  const std::scoped_lock lock(state_->mutex);
  state_->called("allocate_pinned");
  void* memory = std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr)
    throw DeviceFailure(FailureKind::out_of_host_memory, "allocate_pinned", "the host has none");
  std::memset(memory, 0xFF, bytes);
  return state_->pinned.emplace_back(memory);
}

void Twin::release_pinned(void* memory) noexcept {
  const std::scoped_lock lock(state_->mutex);
  std::erase(state_->pinned, memory);
  std::free(memory);
}

StreamHandle Twin::create_stream(bool) {
  const std::scoped_lock lock(state_->mutex);
  state_->called("create_stream");
  return state_->new_stream();
}

// What was given to it is forgotten, as after a failure.
void Twin::destroy(StreamHandle stream) noexcept {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return stream->idle; });
  for (Work& w : stream->queue)
    if (w.event != nullptr && !w.waits) w.event->happened = std::max(w.event->happened, w.number);
  std::erase(state_->streams, stream);
  delete stream;
}

EventHandle Twin::create_event(bool) {
  const std::scoped_lock lock(state_->mutex);
  state_->called("create_event");
  return state_->events.emplace_back(new EventOf);
}

// An event lives on as long as work refers to it.
void Twin::destroy(EventHandle event) noexcept {
  const std::scoped_lock lock(state_->mutex);
  for (StreamHandle s : state_->streams)
    for (Work& w : s->queue)
      if (w.event == event) {
        w.event = nullptr;
        w.waits = false;
        w.run = [] {};
      }
  std::erase(state_->events, event);
  delete event;
}

void Twin::record(EventHandle event, StreamHandle stream) {
  const std::scoped_lock lock(state_->mutex);
  state_->called("record");
  if (state_->record_kept(event, stream)) return;
  state_->give(stream, {{}, event, ++event->recorded, false});
}

void Twin::wait(StreamHandle stream, EventHandle event) {
  const std::scoped_lock lock(state_->mutex);
  state_->called("wait");
  if (state_->wait_kept(stream, event)) return;
  if (event->recorded > 0) state_->give(stream, {{}, event, event->recorded, true});
}

void Twin::synchronise(StreamHandle stream) {
  std::unique_lock lock(state_->mutex);
  state_->called("synchronise");
  if (stream->graph != nullptr)
    throw DeviceFailure(FailureKind::graph, "synchronise", "the stream's work is being kept");
  state_->run_until(lock, [&] { return stream->queue.empty() && stream->idle; });
}

void Twin::synchronise(EventHandle event) {
  std::unique_lock lock(state_->mutex);
  state_->called("synchronise");
  const std::uint64_t number = event->recorded;
  state_->run_until(lock, [&] { return event->happened >= number; });
}

void Twin::synchronise(StreamHandle stream, const std::function<void()>& look) {
  std::unique_lock lock(state_->mutex);
  state_->called("synchronise");
  state_->run_until(lock, [&] { return stream->queue.empty() && stream->idle; }, look);
}

bool Twin::happened(EventHandle event) {
  const std::scoped_lock lock(state_->mutex);
  return event->happened >= event->recorded;
}

double Twin::seconds_between(EventHandle from, EventHandle to) {
  const std::scoped_lock lock(state_->mutex);
  return to->seconds - from->seconds;
}

void Twin::copy(const RowCopy& c, StreamHandle stream) {
  const std::scoped_lock lock(state_->mutex);
  state_->called("copy");
  // As cudaMemcpyAsync and cudaMemcpy2DAsync want it.
  PLANNER_CHECK(c.rows == 1 || (c.to_pitch >= c.width && c.from_pitch >= c.width),
                "rows of a copy lie in each other");
  PLANNER_CHECK(c.rows > 1 || c.to + c.width <= c.from || c.from + c.width <= c.to,
                "a copy reads where it writes");
  state_->give(stream, {[c] {
                          for (std::size_t r = 0; r < c.rows && c.width > 0; ++r)
                            std::memcpy(c.to + r * c.to_pitch, c.from + r * c.from_pitch, c.width);
                        }});
}

void Twin::copy_in(void* to, const void* pinned, std::size_t bytes, StreamHandle stream) {
  const std::scoped_lock lock(state_->mutex);
  state_->called("copy_in");
  state_->give(stream, {[=] { std::memcpy(to, pinned, bytes); }});
}

void Twin::copy_out(void* pinned, const void* from, std::size_t bytes, StreamHandle stream) {
  const std::scoped_lock lock(state_->mutex);
  state_->called("copy_out");
  state_->give(stream, {[=] { std::memcpy(pinned, from, bytes); }});
}

void Twin::set_zero(void* to, std::size_t bytes, StreamHandle stream) {
  const std::scoped_lock lock(state_->mutex);
  state_->called("set_zero");
  state_->give(stream, {[=] { std::memset(to, 0, bytes); }});
}

void Twin::launch(const Launch& l, StreamHandle stream) {
  const std::scoped_lock lock(state_->mutex);
  state_->called("launch");
  PLANNER_CHECK(static_cast<bool>(l.body), "a kernel that was not compiled for the host");
  PLANNER_CHECK(l.grid.x > 0 && l.grid.y > 0 && l.grid.z > 0, "a GPU refuses an empty grid");
  PLANNER_CHECK(l.grid.y <= 65535 && l.grid.z <= 65535, "grids of a GPU are that narrow");
  PLANNER_CHECK(l.shared <= std::size_t{227} << 10, "more shared memory than a GPU has");
  state_->count(l.name);
  state_->doing = l.name;
  const auto index = [](const Extent& e) { return emulate::Index{e.x, e.y, e.z}; };
  state_->give(stream, {state_->metered([l, index] {
                 emulate::run(l.name, index(l.grid), index(l.block), l.shared, l.body);
               })});
}

void Twin::time_products(ProductChoices* kept) { state_->choices = kept; }

void Twin::State::choose(const host::MixedGemm& product, int then, const void* before) {
  if (choices != nullptr &&
      choices->of.emplace(key_of(product, then, before), ProductChoice{}).second)
    ++choices->added;
}

void Twin::multiply(const host::MixedGemm& product, void*, StreamHandle stream) {
  const std::scoped_lock lock(state_->mutex);
  state_->called("multiply");
  state_->choose(product, 0, nullptr);
  state_->count("product");
  check_beside(product.bias);
  state_->give(stream, {state_->metered([product] { compute_product(product); },
                                        metered_of(product))});
}

bool Twin::multiply_gelu(const host::MixedGemm& product, const host::View& before, bool gradient,
                         void*, StreamHandle stream) {
  const std::scoped_lock lock(state_->mutex);
  state_->called("multiply_gelu");
  check_beside(product.bias);
  check_beside(before);
  if (product.n % 8 != 0) return false;
  state_->choose(product, gradient ? 2 : 1, before.data);
  state_->count(gradient ? "product_gelu_gradient" : "product_gelu");
  Metered moved = metered_of(product);
  (gradient ? moved.bytes.read : moved.bytes.written) +=
      core::bytes_of(product.m * product.n, before.type).value();
  state_->give(stream, {state_->metered([product, before, gradient] {
                          const auto n = static_cast<std::size_t>(product.m * product.n);
                          std::vector<float> sums(n), kept(n);
                          host::MixedGemm wide = product;
                          wide.c = {{sums.data(), core::DType::f32}, product.n};
                          compute_product(wide);
                          const std::int64_t count = product.m * product.n;
                          const host::View s = wide.c.view, k{kept.data(), core::DType::f32};
                          if (gradient) {
                            host::load(before, count, kept.data());
                            host::gelu_gradient(s, s, k, count);
                          } else {
                            host::store(before, count, sums.data());
                            host::gelu(s, s, count);
                          }
                          host::store(product.c.view, count, sums.data());
                        }, moved)});
  return true;
}

std::size_t Twin::product_workspace() { return 1 << 10; }

}  // namespace exec::cuda
