#pragma once
// Interpreter: one rank of a Program. Walks the calls of the schedule, issues actions to streams,
// gives kernels, collectives and the optimizer to the rank's backend, and keeps the ledger. One
// object per rank, used by that rank's thread; waits happen only where the Program has
// them.

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "exec/communicator/world.hpp"
#include "exec/interpret/backend.hpp"
#include "exec/interpret/data_source.hpp"
#include "exec/interpret/kernels.hpp"
#include "exec/interpret/rank_memory.hpp"
#include "exec/interpret/step_log.hpp"
#include "exec/interpret/step_times.hpp"
#include "exec/interpret/streams.hpp"
#include "exec/training/schedule.hpp"
#include "models/spec.hpp"
#include "planner/question/quantization.hpp"
#include "sim/program/program.hpp"

namespace exec {

// Makes the backend of a rank, on that rank's thread.
using BackendFactory =
    std::function<std::unique_ptr<Backend>(const program::RankClass& rank_class, int rank)>;

// What all ranks of a run share; must outlive them. A world whose calls do not wait needs a backend
// that is not the host, and no servers that take turns. Without flush (RankSchedule) a run is of
// the steps [first, steps): it fills the pipeline anew and drains it.
struct RunContext {
  const program::Program& program;
  const models::ModelSpec& spec;
  const DataSource& data;
  World& world;
  std::uint64_t seed = 1;
  planner::Quantization quantization = planner::Quantization::none;  // of frozen matrices
  BackendFactory backends{};           // empty: the host
  std::int64_t first = 0, steps = 1;
  // Steps are kept by the backend once one has been given, and given again, by all ranks or by
  // none. REQUIRES: a schedule that flushes; one rank, or calls that do not wait, and no servers.
  bool keeps_steps = false;
  std::optional<Training> training{};  // empty: the optimizer's defaults, all the time
  // By rank: its kernels on the host take so many times as long, at least once. Empty: they do not.
  std::vector<double> slowness{};
};

// Of the pushes that an asynchronous server took: how many others it took between a worker's reply
// and that worker's next push, span by span. In the whole run.
struct Staleness {
  std::int64_t pushes = 0, sum = 0, most = 0;
  void add(std::int64_t others) {
    ++pushes;
    sum += others;
    most = std::max(most, others);
  }
};

class Interpreter {
 public:
  Interpreter(const RunContext& context, int rank);
  ~Interpreter();

  // Step `index` (from 0), between two barriers of all ranks; without flush and of servers that
  // take turns the first alone begins with one. Such a server's step is as many turns as its
  // workers push in a step, of whichever they are; on a worker's rank turns are taken beside the
  // worker's steps, and the last step of the run returns when all of them are. Returns times;
  // loss() afterwards is this rank's share of the step's loss, if its class computes one.
  StepTimes step(std::int64_t index);
  std::optional<double> loss() const;
  // After the steps so far; empty: the Program scales no loss.
  std::optional<host::LossScaleState> loss_scale() const;

  // What the next step depends on: weights (versions in the order in which steps to come read them)
  // and optimizer state, buffer by buffer. Between steps.
  // Where the backend's memory is not the host's these are copies: fetch_state() makes them what
  // the rank has, put_state() gives them to it.
  std::vector<std::span<std::byte>> state();
  void fetch_state();
  void put_state();
  // Returns once every rank has called it. Between steps.
  void barrier() { barrier_->barrier(); }
  // Later steps are recorded here; null: not. Between steps. A backend apart from the host tells
  // the parts of a step's time where it is recorded alone.
  void record_into(StepLog* log) {
    const std::scoped_lock lock(turns_mutex_);
    log_ = log;
  }

  const RankMemory& memory() const { return memory_; }
  const Backend& backend() const { return *backend_; }
  // Counters of all communicators of this rank.
  CommunicatorStatistics statistics() const;
  // The stored flat weights, or shards, as double; of several versions the newest.
  std::vector<double> all_weights() const;
  const program::RankClass& rank_class() const { return class_; }
  int rank() const { return rank_; }
  std::int64_t forward_evaluations() const { return evaluations_; }
  // No pushes: not an asynchronous server.
  const Staleness& staleness() const { return staleness_; }
  const KeptSteps& kept_steps() const { return kept_; }

 private:
  void initialise_weights();
  void initialise_loss_scale();
  void write_range(std::uint16_t buffer, bool shards, std::int64_t flat_offset,
                   std::span<const double> values);
  void write_frozen_shards(std::int64_t flat_offset, std::span<const double> values);
  void write_values(const Operand& to, std::int64_t at, std::span<const double> values);
  void write_codes(const program::QuantisedParameter& q, std::span<const std::byte> codes);
  void open_communicators();
  // Gives the backend the step, action by action or as what it kept of an earlier one.
  void give_step();
  void issue_all();
  // kept_steps.cpp
  bool keep_step();
  std::string record_step();
  void settle(CommunicatorStatistics& into);
  void repeat_step();
  void issue_block(const program::Call& call);
  // turns.cpp
  void begin_turns();
  void take_turn(program::Call& call);
  std::int64_t update_number(const program::Call& call) const;
  std::int64_t step_of_update(std::int64_t number) const;
  bool is_turn_beside(const program::Call& call) const;
  void start_serving();
  void serve_turn(const std::vector<program::Call>& turns);
  void await_turns(std::int64_t steps);
  void issue(const program::Action& action, const program::Call& call);
  void run(const program::Action& action, const program::Call& call,
           const std::vector<Operand>& args);
  double run_logged(const program::Action& action, const program::Call& call,
                    std::uint32_t number, const std::vector<Operand>& args);
  void linger(const program::Action& a, double seconds);
  std::int64_t first_sample(const program::Call& call) const;
  // samples.cpp
  void load(const program::Action& action, const program::Call& call, const Operand& into);
  void make_samples(const program::Action& action, std::int64_t first, const Operand& into,
                    std::vector<std::byte>& samples);
  void make_next_samples();
  void load_tokens(std::int64_t sample, int shift, std::span<std::int32_t> into);
  void scale_step(const program::Action& action, const std::vector<Operand>& args);
  void square_sum(const program::Action& action, const program::Call& call,
                  const std::vector<Operand>& args);
  template <class Visit>
  void for_own_parameters(const program::Call& call, std::int64_t elements, Visit&& visit) const;
  void optimizer(const program::Action& action, const program::Call& call,
                 const std::vector<Operand>& args);
  void transfer(const program::Action& action, const program::Call& call,
                const std::vector<Operand>& args);
  void copy(const program::Action& action, const program::Call& call,
            const std::vector<Operand>& args);
  void count_copy(const program::Action& action, const program::Call& call, double seconds);
  void collective(const program::Action& action, Communicator& c, const program::Call& call,
                  const std::vector<Operand>& args);
  void rows_collective(const program::Action& action, Communicator& c, const Operand& rows,
                       const Operand& all);
  // split_transfers.cpp
  void split_collective(const program::Action& action, Communicator& c, const Operand& from,
                        const Operand& into);
  void exchange_columns(const program::Action& action, Communicator& c, const Operand& from,
                        const Operand& into);
  // context_transfers.cpp
  void context_collective(const program::Action& action, Communicator& c, const Operand& from,
                          const Operand& into);
  void keys_collective(const program::Action& action, Communicator& c, const Operand& qkv,
                       const Operand& keys);
  void ring_shift(const program::Action& action, Communicator& c, const Operand& from,
                  const Operand& into);
  void share_keys(const program::Action& action, Communicator& c,
                  const std::vector<Operand>& args);
  void exchange_heads(const program::Action& action, Communicator& c, const Operand& from,
                      const Operand& into);
  void account(const program::Action& action, double seconds);
  void log_memory(const program::Action& action, const program::Call& call);
  void log(const program::Action& action, const program::Call& call, std::uint32_t number,
           double start, double finish);
  Communicator& communicator_of(const program::Action& action);
  void move(program::Stream stream, void* to, const void* from, core::Bytes bytes);
  std::vector<Operand> state_buffers() const;
  program::StepOf which() const;
  int version(std::uint16_t buffer, std::int64_t step) const;
  void resolve_log();

  const RunContext& context_;
  const int rank_;
  const program::RankClass& class_;
  const int part_;
  const Training training_;
  KernelContext kernels_;
  const std::unique_ptr<Backend> backend_;
  RankMemory memory_;
  std::vector<std::unique_ptr<Communicator>> channels_;
  std::vector<std::uint16_t> channel_of_action_;
  std::unique_ptr<Communicator> barrier_;
  std::array<CommunicatorStatistics, program::kStreams> copies_;  // between host and device
  std::vector<std::byte> samples_;     // of the load under way
  // What the first load of each kind brings at the next step, made while a device works.
  struct NextSamples {
    const program::Action* action;
    Operand into;
    std::int64_t first;                // sample that `samples` begin with; -1: none yet
    std::vector<std::byte> samples;
    std::int64_t wanted = 0;           // the same, at the next step
  };
  std::vector<NextSamples> next_;
  std::vector<std::vector<std::byte>> state_;  // copies of state buffers, apart from the host
  std::int64_t step_index_ = 0, next_step_ = 0;
  std::vector<std::byte> rounded_;     // of first values, while they are written
  std::int64_t evaluations_ = 0;
  std::uint32_t calls_ = 0;            // issued in this step
  const bool in_turns_;                // servers of the program are asynchronous
  const bool together_;                // ranks begin each step at one time
  bool began_ = false;
  const double slowness_;              // RunContext::slowness
  double owed_ = 0;                    // seconds, of kernels that have lasted too short
  // Of an asynchronous server; used by the thread that takes its turns.
  const bool serves_beside_;           // on a worker's rank
  Communicator* server_channel_ = nullptr;
  PendingPush turn_{};                 // the push that is answered
  std::vector<std::int64_t> updates_;  // by span
  std::vector<std::int64_t> replied_;  // by span and worker: the span's updates at its last reply
  Staleness staleness_;
  // What a step that is given again needs of the host.
  struct HostWork {
    const program::Action* action;
    program::Call call;
    std::vector<Operand> args;
  };
  std::vector<HostWork> host_work_;    // of the kept step
  CommunicatorStatistics traffic_of_kept_step_;
  CommunicatorStatistics settled_;     // that channels no longer count
  bool has_kept_step_ = false;
  KeptSteps kept_;
  bool keeping_ = false;               // work goes to the backend's recording
  bool repeating_ = false;             // loads refill what is kept
  std::int64_t turns_of_step_ = 0;
  std::mutex turns_mutex_;             // guards what follows where a server is beside
  std::condition_variable turned_;
  std::int64_t turns_taken_ = 0;
  std::exception_ptr turns_error_;
  StepLog* log_ = nullptr;
  StepTimes times_;
  Streams streams_;                    // its threads use all of the above
  std::thread server_;                 // last, likewise
};

}  // namespace exec
