// Of the interpreter what times of actions are accounted as, and how slower devices are emulated.
#include <chrono>
#include <thread>

#include "core/clock.hpp"
#include "exec/interpret/interpreter.hpp"
#include "sim/program/access.hpp"

namespace exec {

using program::Action;
using program::ActionKind;
using program::Stream;

static bool computes(const Action& a) {
  return a.stream == Stream::compute && a.kind != ActionKind::collective &&
         a.kind != ActionKind::send && a.kind != ActionKind::receive &&
         a.kind != ActionKind::fence;
}

// What a slower device would take beyond what the kernel took. Sleeps are not shorter than kernels
// of tiny models, so several kernels' are slept at once.
void Interpreter::linger(const Action& a, double seconds) {
  if (!computes(a)) return;
  constexpr double kLeast = 1e-3;
  owed_ += (slowness_ - 1) * seconds;
  if (owed_ < kLeast) return;
  const double before = core::steady_seconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(owed_));
  owed_ -= core::steady_seconds() - before;
}

void Interpreter::account(const Action& a, double seconds) {
  if (program::updates(a.kind)) {
    times_.optimizer += seconds;
    return;
  }
  switch (a.kind) {
    case ActionKind::collective:
    case ActionKind::serve_push:
    case ActionKind::serve_pull:
      times_.exposed_communication += seconds;
      return;
    case ActionKind::fence:
      return;
    default:
      times_.compute += seconds;
  }
}

}  // namespace exec
