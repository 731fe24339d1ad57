// Asynchronous servers of the Interpreter: pushes are taken as they come. The Program's order of
// turns is but one that may happen. A server apart from the workers takes them on its rank's
// thread; one on a worker's rank on a thread of its own, through all steps of the run: its worker's
// steps wait for none but their own replies.
#include "core/check.hpp"
#include "core/thread.hpp"
#include "exec/interpret/interpreter.hpp"
#include "sim/program/turns.hpp"

namespace exec {

using program::ActionKind;
using program::Call;

// Weights from before this run count as of the present version.
void Interpreter::begin_turns() {
  const auto workers = static_cast<std::size_t>(context_.program.mesh.data);
  const std::int64_t before = context_.first * context_.program.mesh.data;
  updates_.assign(class_.spans.size(), before);
  replied_.assign(class_.spans.size() * workers, before);
  for (std::size_t i = 0; i < class_.actions.size(); ++i)
    if (class_.actions[i].kind == ActionKind::serve_push)
      server_channel_ = channels_[channel_of_action_[i]].get();
  PLANNER_CHECK(server_channel_ != nullptr, "a server that takes no pushes");
}

// The call becomes that of the span whose push has come first, of any worker.
void Interpreter::take_turn(Call& call) {
  turn_ = server_channel_->next_push();
  const auto workers = static_cast<std::size_t>(context_.program.mesh.data);
  const auto span = static_cast<std::size_t>(turn_.key);
  PLANNER_CHECK(span < updates_.size(), "a push of no span");
  std::int64_t& replied = replied_[span * workers + static_cast<std::size_t>(turn_.worker)];
  staleness_.add(updates_[span] - replied);
  replied = ++updates_[span];
  call.layer = static_cast<std::uint16_t>(turn_.key);
}

// From 1: of the whole, or of this span where it is updated by each push.
std::int64_t Interpreter::update_number(const Call& call) const {
  return updates_.empty() ? step_index_ + 1 : updates_[call.layer];
}

// The step whose learning rate an update takes: a span that is updated by each push has as many
// updates in a step as there are workers.
std::int64_t Interpreter::step_of_update(std::int64_t number) const {
  return updates_.empty() ? step_index_ : (number - 1) / context_.program.mesh.data;
}

bool Interpreter::is_turn_beside(const Call& call) const {
  if (!serves_beside_) return false;
  return class_.actions[class_.blocks[call.block].first].kind == ActionKind::serve_push;
}

// Every turn of the run, in the calls that the Program has for each worker's.
void Interpreter::start_serving() {
  std::vector<Call> turns;
  std::int64_t in_step = 0;
  for (const Call& call : class_.begin) {
    if (!is_turn_beside(call)) continue;
    ++in_step;
    if (turns.size() < static_cast<std::size_t>(context_.program.mesh.data)) turns.push_back(call);
  }
  turns_of_step_ = in_step;
  const std::int64_t all = in_step * (context_.steps - context_.first);
  server_ = core::start_thread("parameter server", [this, turns = std::move(turns), all] {
    try {
      backend_->enter_thread();
      for (std::int64_t n = 0; n < all; ++n) serve_turn(turns);
    } catch (const std::exception& e) {
      context_.world.abort(rank_, e.what());
      const std::scoped_lock lock(turns_mutex_);
      turns_error_ = std::current_exception();
      turned_.notify_all();
    }
  });
}

void Interpreter::serve_turn(const std::vector<Call>& turns) {
  Call call = turns.front();
  take_turn(call);
  call.block = turns[static_cast<std::size_t>(turn_.worker)].block;
  const program::Block& block = class_.blocks[call.block];
  for (std::uint32_t i = block.first; i < block.last; ++i) {
    const program::Action& a = class_.actions[i];
    std::vector<Operand> args;
    for (std::uint32_t n = 0; n < a.arg_count; ++n)
      args.push_back(memory_.resolve(class_.views[a.first_arg + n], call));
    const double start = backend_->mark(a.stream);
    run(a, call, args);
    const double finish = backend_->mark(a.stream);
    const std::scoped_lock lock(turns_mutex_);
    log(a, call, static_cast<std::uint32_t>(turns_taken_), start, finish);
  }
  const std::scoped_lock lock(turns_mutex_);
  ++turns_taken_;
  turned_.notify_all();
}

// Returns once the turns of so many steps of the run are taken. Every worker's pushes of them come:
// none waits for anything else.
void Interpreter::await_turns(std::int64_t steps) {
  if (!server_.joinable()) return;
  std::unique_lock lock(turns_mutex_);
  turned_.wait(lock, [&] { return turns_error_ || turns_taken_ >= steps * turns_of_step_; });
  if (turns_error_) std::rethrow_exception(turns_error_);
}

}  // namespace exec
