#include "planner/evaluate/product_share.hpp"

#include <boost/range/iterator_range.hpp>

#include "models/graph.hpp"
#include "models/ops/schema.hpp"
#include "planner/stage/graph_options.hpp"
#include "planner/strategy/strategy.hpp"
#include "sim/cost/kernel.hpp"
#include "sim/cost/launches.hpp"
#include "sim/cost/machine.hpp"

namespace planner {
namespace {

// The micro-batch is not known here: attention's calls are divided as for this many samples.
constexpr std::int64_t kSamples = 8;

// Seconds of a sample, by what sets them.
struct Seconds {
  double products = 0, others = 0;
};

void add(const models::Operator& op, const cost::Machine& machine, core::FlopsPerSecond peak,
         Seconds& all) {
  const core::Flops backward = op.flops_input_gradient + op.flops_weight_gradient;
  if (models::ops::schema(op.kind).work.by == models::ops::WorkOf::attention) {
    const double computed = op.causal ? 0.5 : 1;
    const auto time = [&](core::Flops flops, bool forward) {
      const auto [own, blocks] = cost::attention_kernel(op, forward, kSamples, machine);
      return flops / (peak * cost::attention_efficiency(forward, own, blocks, machine));
    };
    all.others += computed * (time(op.flops_forward, true) + time(backward, false)).value();
  } else if (op.is_gemm) {
    all.products += ((op.flops_forward + backward) / (peak * machine.gemm_efficiency)).value();
  } else {
    const core::Bytes moved =
        core::bytes_of(op.elements_forward + op.elements_backward, core::DType::bf16);
    all.others += (moved / machine.memory).value();
  }
}

}  // namespace

double product_share(const hw_profiles::Profile& profile, const Job& job,
                     const models::ModelSpec& model) {
  const cost::Machine machine = cost::make_machine(profile, {.attention = job.attention});
  const core::FlopsPerSecond peak = profile.gpu.peak_16bit;
  const bool known = machine.executor_kernels && profile.native.gemm_sustained &&
                     machine.attention_forward > 0 && peak.value() > 0;
  if (!known) return 1;
  const auto graph =
      models::build_graph(model, graph_options(job, Strategy{}, profile.framework));
  if (!graph.ok()) return 1;           // refused where it is asked about
  Seconds all;
  models::for_each_segment(*graph, [&](const models::Segment& segment) {
    for (const auto v : boost::make_iterator_range(boost::vertices(segment.graph)))
      add(segment.graph[v], machine, peak, all);
  });
  return all.products > 0 ? all.products / (all.products + all.others) : 1;
}

}  // namespace planner
