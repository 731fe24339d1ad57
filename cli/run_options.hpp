#pragma once
// The request of the command line as the executor takes it. Seen by the binaries that link the
// executor alone. The request must outlive what is made of it.

#include <fmt/format.h>

#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/untrusted.hpp"
#include "exec/run/run.hpp"

namespace cli {

inline exec::RunOptions run_options(const RunRequest& request) {
  exec::RunOptions options;
  options.backend = request.backend;
  options.communicator = request.communicator;
  options.data = request.data;
  options.steps = request.steps;
  options.seed = request.seed;
  options.training = request.training;
  options.candidate = request.candidate;
  options.checkpoint_dir = request.checkpoint_dir;
  options.checkpoint_every = request.checkpoint_every;
  if (request.skip_damaged)
    options.set_aside = [](const core::Problems& damage, const std::string& name) {
      core::Problem what = damage.front();
      what.fix.clear();
      write_reason(fmt::format("a damaged checkpoint is passed over, and now called {}: {}",
                               core::visible(name), core::to_text(what)));
    };
  if (request.trace)
    options.trace = exec::TraceTarget{
        *request.trace,
        {request.trace_ops ? exec::TraceDetail::op : exec::TraceDetail::block,
         request.trace_choice},
        [](const std::string& text) { write_reason(text); }};
  if (request.graphs != "auto")
    options.graphs = request.graphs == "on" ? exec::Graphs::on : exec::Graphs::off;
  if (request.links)
    options.links = request.links->of_plan
                        ? exec::Paced{}
                        : exec::Paced{exec::Link{request.links->bandwidth, request.links->latency}};
  if (request.progress)
    options.progress = [&request](const exec::Progress& p) {
      request.progress({p.step, p.loss, p.learning_rate, p.seconds, p.tokens_per_second, p.share,
                        p.live});
    };
  return options;
}

}  // namespace cli
