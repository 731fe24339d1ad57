#pragma once
// The Program: what every rank does in one step. The planner's memory and traffic, the simulator
// and the executor all interpret this one description, so prediction and measurement differ in
// durations alone.
//
// Ranks that do the same thing share a RankClass. A class stores straight-line blocks of actions
// ("forward of a layer"), routines (which blocks, for which layers, make the forward pass of one
// micro-batch through one chunk), and a schedule that orders routines over chunks and
// micro-batches; a Cursor yields the calls in O(1) memory. Nothing is stored per rank or per
// micro-batch.
//
// Issue order. Each rank issues its actions one after another, on several in-order streams. Alloc
// and free take effect in issue order. An action starts when it is first in its stream and the
// events that it waits for have happened. A wait refers to the latest signal of that event instance
// issued before it (as cudaStreamWaitEvent does); where none was issued yet the wait holds at once,
// and must be marked as such (Wait::may_precede).
//
// Accumulation order, so that "equal" is well defined: micro-batches ascend in every schedule;
// within a micro-batch parameter gradients are added in action order (in a V a rank may hold
// both ends of the model: tied embeddings and head add to one gradient in the order of its passes);
// over ranks by reduction_order() of each collective; see Accumulation.
//
// Pipelines without flush (RankSchedule::flushes). Steps are not alike: the first one of a run
// begins with the passes that fill the pipeline, the last one leaves out forward passes that no
// step has, and after it `finish` gives back what is still held. Micro-batches are numbered
// through the run.
// The weights have several versions, one for each of the latest steps (Buffer::share): the update
// of a step writes the version that its own micro-batches read, which nobody reads any more.
// Immutable after lowering; thread-safe to read.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/units.hpp"
#include "models/graph.hpp"
#include "planner/question/f8_matrix.hpp"
#include "planner/question/job.hpp"
#include "sim/program/collective.hpp"
#include "sim/program/layout.hpp"
#include "sim/program/load.hpp"
#include "sim/program/mesh.hpp"
#include "sim/program/schedule.hpp"

namespace program {

// Memory terms of the design (section 4): the tags of buffers.
enum class Term : std::uint8_t {
  weights, gradients, optimizer, activations, logits, communication
};
inline constexpr int kTerms = 6;
std::string_view name(Term term);

// context carries what passes round a ring of context ranks beside the computation on it.
// send_back and receive_back carry the messages of a V's second arm, from the last rank back to
// the first, whose order is its own. Without a pipeline, send has the turns of a server that
// answers beside its worker's step (turns.hpp).
enum class Stream : std::uint8_t {
  compute, gradient, parameter, context, send, receive, send_back, receive_back
};
inline constexpr int kStreams = 8;
std::string_view name(Stream stream);
inline bool carries_messages(Stream stream) { return stream >= Stream::send; }
inline bool receives(Stream stream) {
  return stream == Stream::receive || stream == Stream::receive_back;
}

enum class ActionKind : std::uint8_t {
  alloc,            // args {buffer}
  free,             // args {buffer}
  load,             // args {tokens | features | targets}: this micro-batch's samples (op: Input)
  forward,          // of these three the operator's schema names the args (models/ops)
  input_gradient,
  weight_gradient,
  fence,            // no work: its waits and its signal, at its place in its stream
  zero,             // args {view}
  cast,             // args {from, to...}; of a matrix in 8 bits there may be two, in both orders
  accumulate,       // args {from, into}: into += from, rounded to into's type
  dequantise,       // args {codes and constants of one matrix, matrix}
  copy,             // args {from, to}: host and device, of one type; op: index into transfers
  square_sum,       // args {gradients, sum}: sum += |gradients|^2 of those that this rank counts
  scale_step,       // args {sum, state}: what the update does with the gradients (LossScale)
  optimizer,        // args {weight, gradient, [master], slots..., [sum or state]}: one flat range
  collective,       // args {buffer} or {shard, full}; op: index into transfers
  send,             // args {buffer}; op: index into transfers
  receive,          // args {buffer}; op: index into transfers
  push,             // args {gradient range}: a worker sends each server its part
  serve_push,       // args {own gradient range, sum}: a server folds its part from all workers
  serve_pull,       // args {weight range}: a server sends its part of the new weights
  pull,             // args {weight range}: a worker receives every server's part
};
std::string_view name(ActionKind kind);

enum ActionFlag : std::uint8_t {
  kAccumulate = 1,             // the output gradient adds to what is there
  kSkipFirstMicroBatch = 2,    // not issued when the call's micro-batch is 0
  kClips = 4,                  // an optimizer's last argument is the square of the gradients' norm
  kScales = 8,                 // or the state of the loss scale, which counts with the norm
  kMasterAlone = 16,           // an optimizer's first argument is the master copy: no other follows
};

// Which layer instance of a buffer or event: a stated one, or the call's (layer, unit or span).
enum class Index : std::uint8_t { constant, layer };
// Where in the instance (see resolve): all of it; at `offset`; at the call's layer's parameters +
// offset (trained or frozen flat space); over the call's span; this rank's chunk of the call's span
// where the buffer holds the flat space; the same chunk where the buffer holds one span; this
// rank's shard of the call's span where the buffer holds shards alone; the shard's quantisation
// scales.
enum class Range : std::uint8_t {
  whole, fixed, layer_parameters, frozen_layer_parameters,
  span, span_chunk, unit_chunk, span_shard, span_scales
};

inline constexpr std::uint16_t kNone = 0xffff;

struct View {
  std::uint16_t buffer = kNone;
  std::uint16_t instance = 0;          // of Index::constant
  // Added to the call's layer, for the instance and the range: 1 is the boundary after this layer,
  // the number of layers its experts (RankClass::layer_offset).
  std::int16_t layer_shift = 0;
  Index index = Index::constant;
  // -1: the instance before, of the previous micro-batch (of the previous step: Buffer::share)
  std::int8_t micro_batch_shift = 0;
  Range range = Range::whole;
  std::int64_t offset = 0;             // elements
  std::int64_t elements = 0;           // of fixed and layer_parameters
};

// Names the buffer of gradients that are added up in f32 beside those of the recipe's type.
inline constexpr const char* kWideGradients = "gradients.wide";
struct Buffer {
  std::string name;                    // "h.attn.qkv.output", "gradients"
  Term term{};
  core::DType type{};
  // Elements of one instance: one number, or one per layer index (size = extent).
  std::vector<std::int64_t> elements;
  int extent = 1;                      // instances by layer
  int slots = 1;                       // instances by micro-batch: micro_batch / share % slots
  // Micro-batches in turn that have one instance: versions of weights have a step's.
  std::int64_t share = 1;
  // Of a matrix in 8 bits: its codes and scales, which are the elements.
  std::optional<planner::F8Matrix> f8{};
  // Of a buffer that holds the end of a flat space: the element of that space that is its first.
  std::int64_t base = 0;
  bool persistent = false;  // allocated before the step, in declaration order; never freed
  bool host = false;        // offloaded: persistent, in host memory, no part of the device's terms
  std::int64_t instance_elements(int layer) const {
    return elements.size() == 1 ? elements[0] : elements[static_cast<std::size_t>(layer)];
  }
  core::Bytes instance_bytes(int layer) const {
    return core::bytes_of(instance_elements(layer), type);
  }
  // Of weights that have several versions those beyond one are stashes in flight.
  Term term_of(int slot) const {
    return term == Term::weights && slot > 0 ? Term::communication : term;
  }
};

// An event has one instance per (layer index, slot), like a buffer.
struct Event {
  std::string name;
  int extent = 1;
  int slots = 1;
};
struct EventRef {
  std::uint16_t event = kNone;
  std::uint16_t instance = 0;          // of Index::constant
  Index index = Index::constant;
  std::int8_t layer_shift = 0;
  std::int8_t micro_batch_shift = 0;
};
struct Wait {
  EventRef on;
  bool may_precede = false;            // holds at once when nothing was signalled yet
};

struct Action {
  ActionKind kind{};
  Stream stream = Stream::compute;
  std::uint8_t flags = 0;
  std::uint8_t arg_count = 0;
  std::uint8_t wait_count = 0;
  std::uint16_t op = kNone;            // operators, transfers or Input, by kind
  std::uint16_t signal = kNone;        // index into signals
  std::uint32_t first_arg = 0;         // index into views
  std::uint32_t first_wait = 0;        // index into waits
};
static_assert(sizeof(Action) <= 28);
// Whether an optimizer's last argument is no array of the update, but what follows from the norm.
inline bool reads_norm(const Action& optimizer) {
  return (optimizer.flags & (kClips | kScales)) != 0;
}

struct Transfer {
  Collective collective{};
  Algorithm algorithm{};
  Traffic what{};
  Group group{};                       // of send and receive: next or previous, where the peer is
  ReduceOp reduce = ReduceOp::sum;
  core::DType wire_type{};
  std::uint16_t tag = 0;               // tells apart messages between the same two ranks
  bool once = false;                   // of experts: a row goes once to each rank, each node
  bool overlapped = false;             // in pieces beside its GEMM; of experts: beside another pass
  // The operator that computes one gradient meanwhile: its input gradient, while the rows that its
  // weight gradient reads are gathered; its weight gradient, while its input gradient is scattered.
  std::uint16_t beside = kNone;
  // An exchange between rows of all heads and all rows of some (traffic context): columns of a row
  // that the heads of q have, those that the heads of k have (v as many; 0: of q alone), and which
  // way it goes. Between ranks that divide operators (traffic split): columns of a row, and whether
  // from samples to columns. Where tensor ranks share key heads (traffic tensor): columns of q, and
  // those of k that this rank makes.
  std::int64_t columns = 0, key_columns = 0;
  bool to_heads = false;
};

struct Block {
  std::string name;
  std::uint32_t first = 0, last = 0;   // actions [first, last)
};

// One call of a block. `layer` is the local layer, or the span for blocks over spans.
struct Call {
  std::uint16_t block = 0;
  std::uint16_t layer = 0;
  std::uint32_t micro_batch = 0;
};

// Instance that a view or reference names in a call: layer index x slots + micro-batch slot.
template <class Ref>
int layer_index(const Ref& ref, const Call& call) {
  return ref.index == Index::layer ? call.layer + ref.layer_shift : ref.instance;
}
// REQUIRES: ref.micro_batch_shift >= -slots.
template <class Thing, class Ref>  // Thing: Buffer or Event
int slot_of(const Thing& thing, const Ref& ref, std::uint32_t micro_batch) {
  if (thing.slots == 1) return 0;
  std::int64_t mb = micro_batch;
  if constexpr (requires { thing.share; })
    if (thing.share > 1) mb /= thing.share;
  const auto slots = static_cast<std::uint32_t>(thing.slots);
  return static_cast<int>(static_cast<std::uint32_t>(mb + ref.micro_batch_shift + slots) % slots);
}
template <class Thing, class Ref>
int instance_of(const Thing& thing, const Ref& ref, const Call& call) {
  return layer_index(ref, call) * thing.slots + slot_of(thing, ref, call.micro_batch);
}

// Straight-line list of calls; micro_batch is filled in by the cursor. O(layers) long
// (O(layers^2) under memory_poor).
using Routine = std::vector<Call>;

// The passes of one chunk: the layers that a rank takes in one go. Classes of one chunk have these
// themselves.
struct PassRoutines {
  Routine forward, backward;           // of one micro-batch
  Routine last_backward;               // of the last one: with the reductions
  // Where the schedule splits backward: the weight gradients that `backward` left out.
  Routine weight_gradient, last_weight_gradient;
};

struct RankClass : PassRoutines {     // of chunk 0
  std::string name;                    // "stage 0", "stage 0 server", "server"
  int stage = 0;
  bool is_server = false;              // owns optimizer state of 1/M of each span
  bool is_worker = true;
  // Of the data ranks (data x context), those that are of the class. replicas 0: all of them.
  int first_replica = 0, replicas = 0;
  std::int64_t micro_batches_before = 0;  // of a step, of the data ranks before them
  int first_layer = 0;                 // of the whole model; where chunk 0 begins
  int layers = 0;                      // of all chunks: local layers are numbered through

  std::vector<Buffer> buffers;
  std::vector<Event> events;
  std::vector<models::Operator> operators;
  std::vector<Transfer> transfers;
  std::vector<View> views;
  std::vector<Wait> waits;
  std::vector<EventRef> signals;
  std::vector<Action> actions;
  std::vector<Block> blocks;

  Routine begin;                       // before the first micro-batch
  std::vector<PassRoutines> later_chunks;
  Routine end;                         // optimizer and what follows
  Routine finish;                      // without flush: after the last step of a run
  RankSchedule schedule;

  std::vector<Span> spans;
  // Trained flat space: parameters of each local layer; where experts differ from rank to rank,
  // then those of its experts, which lie apart, behind everything else.
  std::vector<std::int64_t> layer_offset;
  std::vector<std::int64_t> frozen_layer_offset;  // frozen flat space
  std::vector<PlacedParameter> parameters;
  std::int64_t trained_elements = 0;
  std::int64_t frozen_elements = 0;
  // Layer-forward evaluations per micro-batch, recomputation included (M11).
  std::int64_t forward_evaluations = 0;
  // Persistent buffers that the executor fills or reads itself.
  std::uint16_t weights_buffer = kNone, frozen_buffer = kNone, master_buffer = kNone;
  // The server's part of the weights, where its worker computes with a copy of its own (turns.hpp).
  std::uint16_t server_weights_buffer = kNone;
  std::vector<QuantisedParameter> quantised;
  std::uint16_t quantised_buffer = kNone;
  bool sharded_frozen = false;         // frozen_buffer holds a shard of each unit
  struct FrozenUnit { std::int64_t offset = 0, elements = 0; };
  std::vector<FrozenUnit> frozen_units;  // in the frozen flat space, by instance of those shards
  std::uint16_t loss_buffer = kNone;   // one f64 scalar, on classes that compute the loss
  std::uint16_t scale_buffer = kNone;  // the state of the loss scale, which loss kernels read
  bool sharded_weights = false;        // weights_buffer holds shards, not the flat space

  bool has_replica(int data) const {
    return replicas == 0 || (data >= first_replica && data < first_replica + replicas);
  }
  int chunks() const { return 1 + static_cast<int>(later_chunks.size()); }
  const PassRoutines& chunk(int index) const {
    return index == 0 ? *this : later_chunks[static_cast<std::size_t>(index - 1)];
  }
  const Routine& routine(const Pass& pass) const {
    const PassRoutines& all = chunk(pass.chunk);
    const bool last = (pass.micro_batch + 1) % schedule.micro_batches == 0;
    if (pass.kind == PassKind::forward) return all.forward;
    if (pass.kind == PassKind::weight_gradient)
      return last ? all.last_weight_gradient : all.weight_gradient;
    return last ? all.last_backward : all.backward;
  }
};

// visit(const Routine&, times, first): each routine, how often a step runs it, and how many of
// these runs (0 or 1) are of micro-batch 0. `finish`, which moves nothing, is no part of a step.
template <class Visit>
void for_each_routine(const RankClass& k, Visit&& visit) {
  const std::int64_t m = k.schedule.micro_batches, before_last = m > 1 ? 1 : 0;
  visit(k.begin, std::int64_t{1}, std::int64_t{1});
  for (int c = 0; c < k.chunks(); ++c) {
    const PassRoutines& chunk = k.chunk(c);
    visit(chunk.forward, m, std::int64_t{1});
    visit(chunk.backward, m - 1, before_last);
    visit(chunk.last_backward, std::int64_t{1}, 1 - before_last);
    visit(chunk.weight_gradient, m - 1, before_last);
    visit(chunk.last_weight_gradient, std::int64_t{1}, 1 - before_last);
  }
  visit(k.end, std::int64_t{1}, 1 - before_last);
}

// Whether any of its actions is on this stream.
bool uses(const RankClass& rank_class, Stream stream);
struct ResolvedRange { std::int64_t offset = 0, elements = 0; };  // within the instance
// `part`: this rank's index among those that share a span (Program::part_of). The last chunks of a
// span that does not divide are shorter, perhaps empty; padding travels but is not stored in flat
// spaces.
ResolvedRange resolve(const RankClass& rank_class, const View& view, const Call& call, int part);

struct OptimizerSpec {                 // what the executor must know; the types are the buffers'
  planner::OptimizerKind kind{};
  int slots = 0;
  bool has_master = false;
};

struct Program {
  std::vector<RankClass> classes;
  Mesh mesh;
  int servers = 0;                     // M, 0 without parameter servers
  bool servers_colocated = true;
  bool cut = false;                    // stages hold parts of one graph, in step with each other
  std::int64_t samples = 1;            // per micro-batch and model replica
  std::int64_t seq_len = 1;
  std::int64_t global_batch = 1;
  core::DType statistic_type{};
  Accumulation accumulation;
  OptimizerSpec optimizer;
  double clip = 0;                     // greatest norm of all gradients; 0: any (Job::clip)
  planner::LossScale loss_scale;
  bool takes_norm() const { return clip > 0 || loss_scale.initial > 0; }

  // Class of a rank: its stage, whether it serves, and where data ranks take different numbers of
  // micro-batches, which.
  int class_of(int rank) const;
  // Ranks of a class, ascending.
  std::vector<int> ranks_of(int class_index) const;
  // Index of the rank's part of each span: shard index (ZeRO), server index, 0 otherwise.
  int part_of(int rank) const;
};

}  // namespace program
