#include "tests/property/check_close.hpp"

#include <algorithm>
#include <cmath>

#include "planner/lowering/lower.hpp"
#include "tests/catch.hpp"
#include "tests/property/strategies.hpp"

namespace tests {
namespace {

const models::Parameter& parameter(const program::Program& p, const std::string& path) {
  for (const program::RankClass& k : p.classes)
    for (const program::PlacedParameter& placed : k.parameters)
      if (placed.path == path) return placed.parameter;
  throw std::invalid_argument("no parameter " + path);
}

// Sizes of the split axis's blocks, each of which is divided by itself.
std::vector<std::int64_t> blocks_of(const models::Parameter& p) {
  if (!p.split_blocks.empty()) return p.split_blocks;
  const std::int64_t full = p.full_shape[static_cast<std::size_t>(p.split_axis)];
  return std::vector<std::int64_t>(static_cast<std::size_t>(p.split_groups),
                                   full / p.split_groups);
}

// Shards that divide an axis, one behind the other, as the whole.
std::vector<double> joined(const models::Parameter& p, const std::vector<double>& shards) {
  std::size_t inner = 1;
  const auto axis = static_cast<std::size_t>(p.ways_axis);
  for (std::size_t i = axis + 1; i < p.shape.size(); ++i)
    inner *= static_cast<std::size_t>(p.shape[i]);
  const std::size_t run = inner * static_cast<std::size_t>(p.shape[axis]);
  const auto ways = static_cast<std::size_t>(p.expert_ways);
  const std::size_t shard = shards.size() / ways;
  std::vector<double> whole(shards.size());
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::size_t rank = i / shard, outer = i % shard / run;
    whole[(outer * ways + rank) * run + i % run] = shards[i];
  }
  return whole;
}

// The whole parameter from its shards; counts what padding holds that is not zero.
std::vector<double> gather(const models::Parameter& p,
                           const std::vector<std::vector<double>>& shards, int* dirty_padding) {
  if (p.split_axis < 0) return joined(p, shards[0]);
  std::int64_t outer = 1, inner = 1;
  const auto axis = static_cast<std::size_t>(p.split_axis);
  for (std::size_t i = 0; i < p.full_shape.size(); ++i)
    if (i != axis) (i < axis ? outer : inner) *= p.full_shape[i];
  const std::int64_t full = p.full_shape[axis], own = p.shape[axis];
  std::vector<double> whole(static_cast<std::size_t>(outer * full * inner), std::nan(""));
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    std::size_t next = 0;
    for (std::int64_t o = 0; o < outer; ++o) {
      std::int64_t begin = o * full;
      for (const std::int64_t block : blocks_of(p)) {
        const std::int64_t mine = p.split_blocks.empty() ? own / p.split_groups
                                                         : block * own / full;
        for (std::int64_t i = 0; i < mine * inner; ++i) {
          const double value = shards[rank][next++];
          const std::int64_t place = static_cast<std::int64_t>(rank) * mine + i / inner;
          if (place >= block)
            *dirty_padding += value != 0.0;
          else
            whole[static_cast<std::size_t>((begin + place) * inner + i % inner)] = value;
        }
        begin += block;
      }
    }
  }
  return whole;
}

// A parameter is as large as this at least: a bias before a norm of channels, whose gradient is 0,
// is moved by rounding alone.
constexpr double kLeastMagnitude = 1e-3;

// Greatest difference over the greatest magnitude of the parameter.
double relative_error(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  double error = 0, magnitude = kLeastMagnitude;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double off = std::abs(found[i] - expected[i]);
    error = std::isnan(off) ? off : std::max(error, off);
    magnitude = std::max(magnitude, std::abs(expected[i]));
  }
  return error / magnitude;
}

}  // namespace

ReferenceResult single_rank(const planner::Job& job, const models::ModelSpec& spec) {
  const planner::Strategy s = planner::resolve(spec, job, strategy(1, job.global_batch, 1));
  const auto graph = models::build_graph(spec, planner::graph_options(job, s));
  REQUIRE(graph.ok());
  const auto data = exec::DataSource::synthetic(spec, job.seq_len, kSeed);
  return train_reference(spec, job, planner::lower(*graph, job, s, {}), data,
                         {s.grad_accum, s.micro_batch}, kSteps, kSeed);
}

ReferenceResult one_rank(const models::ModelSpec& spec, const planner::Job& job,
                         std::int64_t micro_batch) {
  const ProgramRun run = run_program(spec, job, strategy(1, 12, micro_batch), kSteps, kSeed);
  ReferenceResult result;
  result.losses = run.losses;
  for (const auto& [path, shards] : run.weights) result.weights[path] = shards.front();
  return result;
}

void check_close(const models::ModelSpec& spec, const planner::Job& job,
                 const ReferenceResult& expected, const planner::Strategy& s,
                 double loss_tolerance, double tolerance, std::int64_t steps) {
  INFO(spec.name << " " << planner::to_text(s));
  const ProgramRun run = run_program(spec, job, s, steps, kSeed);
  CHECK(run.replicas_agree);
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    CHECK(std::abs(run.losses[i] - expected.losses[i]) <= loss_tolerance * expected.losses[i]);
  int dirty_padding = 0;
  for (const auto& [path, values] : expected.weights) {
    INFO(path);
    const models::Parameter& p = parameter(run.program, path);
    const auto& shards = run.weights.at(path);
    REQUIRE(static_cast<std::int64_t>(shards.size()) == s.tensor);
    const double error = relative_error(gather(p, shards, &dirty_padding), values);
    INFO("error in units of the tolerance: " << error / tolerance);
    CHECK(error <= tolerance);
    if (p.split_axis < 0 && p.expert_ways == p.data_ways)
      for (const auto& copy : shards) CHECK(copy == shards[0]);
  }
  CHECK(dirty_padding == 0);
  CHECK(run.weights.size() == expected.weights.size());
}

}  // namespace tests
