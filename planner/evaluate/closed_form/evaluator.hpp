#pragma once
// Evaluator: memory and step time of a strategy in closed form, for several machines at once. One
// call of at() is a few hundred additions: the search asks it for every candidate, and lowers those
// that it prints. Strategies that it does not describe (see covers) are lowered by the caller.
//
// What neighbouring candidates share is kept from call to call: pieces by graph, stages by degrees
// and sharding, routines by checkpointing and micro-batch. Ask structure by structure, the schedule
// varying fastest. Not thread-safe; several evaluators may run side by side.

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "planner/evaluate/closed_form/stage_form.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "sim/cost/mixed.hpp"

namespace planner::closed_form {

// By machine, in the order of the questions.
struct Figures {
  core::Bytes device{};                // bound of the rank of greatest device
  core::Seconds step{};
};

class Evaluator {
 public:
  // questions: one job and model on one or more machines; they outlive the evaluator. REQUIRES:
  // one question where its machine has GPUs of several kinds, of which at most kMachines.
  explicit Evaluator(const std::vector<Question>& questions);

  // Takes a structure: a resolved strategy whose micro-batch is open. False: the closed form does
  // not describe it. graph: built for the strategy, one for each set of options; it outlives the
  // evaluator.
  bool prepare(const Strategy& resolved, const models::ModelGraph& graph);

  // What the pieces of a resolved strategy take on the machines; null where the closed form does
  // not describe it. Valid as long as the evaluator is.
  const Forms* forms(const Strategy& resolved, const models::ModelGraph& graph,
                     std::int64_t micro_batch);

  // REQUIRES: prepare() returned true. Valid until the next call of either.
  const std::vector<Figures>& at(std::int64_t micro_batch, std::int64_t grad_accum);
  // With GPUs of several kinds: what at() found for a data rank of the kind, all of whose stages
  // are on it. Figures are of a device as large as the first kind's.
  const Figures& of_kind(std::size_t kind) const { return of_kinds_[kind]; }
  // Of the rank that offloads most, whatever the micro-batch. REQUIRES: prepare() returned true.
  core::Bytes host_bytes() const;

 private:
  // The graph; what layers make again by themselves; split passes; chunks of the loss.
  using PiecesKey =
      std::tuple<const models::ModelGraph*, WithinLayer, bool, std::int64_t, ExpertDispatch>;
  // With GPUs of several kinds, columns are machines of one kind each, with its own links and with
  // those between kinds; the last column is the whole: each stage as its own GPUs take it.
  static constexpr std::size_t kColumns = kMachines + 1, kWhole = kMachines;
  // A pipeline rank that stands for others: first, second (the fullest of the middle), last.
  struct Role {
    StageForm* form = nullptr;         // one of forms_
    int stage = 0;
    // In what all ranks take it counts times / parts: the layers that it stands for, or ranks.
    std::int64_t times = 1, parts = 1;
    std::array<std::int64_t, kColumns> beside{};  // bytes beside what is live, by column
    std::size_t column = 0;            // of GPUs of several kinds, whose figures count
  };
  struct RoleFigures {
    StageForm::Live live;
    std::int64_t peak = 0;             // interleaved: of `live`
    std::array<StageTime, kColumns> time;
    std::array<std::vector<PassTimes>, kColumns> chunks;  // where plays()
  };
  struct AtMicroBatch {
    std::int64_t micro_batch = 0, grad_accum = 0;
    std::int64_t boundary = 0;         // bytes
    std::vector<RoleFigures> roles;
    std::array<Messages, kColumns> messages;
    std::array<MessageTime, kMachines> message;
    std::array<std::int64_t, kMachines> attention{};  // bytes (Forms::attention)
  };

  bool covers(const Strategy& s) const;
  std::optional<Pieces>& pieces(const Strategy& s, const models::ModelGraph& graph);
  bool take(const Strategy& s, Pieces& pieces);
  // Whether the forms of the stages before serve these, where their layers are the same.
  bool same_forms(const Strategy& s) const;
  // k, where every_k k means that one layer in k is computed again (stage::Policy::one_in_k):
  // what a rank takes follows which of its layers are. Else 1.
  std::int64_t counted(const Strategy& s) const;
  // What a rank takes follows which layers it has, so that each that differs from the one before
  // has a role.
  bool by_rank() const { return counted(strategy_) > 1 || rows_.several() || mixed_ != nullptr; }
  void use_kinds(const Question& question);
  const hw_profiles::Profile& profile_of(std::size_t column) const;
  // Of a kind of GPU: with its own links, or those between kinds.
  std::size_t column_of(std::size_t kind, bool apart) const;
  // Whose figures a stage takes; 0 where all GPUs are alike.
  std::size_t column_of_stage(std::int64_t stage) const;
  void add_whole(AtMicroBatch& at) const;
  // What a rank that holds so much takes of a device as large as the first kind's.
  std::int64_t scaled(std::int64_t held, const Role& role, const AtMicroBatch& known,
                      std::size_t column) const;
  // Whether the second rank may stand for all between the first and the last.
  bool second_is_fullest(const Strategy& s) const;
  bool number_kinds();                 // false: too many rows
  std::vector<stage::ChunkShape> chunks_of(std::size_t rank) const;
  void make_places();
  void make_roles();
  Messages messages(std::size_t machine, const MessageTime& time) const;
  const AtMicroBatch& routines(std::int64_t micro_batch, std::int64_t grad_accum);
  // On one machine, of the strategy's grad_accum and what held_ says of it.
  Figures figures_of(const AtMicroBatch& known, std::size_t machine);
  // Of a rank of runs_[run], and of all ranks between the ends.
  using Part = std::int64_t (*)(const StageTime&);
  std::int64_t of_run(const AtMicroBatch& known, std::size_t machine, std::size_t run,
                      Part part) const;
  std::int64_t of_middle(const AtMicroBatch& known, std::size_t machine, Part part) const;
  // Whether passes are played one by one: of chunks that differ, under schedules whose formulas are
  // those of equal ones, where they are few. Of many the formulas are not far off.
  bool plays() const;
  bool norm() const { return takes_norm(*structure_.job); }
  // Of a step, in picoseconds.
  std::int64_t played(const AtMicroBatch& known, std::size_t machine);
  // Of the strategy's schedule.
  const RecordedPasses& recorded_passes();
  // All passes of 1f1b, in picoseconds, for any stages, where messages are free.
  std::int64_t in_turns(const AtMicroBatch& known, std::size_t machine) const;
  // All passes of a step of pipelines without flush, and what their messages hold up.
  std::int64_t without_flush(const AtMicroBatch& known, std::size_t machine) const;

  const std::vector<Question>& questions_;
  std::vector<const cost::Machine*> machines_;
  const cost::Mixed* mixed_ = nullptr;  // null: GPUs of a machine are alike
  std::vector<Figures> of_kinds_;
  std::map<PiecesKey, std::optional<Pieces>> pieces_;
  std::pair<const PiecesKey, std::optional<Pieces>>* latest_ = nullptr;  // asked for
  Strategy strategy_;
  TransferTimes transfers_;
  Structure structure_;
  Pieces* current_ = nullptr;
  KindRows rows_;
  std::vector<std::int64_t> kinds_;    // of each stage its row; empty where all layers are alike
  std::int64_t kinds_of(std::size_t place) const { return kinds_.empty() ? 0 : kinds_[place]; }
  // By machine: links of the pipeline's line inside and across nodes, whether that from the last
  // rank to the first is across, and of the two links of one rank (in the line; in the ring) how
  // many at most are.
  struct Links {
    std::int64_t inside = 0, across = 0;
    bool back_across = false;
    int pair = 0, ring_pair = 0;
  };
  Links links_of(std::int64_t stride, std::int64_t per_node) const;
  bool crosses(std::int64_t rank, std::int64_t stride, std::int64_t per_node) const;
  std::int64_t near_message(const MessageTime& time) const;
  // Of each rank's link to the next, of the last one's to the first.
  std::vector<std::int64_t> message_of_links(const AtMicroBatch& known, std::size_t column) const;
  std::vector<Links> links_;
  // Ranks between first and last: layers of all, and rows of ranks that hold equally many (and the
  // same kinds of them).
  struct Run {
    std::int64_t layers = 0, kinds = 0, ranks = 0;
    std::size_t column = 0;
  };
  std::int64_t middle_layers_ = 0;
  std::vector<Run> runs_;
  // Of stages that differ in their layers alone, those of the divisions before, too.
  struct Formed {
    std::unique_ptr<StageForm> form;
    // Bytes that the rank takes besides its live buffers (overhead_bytes), by machine.
    std::array<std::int64_t, kMachines> beside{};
  };
  const Formed& form_of(std::size_t rank);
  std::vector<Formed> forms_;
  std::vector<Role> roles_;
  std::vector<AtMicroBatch> known_;    // the first known_count_; the others lend their storage
  std::size_t known_count_ = 0;
  // Schedule, ranks, chunks of each and micro-batches: all that the order of passes depends on.
  using ScheduleShape = std::tuple<Schedule, std::int64_t, std::int64_t, std::int64_t>;
  std::map<ScheduleShape, RecordedPasses> recorded_;
  StageForm::Shared shared_;
  std::vector<std::int64_t> held_;     // bytes, by role
  std::vector<Figures> figures_;
};

}  // namespace planner::closed_form
