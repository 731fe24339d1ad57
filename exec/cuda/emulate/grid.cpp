#include "exec/cuda/emulate/grid.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <exception>
#include <string>
#include <vector>

#include "core/check.hpp"

// GCC says so by a macro, Clang by a feature.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PLANNER_TSAN
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define PLANNER_TSAN
#endif

// The thread sanitizer keeps a stack of calls for each fiber. A function that is entered and never
// left must not stand there: a fiber that begins anew for every block would overrun it.
#if defined(PLANNER_TSAN)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}
#if defined(__clang__)
#define PLANNER_NEVER_LEFT __attribute__((disable_sanitizer_instrumentation))
#else
#define PLANNER_NEVER_LEFT __attribute__((no_sanitize_thread))
#endif
#else
#define PLANNER_NEVER_LEFT
#endif

#if defined(__x86_64__)
// Saves what a callee must keep, and the stack pointer at *from; goes on where `to` was saved.
asm(R"(
.text
.local planner_change_stack
.type planner_change_stack, @function
planner_change_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size planner_change_stack, .-planner_change_stack
)");
extern "C" void planner_change_stack(void** from, void* to);
#else
#include <ucontext.h>
#endif

namespace emulate {
namespace {

constexpr std::size_t kStackBytes = 256 << 10;  // touched pages alone take memory
constexpr unsigned kWarp = 32;
constexpr unsigned kMostThreads = 1024;

enum class At : std::uint8_t { start, running, warp, block, end };

class Fiber {
 public:
  State state;
  At at = At::start;

  void begin(unsigned number) {
#if defined(__x86_64__)
    if (stack_ == nullptr) map();
    // Tops at the same place of every stack would share one set of the cache.
    auto** top = reinterpret_cast<void**>(stack_ + kStackBytes - number * 192 % 16384);
    *--top = nullptr;                  // as if entry() had been called: 8 bytes off 16
    *--top = reinterpret_cast<void*>(&entry);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    context_ = top;
#else
    (void)number;
    if (stack_ == nullptr) map();
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_;
    context_.uc_stack.ss_size = kStackBytes;
    context_.uc_link = nullptr;
    makecontext(&context_, &entry, 0);
#endif
    at = At::start;
    state.copies_asked = 0;
    state.copies.clear();
  }
  void resume();                       // returns when it waits or ends
  PLANNER_NEVER_LEFT void leave(At why);  // called on the fiber itself

 private:
  [[noreturn]] PLANNER_NEVER_LEFT static void entry();
  void map() {
    void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    PLANNER_CHECK(memory != MAP_FAILED, "no memory for the stack of an emulated thread");
    stack_ = static_cast<std::byte*>(memory);
#if defined(PLANNER_TSAN)
    tsan_ = __tsan_create_fiber(0);
#endif
  }
  std::byte* stack_ = nullptr;         // kept for the next block, until the process ends
#if defined(PLANNER_TSAN)
  void* tsan_ = nullptr;
#endif
#if defined(__x86_64__)
  void* context_ = nullptr;
#else
  ucontext_t context_{};
#endif
};

// What one host thread emulates.
struct Machine {
  std::vector<Fiber> fibers{kMostThreads};
  Fiber* current = nullptr;
  const std::function<void()>* body = nullptr;
  const char* name = "";
  std::vector<std::byte> shared;
  std::byte* shared_aligned = nullptr;
  std::size_t shared_bytes = 0;
  // What lanes hand over: of this exchange, and of the one before, which others may still read.
  struct Slots {
    alignas(16) std::byte of[2][kWarp * kLargestExchange];
    unsigned round = 0;
  };
  std::array<Slots, kMostThreads / kWarp> slots;
#if defined(PLANNER_TSAN)
  void* tsan_home = nullptr;
#endif
#if defined(__x86_64__)
  void* home = nullptr;
#else
  ucontext_t home{};
#endif
};
Machine& machine() {
  thread_local Machine one;
  return one;
}

void Fiber::resume() {
  Machine& m = machine();
  m.current = this;
  emulate::running = &state;
  at = At::running;
#if defined(PLANNER_TSAN)
  m.tsan_home = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_, 0);
#endif
#if defined(__x86_64__)
  planner_change_stack(&m.home, context_);
#else
  swapcontext(&m.home, &context_);
#endif
}

void Fiber::leave(At why) {
  Machine& m = machine();
  at = why;
#if defined(PLANNER_TSAN)
  __tsan_switch_to_fiber(m.tsan_home, 0);
#endif
#if defined(__x86_64__)
  planner_change_stack(&context_, m.home);
#else
  swapcontext(&context_, &m.home);
#endif
}

void Fiber::entry() {
  (*machine().body)();
  machine().current->leave(At::end);
  std::terminate();
}

// Runs the lanes [first, last) until each waits at the block's barrier or has ended.
void run_warp(unsigned first, unsigned last) {
  Machine& m = machine();
  for (;;) {
    unsigned at_warp = 0, at_block = 0;
    for (unsigned t = first; t < last; ++t) {
      Fiber& f = m.fibers[t];
      if (f.at == At::end) continue;
      f.resume();
      at_warp += f.at == At::warp;
      at_block += f.at == At::block;
    }
    PLANNER_CHECK(
        at_warp == 0 || at_block == 0,
        std::string(m.name) + ": some lanes of a warp exchange, others wait for the block");
    if (at_warp == 0) return;
    ++m.slots[first / kWarp].round;
  }
}

void run_block(unsigned threads) {
  Machine& m = machine();
  for (unsigned t = 0; t < threads; ++t) m.fibers[t].begin(t);
  for (bool waits = true; waits;) {
    for (unsigned t = 0; t < threads; t += kWarp) run_warp(t, std::min(t + kWarp, threads));
    waits = false;
    for (unsigned t = 0; t < threads; ++t) waits = waits || m.fibers[t].at == At::block;
  }
}

}  // namespace

std::byte* shared() { return machine().shared_aligned; }
std::size_t shared_bytes() { return machine().shared_bytes; }
const char* kernel_name() { return machine().name; }
void barrier() { machine().current->leave(At::block); }

const std::byte* exchange(const void* mine, std::size_t size) {
  Machine& m = machine();
  Fiber& f = *m.current;
  const auto thread = static_cast<unsigned>(&f - m.fibers.data());
  Machine::Slots& slots = m.slots[thread / kWarp];
  std::byte* const all = slots.of[slots.round % 2];
  std::memcpy(all + thread % kWarp * kLargestExchange, mine, size);
  f.leave(At::warp);
  return all;
}

void run(const char* name, Index grid, Index block, std::size_t shared_bytes,
         const std::function<void()>& body) {
  Machine& m = machine();
  const unsigned threads = block.x * block.y * block.z;
  PLANNER_CHECK(threads >= 1 && threads <= kMostThreads, std::string(name) + ": block too large");
  m.body = &body;
  m.name = name;
  m.shared_bytes = shared_bytes;
  m.shared.assign(shared_bytes + 128, std::byte{0xFF});  // nothing that a kernel may rely on
  const auto off = reinterpret_cast<std::uintptr_t>(m.shared.data()) % 128;
  m.shared_aligned = m.shared.data() + (128 - off);
  for (unsigned t = 0; t < threads; ++t) {
    State& s = m.fibers[t].state;
    s.thread = {t % block.x, t / block.x % block.y, t / (block.x * block.y)};
    s.block_extent = block;
    s.grid_extent = grid;
    s.lane = t % kWarp;
  }
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        for (unsigned t = 0; t < threads; ++t) m.fibers[t].state.block = {x, y, z};
        run_block(threads);
      }
}

}  // namespace emulate
