#include <array>
#include <memory>
#include <numeric>

#include <fmt/format.h>

#include "exec/calibrate/measured_points.hpp"
#include "exec/communicator/local.hpp"
#include "exec/interpret/interpreter.hpp"
#include "planner/lower.hpp"

namespace exec {

std::vector<LinkRow> link_points(PointBook& book) {
  std::vector<LinkRow> rows;
  if (book.ranks() == 1) return rows;
  constexpr std::array<std::int64_t, 6> kSizes{4 << 10, 64 << 10, 512 << 10, 2 << 20, 8 << 20,
                                               16 << 20};
  // Gradients were written long before they are sent, and lie in no cache: each call takes the next
  // part of more than caches hold.
  constexpr std::int64_t kCold = 256 << 20;
  for (const std::int64_t size : kSizes) {
    LocalWorld world(book.ranks());
    std::vector<int> group(static_cast<std::size_t>(book.ranks()));
    std::iota(group.begin(), group.end(), 0);
    struct Own {
      std::unique_ptr<Communicator> communicator;
      std::vector<float> memory;
      std::int64_t next = 0;
    };
    std::vector<Own> own(group.size());
    const std::int64_t n = size / static_cast<std::int64_t>(sizeof(float));
    const Point& p = book.measure(fmt::format("ring all-reduce of {} KiB", size >> 10), [&](int r) {
      Own& mine = own[static_cast<std::size_t>(r)];
      mine.communicator = world.communicator(r, group, 0);
      mine.memory.assign(kCold / sizeof(float), 0.0F);
      return [&mine, n] {
        mine.communicator->all_reduce(mine.memory.data() + mine.next * n, n, core::DType::f32,
                                      program::ReduceOp::sum, program::Algorithm::ring,
                                      program::Traffic::gradients);
        mine.next = (mine.next + 1) % (std::ssize(mine.memory) / n);
      };
    });
    rows.push_back({core::Bytes(size), p.median});
  }
  return rows;
}

double action_point(PointBook& book) {
  models::ModelSpec spec;
  spec.name = "narrow";
  spec.layers = 4;
  spec.hidden = 8;
  spec.heads = spec.kv_heads = 1;
  spec.ffn_hidden = 8;
  spec.vocab = 8;
  spec.positions = 2;
  planner::Job job;
  job.seq_len = 2;
  job.global_batch = 4;
  job.recipe = "fp32";
  planner::Strategy one;
  one.grad_accum = 4;
  const planner::Strategy s = planner::resolve(spec, job, one);
  const auto graph = models::build_graph(spec, planner::graph_options(job, s));
  PLANNER_CHECK(graph.ok(), "a model of width 8");
  const program::Program p = planner::lower(*graph, job, s);
  const DataSource data = DataSource::synthetic(spec, job.seq_len, 1);
  StepLog log;
  struct Own {
    std::unique_ptr<LocalWorld> world;
    std::unique_ptr<RunContext> context;
    std::unique_ptr<Interpreter> interpreter;
    std::int64_t step = 0;
  };
  std::vector<Own> own(static_cast<std::size_t>(book.ranks()));
  const Point& point = book.measure("step of a model of width 8", [&](int r) {
    Own& mine = own[static_cast<std::size_t>(r)];
    mine.world = std::make_unique<LocalWorld>(1);
    mine.context = std::make_unique<RunContext>(RunContext{p, spec, data, *mine.world, 1});
    mine.interpreter = std::make_unique<Interpreter>(*mine.context, 0);
    return [&mine] { mine.interpreter->step(mine.step++); };
  });
  // One step outside the timed ones counts its actions.
  LocalWorld world(1);
  const RunContext context{p, spec, data, world, 1};
  Interpreter counter(context, 0);
  counter.record_into(&log);
  counter.step(0);
  return point.median / static_cast<double>(log.streams[0].size());
}

}  // namespace exec
