#include "cli/rank_process.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "cli/process.hpp"
#include "cli/run_options.hpp"
#include "core/check.hpp"
#include "exec/run/pack.hpp"
#include "exec/run/run.hpp"

namespace cli {
namespace {

// What every rank must know of a request, each field once: rank 0 packs them, the others unpack.
template <class Request, class Visit>
void each_shared(Request& r, const Visit& visit) {
  for (auto* text : {&r.backend, &r.communicator, &r.collectives, &r.data, &r.graphs, &r.attention,
                     &r.gelu, &r.deterministic, &r.device_times, &r.nccl})
    visit(*text);
  for (auto* text : {&r.checkpoint_dir, &r.trace, &r.tuned_products}) visit(*text);
  visit(r.deadline);
  visit(r.steps);
  visit(r.seed);
  visit(r.training);
  visit(r.candidate);
  visit(r.checkpoint_every);
  visit(r.trace_ops);
  visit(r.nccl_windows);
}

struct PackField {
  exec::Packer& packer;

  void operator()(const std::string& text) const { packer.text(text); }
  void operator()(const std::optional<std::string>& text) const {
    packer.value(text.has_value());
    packer.text(text.value_or(""));
  }
  template <class T>
  void operator()(const T& value) const {
    packer.value(value);
  }
};

struct UnpackField {
  exec::Unpacker& unpacker;

  void operator()(std::string& text) const { text = unpacker.text(); }
  void operator()(std::optional<std::string>& text) const {
    const auto given = unpacker.value<bool>();
    std::string value = unpacker.text();
    if (given) text = std::move(value);
  }
  template <class T>
  void operator()(T& value) const {
    value = unpacker.value<T>();
  }
};

// What rank 0 tells the others; empty: nothing is run.
std::string pack(const planner::Plan& plan, const RunRequest& request) {
  exec::Packer packer;
  packer.text(planner::to_json_text(plan));
  each_shared(request, PackField{packer});
  packer.value(static_cast<bool>(request.progress));
  return packer.take();
}

RunRequest unpack_request(exec::Unpacker& unpacker) {
  RunRequest request;
  each_shared(request, UnpackField{unpacker});
  if (unpacker.value<bool>()) request.progress = step_writer(request.steps);
  return request;
}

// The world has ended: says why where this rank is the one to say it. The carrier is not asked to
// finish, which it could not without the others.
[[noreturn]] void leave(exec::Processes& world, const std::string& why, bool followed) {
  if (!world.left())
    for (;;) ::pause();  // the progress thread is ending this process
  // The first rank to go takes the others with it within milliseconds, where a launcher sees to
  // that. So rank 0, which takes back what was half written, goes first.
  if (!followed && world.rank() != 0 && !world.speaks())
    std::this_thread::sleep_for(std::chrono::seconds(2));
  if (world.signal() == SIGINT && world.rank() == 0) write_reason("interrupted");
  if (world.signal() != 0) ::_exit(128 + world.signal());
  if (world.speaks()) write_reason(why);
  ::_exit(kFailed);
}

class Rank {
 public:
  Rank(exec::Processes& world, const RankOptions& options) : world_(world), options_(options) {}

  int lead(int count, char** arguments);
  int follow();

 private:
  core::Result<exec::RunRecord> run(const planner::Plan& plan, const RunRequest& request) {
    if (options_.prepare) options_.prepare(request);
    if (options_.run) return options_.run(world_, plan, request);
    exec::RunOptions options = run_options(request);
    options.processes = &world_;
    return exec::run(plan, options);
  }

  // Runs body; whatever it throws ends the world and this process.
  template <class Body>
  auto or_leave(const Body& body) {
    std::string why;
    try {
      return body();
    } catch (const exec::RunFailure& failure) {
      why = failure.what();
    } catch (const std::exception& error) {
      why = world_.fail(error.what());
    }
    leave(world_, why, options_.followed);
  }

  exec::Processes& world_;
  const RankOptions& options_;
};

int Rank::lead(int count, char** arguments) {
  bool told = false;
  const int code =
      run_planner(count, arguments, [&](const planner::Plan& plan, const RunRequest& r) {
        return or_leave([&] {
          told = true;
          world_.exchange(pack(plan, r));
          return run(plan, r);
        });
      });
  or_leave([&] {
    if (!told) world_.exchange("");
    world_.finish();
  });
  return code;
}

int Rank::follow() {
  return or_leave([&] {
    const std::string told = world_.exchange("").front();
    int code = kDone;
    if (!told.empty()) {
      exec::Unpacker unpacker(told);
      const auto plan = planner::parse_plan(unpacker.text(), "the plan of rank 0");
      PLANNER_CHECK(plan.ok(), core::to_text(plan.problems()));
      const RunRequest request = unpack_request(unpacker);
      const auto record = run(*plan, request);
      if (!record.ok()) code = core::exit_code(record.problems());
    }
    world_.finish();
    return code;
  });
}

}  // namespace

void be_rank(exec::Processes& world, const RankOptions& options, int count, char** arguments) {
  Rank rank(world, options);
  // What is left of the carrier and its threads needs no tidying, and a signal now is no
  // interruption.
  ::_exit(world.rank() == 0 ? rank.lead(count, arguments) : rank.follow());
}

}  // namespace cli
