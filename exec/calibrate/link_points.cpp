#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <thread>

#include <fmt/format.h>

#include "core/thread.hpp"
#include "exec/calibrate/measured_points.hpp"
#include "exec/communicator/local.hpp"
#include "exec/host/kernels.hpp"
#include "exec/interpret/interpreter.hpp"
#include "planner/lowering/lower.hpp"

namespace exec {

namespace {

constexpr std::int64_t kLargestSum = 16 << 20;

// One rank's ring all-reduces of vectors of so many bytes between all ranks. Gradients were written
// long before they are sent, and lie in no cache: each call takes the next part of more than caches
// hold.
class Sums {
 public:
  Sums(LocalWorld& world, int rank, std::int64_t bytes)
      : n_(bytes / static_cast<std::int64_t>(sizeof(float))), memory_(kCold / sizeof(float)) {
    std::vector<int> group(static_cast<std::size_t>(world.ranks()));
    std::iota(group.begin(), group.end(), 0);
    communicator_ = world.communicator(rank, group, 0);
  }

  void sum() {
    communicator_->all_reduce(memory_.data() + next_ * n_, n_, core::DType::f32,
                              program::ReduceOp::sum, program::Algorithm::ring,
                              program::Traffic::gradients);
    next_ = (next_ + 1) % (std::ssize(memory_) / n_);
  }

 private:
  static constexpr std::size_t kCold = std::size_t{256} << 20;
  std::int64_t n_, next_ = 0;
  std::vector<float> memory_;
  std::unique_ptr<Communicator> communicator_;
};

// Products of a linear layer of GPT-2's inner width.
class Linears {
 public:
  void run() {
    for (int i = 0; i < 4; ++i)
      host::linear({y_.data(), kType}, {x_.data(), kType}, {w_.data(), kType}, {}, kShape, false,
                   {workspace_.data(), core::Bytes(std::ssize(workspace_))});
  }

 private:
  static constexpr core::DType kType = core::DType::f32;
  static constexpr std::int64_t kRows = 512, kInner = 3072, kWidth = 768;
  static constexpr host::LinearShape kShape{kRows, kInner, kWidth, kInner, kWidth};
  std::vector<float> y_ = std::vector<float>(kRows * kInner),
                     x_ = std::vector<float>(kRows * kWidth, 0.5F),
                     w_ = std::vector<float>(kInner * kWidth, 0.5F);
  std::vector<std::byte> workspace_ = std::vector<std::byte>(
      static_cast<std::size_t>(host::linear_workspace(kType, kShape).value()));
};

// A rank's sums beside its own thread. The other ranks' wait for them: where this thread cannot
// start, they end.
std::jthread summing_beside(LocalWorld& world, int rank, Sums& sums, int count) {
  try {
    return core::start_thread<std::jthread>("collectives beside computing", [&sums, count] {
      try {
        for (int i = 0; i < count; ++i) sums.sum();
      } catch (const Aborted&) {       // told by the rank that could not start
      }
    });
  } catch (const core::ThreadRefused& refused) {
    world.abort(rank, refused.what());
    throw;
  }
}

}  // namespace

std::vector<LinkRow> link_points(PointBook& book) {
  std::vector<LinkRow> rows;
  if (book.ranks() == 1) return rows;
  constexpr std::array<std::int64_t, 6> kSizes{4 << 10, 64 << 10, 512 << 10,
                                               2 << 20, 8 << 20,  kLargestSum};
  for (const std::int64_t size : kSizes) {
    LocalWorld world(book.ranks());
    std::vector<std::unique_ptr<Sums>> sums(static_cast<std::size_t>(book.ranks()));
    const Point& p = book.measure(fmt::format("ring all-reduce of {} KiB", size >> 10), [&](int r) {
      std::unique_ptr<Sums>& mine = sums[static_cast<std::size_t>(r)];
      mine = std::make_unique<Sums>(world, r, size);
      return [&mine] { mine->sum(); };
    });
    rows.push_back({core::Bytes(size), p.median});
  }
  return rows;
}

HoldRow hold_point(PointBook& book, const std::vector<LinkRow>& links) {
  LocalWorld world(book.ranks());
  struct Own { Linears linears; std::unique_ptr<Sums> sums; };
  std::vector<Own> own(static_cast<std::size_t>(book.ranks()));
  const auto at = [&](int r) -> Own& { return own[static_cast<std::size_t>(r)]; };
  const double alone = book.measure("linear layers alone", [&](int r) {
                             return [&mine = at(r)] { mine.linears.run(); };
                           }).median;
  // Computing ends last, also where both share a core: alone the sums would take half as long.
  const int count =
      std::clamp(static_cast<int>(alone / 2 / links.back().seconds), 1, 64);
  const std::string name = fmt::format("linear layers beside {} all-reduces", count);
  const double beside = book.measure(name, [&](int r) {
                              at(r).sums = std::make_unique<Sums>(world, r, kLargestSum);
                              return [&world, &mine = at(r), count, r] {
                                const auto summing = summing_beside(world, r, *mine.sums, count);
                                mine.linears.run();
                              };
                            }).median;
  const core::Bytes each = program::wire_bytes(
      program::Collective::all_reduce, program::Algorithm::ring, book.ranks(), 0,
      kLargestSum / static_cast<std::int64_t>(sizeof(float)), core::DType::f32);
  return {each * count, alone, beside};
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
  const program::Program p = planner::lower(*graph, job, s, {});
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
