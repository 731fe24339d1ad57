#include "tests/property/check_prediction.hpp"

#include "sim/program/bound.hpp"
#include "sim/program/traffic.hpp"
#include "tests/catch.hpp"

namespace tests {

// What the communicators counted on a rank is what the Program says of it.
static void check_traffic(const ProgramRun& run, int rank) {
  std::map<std::string, std::string> predicted, measured;  // entry -> count payload wire
  const auto lines = [](const std::map<std::string, std::string>& entries) {
    std::string all;
    for (const auto& [entry, numbers] : entries) all += entry + " " + numbers + "\n";
    return all;
  };
  const auto text = [](std::int64_t count, core::Bytes payload, core::Bytes wire) {
    return std::to_string(count) + " " + std::to_string(payload.value()) + " " +
           std::to_string(wire.value());
  };
  // Servers apart count among a group that waits for them.
  const auto entry = [](program::Traffic what, std::string_view collective, int group) {
    std::string name(program::name(what));
    name += '.';
    name += collective;
    if (collective.starts_with("parameter_server")) return name;
    return name + '.' + std::to_string(group);
  };
  for (const program::TrafficEntry& e : program::rank_traffic(run.program, rank))
    predicted[entry(e.what, e.collective, e.group_size)] =
        text(e.count, e.payload, e.wire);
  for (const auto& [key, t] : run.ranks[static_cast<std::size_t>(rank)].traffic)
    if (t.wire.value() > 0)
      measured[entry(key.what, exec::collective_name(key), key.group_size)] =
          text(t.calls, t.payload, t.wire);
  CHECK(lines(predicted) == lines(measured));
}

void check_cell(const models::ModelSpec& spec, const Cell& cell, const std::string& recipe,
                std::int64_t global_batch) {
  INFO(cell.name << ": " << planner::to_text(cell.strategy) << " " << recipe);
  planner::Job job = tiny_job(spec, global_batch, recipe);
  job.lora_rank = cell.lora_rank;
  job.quantization = cell.quantization;
  job.attention = cell.attention;
  const ProgramRun run = run_program(spec, job, cell.strategy, 2);
  CHECK(run.replicas_agree);
  check_prediction(run);
}

void check_prediction(const ProgramRun& run, std::int64_t steps) {
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    INFO("rank " << r);
    const RankResult& executed = run.ranks[r];
    const auto& k = run.program.classes[static_cast<std::size_t>(executed.class_index)];
    const program::Replay predicted = program::replay(k, {.steps = steps});
    CHECK(executed.live == predicted.live);
    CHECK(executed.terms == predicted.terms);
    CHECK(executed.peaks == predicted.peaks);
    CHECK(executed.reserved == predicted.reserved);
    const core::Bytes bound = program::closed_form_live(k);
    CHECK(bound >= predicted.live);
    CHECK(static_cast<double>(bound.value()) <= 1.02 * static_cast<double>(predicted.live.value()));
    check_traffic(run, static_cast<int>(r));
  }
}

}  // namespace tests
