#pragma once
// Interpreter: one rank of a Program on the host. Walks the calls of the schedule, issues actions
// to streams, runs kernels, collectives and the optimizer on the rank's buffers, and keeps the
// ledger. One object per rank, used by that rank's thread; waits happen only where the Program has
// them.

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "exec/communicator/world.hpp"
#include "exec/interpret/data_source.hpp"
#include "exec/interpret/kernels.hpp"
#include "exec/interpret/rank_memory.hpp"
#include "exec/interpret/step_log.hpp"
#include "exec/interpret/streams.hpp"
#include "models/spec.hpp"
#include "planner/quantization.hpp"
#include "sim/program/program.hpp"

namespace exec {

// What all ranks of a run share; must outlive them.
struct RunContext {
  const program::Program& program;
  const models::ModelSpec& spec;
  const DataSource& data;
  World& world;
  std::uint64_t seed = 1;
  planner::Quantization quantization = planner::Quantization::none;  // of frozen matrices
};

// Seconds of one step on the issuing thread, by what it did. The rest of the step is idle time.
struct StepTimes {
  double step = 0, compute = 0, exposed_communication = 0, pipeline_wait = 0, optimizer = 0;
};

class Interpreter {
 public:
  Interpreter(const RunContext& context, int rank);
  ~Interpreter();

  // Step `index` (from 0), between two barriers of all ranks. Returns times; loss() afterwards is
  // this rank's share of the step's loss, if its class computes one.
  StepTimes step(std::int64_t index);
  std::optional<double> loss() const;

  // What the next step depends on: weights and optimizer state, buffer by buffer. Between steps.
  std::vector<std::span<std::byte>> state();
  // Returns once every rank has called it. Between steps.
  void barrier() { barrier_->barrier(); }
  // Later steps are recorded here; null: not. Between steps.
  void record_into(StepLog* log) { log_ = log; }

  const RankMemory& memory() const { return memory_; }
  // Counters of all communicators of this rank.
  CommunicatorStatistics statistics() const;
  // The stored flat weights, or shards, as double.
  std::vector<double> all_weights() const;
  const program::RankClass& rank_class() const { return class_; }
  int rank() const { return rank_; }
  std::int64_t forward_evaluations() const { return evaluations_; }

 private:
  void initialise_weights();
  void write_range(std::uint16_t buffer, bool shards, std::int64_t flat_offset,
                   const std::vector<double>& values);
  void open_communicators();
  void issue_all();
  void issue(const program::Action& action, const program::Call& call);
  void run(const program::Action& action, const program::Call& call,
           const std::vector<Operand>& args);
  void load(const program::Action& action, const program::Call& call, const Operand& into);
  void optimizer(const program::Call& call, const std::vector<Operand>& args);
  void transfer(const program::Action& action, const program::Call& call,
                const std::vector<Operand>& args);
  void copy(const program::Action& a, const program::Call& call,
            const std::vector<Operand>& args);
  void collective(const program::Transfer& t, Communicator& c, const program::Call& call,
                  const std::vector<Operand>& args);
  void rows_collective(const program::Transfer& t, Communicator& c, const Operand& rows,
                       const Operand& all);
  void account(const program::Action& action, double seconds);
  void log_memory(const program::Action& action, const program::Call& call);
  void log(const program::Action& action, const program::Call& call, std::uint32_t number,
           double start, double finish);
  Communicator& communicator_of(const program::Action& action);
  std::vector<std::byte>& scratch(program::Stream stream, std::size_t bytes);

  const RunContext& context_;
  const int rank_;
  const program::RankClass& class_;
  const int part_;
  KernelContext kernels_;
  RankMemory memory_;
  std::vector<std::byte> workspace_;
  std::vector<std::unique_ptr<Communicator>> channels_;
  std::vector<std::uint16_t> channel_of_action_;
  std::unique_ptr<Communicator> barrier_;
  std::array<CommunicatorStatistics, program::kStreams> copies_;  // between host and device
  std::vector<std::vector<std::byte>> scratch_;
  std::int64_t step_index_ = 0;
  std::int64_t evaluations_ = 0;
  std::uint32_t calls_ = 0;            // issued in this step
  StepLog* log_ = nullptr;
  StepTimes times_;
  Streams streams_;                    // last: its threads use all of the above
};

}  // namespace exec
