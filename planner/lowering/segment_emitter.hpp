#pragma once
// SegmentEmitter: turns one segment of the operator graph (prologue, layer template, epilogue) into
// blocks of actions: forward that keeps what backward reads, forward that keeps nothing, the part
// of forward that recomputation needs, and backward. Lifetimes follow from the graph alone: a
// tensor lives from its first writer to its last reader; kept ones to their last reader in
// backward.
//
// Gradients of tensors share storage where the mathematics allows: an addition hands its gradient
// to both inputs, a residual stream has one gradient buffer from the loss to the embeddings.

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/lowering/class_builder.hpp"
#include "planner/stage/prologue.hpp"
#include "planner/stage/layout.hpp"

namespace planner::lowering {

using stage::Chunk;
using stage::ParameterPlace;
using stage::SegmentKind;
using stage::Stage;
using stage::StageLayout;
using stage::Unit;

// Buffers of parameters, gradients and their materialised copies, kNone where a stage has none.
struct StateBuffers {
  std::uint16_t weights = program::kNone, frozen = program::kNone, gradients = program::kNone;
  std::uint16_t unit_weights = program::kNone, unit_gradients = program::kNone;
  std::uint16_t f8 = program::kNone, unit_f8 = program::kNone;  // weights that are read in 8 bits
  std::uint16_t quantised = program::kNone;  // one instance per layer
  std::uint16_t unit_frozen = program::kNone, unit_quantised = program::kNone;  // gathered (ZeRO-3)
  // This rank's shards of offloaded parameters, on their way into the gathers.
  std::uint16_t shard_weights = program::kNone, shard_frozen = program::kNone;
  std::uint16_t shard_quantised = program::kNone;
  std::uint16_t loss = program::kNone;
};

// Where a segment's boundary tensors and their gradients live in the calls of a block.
struct Boundary {
  View input, output;                  // output.buffer kNone: the epilogue
  View d_input, d_output;
  bool free_input = true;              // the block's last reader of the input frees it
  bool free_output = false;            // backward frees the output (kept for its own derivative)
  bool input_needs_gradient = true;
};

enum class ForwardMode : std::uint8_t {
  keep,       // keeps the tensors that backward reads, less what it restores (selective)
  drop,       // keeps nothing but its output
  recompute,  // keep, without what only the output needs
};

// Whether the operator adds to the loss, and leaves the gradient in place of what it reads.
bool is_loss(const models::Operator& op);

class SegmentEmitter {
 public:
  // Declares the segment's buffers. slots: micro-batches whose kept tensors are alive at once.
  SegmentEmitter(ClassBuilder& builder, const Stage& stage, const models::Segment& segment,
                 SegmentKind kind, const std::vector<ParameterPlace>& places,
                 const StateBuffers& state, int slots, int extent);

  void forward(ForwardMode mode, const Boundary& boundary);
  void backward(const Boundary& boundary);
  // Where the schedule splits backward: the weight gradients that the last backward() left out.
  void weight_gradients();
  // Head and loss: forward, loss and backward at once. The gradient of the input is new storage.
  void forward_and_backward(Boundary boundary);

  bool keeps_input() const { return segment_.input >= 0 && kept_[root_of(segment_.input)]; }
  // Buffers of its own activations that wait for backward, one instance a layer and slot.
  std::vector<std::uint16_t> kept_buffers() const;
  bool keeps_output() const {
    return segment_.output >= 0 && kept_[root_of(segment_.output)];
  }
  // Backward leaves the input's gradient in the storage of the output's.
  bool gradient_in_place() const;
  bool empty() const { return order_.empty(); }
  bool trains() const;
  bool backward_reads_weights() const { return stage::backward_reads_weights(segment_); }

 private:
  using Op = models::Operator;
  // Arguments that are no tensor or parameter of the operator, by the names of its schema: a name
  // several times where the schema has any number of it.
  using Given = std::vector<std::pair<std::string_view, View>>;
  struct GradientStorage { View view; int pending = 0; };  // pending: readers to come

  std::size_t root_of(models::TensorIndex t) const { return roots_[static_cast<std::size_t>(t)]; }
  void declare_buffers(int slots, int extent);
  core::DType type_of(const models::Tensor& tensor) const;
  std::int64_t elements_of(const models::Tensor& tensor) const;
  // segment_split.cpp: of a layer whose weight gradients come in a later pass.
  bool defer(const Op& op, int dy);
  bool is_deferred(const Op& op) const;
  bool read_later(std::size_t root, std::size_t from = 0) const;
  const Op* gather_to_come(models::TensorIndex t) const;
  bool is_boundary_input(std::size_t root) const;
  View gradient_buffer(std::uint16_t& buffer, models::TensorIndex t, const char* prefix);
  void find_kept();
  void find_needs_gradient(bool input_needs);
  std::vector<bool> select(ForwardMode mode) const;
  View tensor_view(models::TensorIndex t) const;
  View unit_view(std::uint16_t buffer, const ParameterPlace& at) const;
  View flat_view(std::uint16_t buffer, const ParameterPlace& at, std::int64_t elements) const;
  View weight_view(models::ParameterIndex p) const;
  View gradient_view(models::ParameterIndex p) const;
  View frozen_view(const ParameterPlace& at, std::int64_t elements) const;
  bool quantised(models::ParameterIndex p) const {
    return places_[static_cast<std::size_t>(p)].quantised;
  }
  // quantised.cpp: the matrices of one operator that are stored as codes live decoded around its
  // action alone, as bitsandbytes has it.
  View decoded_view(models::ParameterIndex p) const;
  void declare_decoded();
  void decode(const Op& op);
  void release_decoded(const Op& op);
  // segment_f8.cpp: products that read copies in 8 bits, which live around their actions alone.
  struct F8Gradient { View by_rows, by_columns; };  // buffer kNone: not cast
  void find_f8();
  bool in_f8(const Op& op) const;
  View f8_view(const F8Matrix& matrix, std::int32_t of, const std::string& name);
  View f8_rows(F8Operand operand, models::TensorIndex t, std::int64_t columns, bool by_columns);
  void cast_to_f8(View from, std::initializer_list<View> to);
  bool is_codes(models::ParameterIndex p) const;
  View cast_weight(const Op& op, bool by_columns);
  void release_weight(const Op& op, View copy);
  void forward_in_f8(const Op& op, std::uint16_t index, Given given);
  F8Gradient cast_gradient(const Op& op, View d_y, bool of_weight, bool of_input);
  void weight_gradient_in_f8(const Op& op, View d_y, View cast);
  void input_gradient_in_f8(const Op& op, View cast, View d_x, bool accumulate);
  bool trained(models::ParameterIndex p) const {
    return segment_.parameters[static_cast<std::size_t>(p)].trainable;
  }

  // instead: an operator that stands in its place, or kNone.
  void emit_forward(const Op& op, std::uint16_t instead = program::kNone);
  // segment_context.cpp: keys and values of the whole sequence, around the attention core; heads
  // instead of rows.
  void declare_context();
  void emit_heads(const Op& op, View from, View into, bool forward);
  void backward_heads(const Op& op, int dy);
  // segment_keys.cpp: key heads that tensor ranks share.
  void declare_shared_keys();
  void emit_shared_keys(View narrow, View whole, const Op& op, bool forward);
  void backward_shared_keys(const Op& op, int dy);
  // segment_ring.cpp: keys and values of the other ranks, block by block.
  void declare_ring(const Op& op);
  void ring_forward(const Op& op);
  void ring_backward(const Op& op, View dy, View d_qkv);
  Given ring_sum() const;
  Emit ring_step(int step, models::ops::Kernel kernel, const Given& given) const;
  void start_ring(View qkv, bool backward);
  void end_ring(bool backward);
  void pass_keys(int step, View qkv, bool backward);
  void ring_shift(View from, View into, std::vector<program::Wait> waits, program::EventRef signal);
  View ring_keys(int step) const;
  program::EventRef ring_arrived(int step) const;
  void gather_keys(View qkv);
  void scatter_keys(View d_qkv);
  program::Transfer over_context(program::Collective collective,
                                 program::Algorithm algorithm) const;
  void emit_keys(program::Collective collective, View own);
  void emit_reduction(const Op& op, View view);
  void emit_data_reduction(View sums);
  void load(models::TensorIndex t);
  // segment_restore.cpp: checkpoint=selective drops what the attention core makes in the forward
  // pass and runs the core again before the first backward operator that reads it.
  void find_dropped();
  bool feeds_activation(const Op& op) const;
  bool makes_middle(const Op& op) const;
  bool is_added(const Op& op) const;
  bool is_core(const Op& op) const;
  bool makes_alone(std::size_t root) const;
  bool by_need() const;                // else all at once, as soon as one is needed
  void keep_what_is_read_again();
  void declare_halved();
  View kept_half(const Op& op) const;
  std::vector<bool> select_core(std::vector<bool> wanted) const;
  void restore_for(std::size_t position);  // what backward of this operator reads
  void restore_core(std::vector<bool> wanted);
  // What an activation read again keeps of what it reads, if it is a copy in fewer bits.
  models::TensorIndex copy_read_again(const Op& op) const;
  void restore_rows(const Op& gather, models::TensorIndex all);
  // segment_sequence.cpp: rows gathered from and scattered over the tensor ranks.
  void keep_gathered_inputs();
  void emit_rows(program::Collective collective, View rows, View all,
                 std::uint16_t beside = program::kNone);
  // Index of the product that reads the gathered rows, of one whose weight trains where asked.
  static models::TensorIndex own_rows(const Op& gather);
  std::uint16_t product_of(const Op& gather, bool trains = false) const;
  void backward_gather(const Op& op, int dy);
  // segment_splits.cpp: values between ranks that divide operators.
  static bool moves_between_splits(const Op& op);
  void emit_move(const Op& op, View x, View y, bool forward);
  void backward_move(const Op& op, int dy);
  // segment_experts.cpp: rows to and from the ranks that hold other experts.
  bool goes_to_experts(const Op& exchange) const;
  void emit_exchange(View out, View in, bool to_experts);
  void backward_exchange(const Op& op, int dy);
  bool gradient_is_sent(models::TensorIndex t) const;
  void backward_scatter(const Op& op, int dy);
  void backward_operator(const Op& op);
  void backward_transfer(const Op& op, int dy);
  void backward_attention(const Op& op, int dy);
  void backward_adapter(const Op& op, int dy);
  void backward_gemm(const Op& op, int dy);
  void backward_add(const Op& op, int dy);
  void backward_identity(const Op& op, int dy);
  // segment_graph.cpp: one action for all gradients, and arbitrary graphs.
  // An input whose gradient one action computes, and the name of that argument in its schema.
  struct Target {
    std::string_view name;
    models::TensorIndex input;
    bool joins;  // computed with the others even where its input needs no gradient
  };
  std::vector<Target> joint_targets(const Op& op) const;
  void backward_joint(const Op& op, int dy);
  void backward_elementwise(const Op& op, int dy);
  void backward_sum(const Op& op, int dy);
  // segment_chunks.cpp: head and loss in chunks of the micro-batch's tokens.
  void find_chunked();
  bool is_chunked() const { return head_ < order_.size(); }
  models::Operator operator_at(std::size_t position) const;
  View chunk_view(models::TensorIndex t, View whole) const;
  View input_view(models::TensorIndex t) const;
  void forward_and_backward_in_chunks(const Boundary& boundary);
  void emit_chunk(int dx);
  void free_head_input(bool saved);
  // segment_cut.cpp: messages between the parts of a cut graph.
  program::EventRef cut_event(const std::string& name);
  program::Transfer cut_transfer(const Op& op, std::uint16_t what) const;
  void emit_cut_send(const Op& op, View from, std::uint16_t what);
  void emit_cut_receive(const Op& op, View into, std::uint16_t what);
  void forward_cut(const Op& op);
  void backward_cut_send(const Op& op);
  void backward_cut_receive(const Op& op);
  void finish_cut();
  void start_backward(const Boundary& boundary);
  std::vector<models::TensorIndex> whole_logits() const;
  void forward_of_losses(const Boundary& boundary);
  void start_backward_of_losses(const Boundary& boundary);
  void backward_operators(std::size_t end);  // those before position `end`
  bool leads_to_input(models::TensorIndex t) const;
  void alias_gradient(models::TensorIndex t, int storage);
  // Storage that input gradient t is written to; sets *accumulate when something is there already.
  int gradient_target(models::TensorIndex t, bool* accumulate);
  int new_storage(models::TensorIndex t);
  void consume(int storage);
  const View& view_of(int storage) const {
    return storages_[static_cast<std::size_t>(storage)].view;
  }
  bool needs_gradient(models::TensorIndex t) const {
    return needs_gradient_[static_cast<std::size_t>(t)];
  }
  // segment_arguments.cpp
  void append_own(const models::ops::Argument& a, const Op& op, std::vector<View>& args) const;
  std::vector<View> arguments(const Op& op, models::ops::Kernel kernel, const Given& given) const;
  std::size_t position_of(const Op& op) const;   // in order_
  std::uint16_t index_of(const Op& op) const;
  void emit_backward(models::ops::Kernel kernel, const Op& op, const Given& given,
                     bool accumulate = false);
  void free_kept_after_backward(std::size_t position);
  int storage_of(models::TensorIndex t) const { return gradient_of_[static_cast<std::size_t>(t)]; }

  ClassBuilder& builder_;
  const Stage& stage_;
  const models::Segment& segment_;
  const SegmentKind kind_;
  const std::vector<ParameterPlace>& places_;
  const StateBuffers& state_;
  std::vector<models::OperatorGraph::vertex_descriptor> order_;
  std::vector<std::size_t> roots_;     // tensor -> tensor whose storage it shares
  std::vector<std::vector<models::TensorIndex>> saved_;  // by position: what backward reads
  std::vector<bool> kept_;             // by root: some operator's backward reads it
  std::vector<bool> dropped_;          // by root: kept_, but made again in backward
  std::vector<bool> produced_;         // by root: an operator writes it (else: loaded)
  std::vector<std::uint16_t> buffers_; // by root
  std::vector<std::uint16_t> d_buffers_;  // by tensor, declared on demand
  std::vector<std::uint16_t> part_buffers_;  // the same: what is added to a gradient
  std::vector<std::uint16_t> decoded_;    // by parameter, kNone where it is not quantised
  std::vector<std::uint16_t> halved_;     // by position, kNone where it is made again whole
  std::vector<bool> f8_products_;         // by position; empty: none is in 8 bits
  std::vector<bool> f8_codes_;            // by parameter: codes already; empty: none is
  // By operand, order, and the index of the tensor or parameter that is cast.
  std::map<std::tuple<F8Operand, bool, std::int32_t>, std::uint16_t> f8_buffers_;
  std::uint16_t keys_ = program::kNone;   // keys and values of all context ranks
  std::uint16_t shared_keys_ = program::kNone;  // of all tensor ranks, in their order
  std::vector<std::uint16_t> op_index_;   // by position in order_: index in the class
  // Of a ring: two blocks of keys, two of gradients on their way, one that came, sums of queries in
  // the statistics' type where activations have another; events; the operator of each step.
  struct Ring {
    std::uint16_t keys = program::kNone, parts = program::kNone, came = program::kNone;
    std::uint16_t sum = program::kNone, transfer = program::kNone;
    std::uint16_t may = program::kNone, arrived = program::kNone, used = program::kNone;
    std::uint16_t added = program::kNone, returned = program::kNone;
    int blocks = 0;                    // buffers that take turns
    std::vector<std::uint16_t> steps{};
  } ring_;

  // Of an epilogue in chunks: the head's position in order_ (else its size), how many, the one that
  // is being emitted (-1 none), and by root what one chunk alone is stored of.
  std::size_t head_ = 0;
  std::int64_t chunks_ = 1, chunk_ = -1;
  std::vector<bool> chunked_;

  const bool splits_;                  // backward leaves linears' weight gradients out
  const int slots_, extent_;
  std::vector<std::uint16_t> copies_;  // by tensor: gradients kept for them, declared on demand
  struct Deferred { const Op* op; View dy; };
  std::vector<Deferred> deferred_;     // by the last backward()

  std::map<std::string, std::uint16_t> cut_events_;  // by name

  // State of the block being emitted.
  Boundary boundary_;
  std::vector<std::pair<program::EventRef, int>> cut_sent_;  // storages on their way
  bool restores_ = false;              // what is emitted makes dropped tensors again
  std::vector<bool> restored_;         // by root: dropped_, and there again in backward
  std::vector<bool> needs_gradient_;   // by tensor
  std::vector<int> gradient_of_;       // by tensor: index into storages_, -1 none
  std::vector<GradientStorage> storages_;
  bool input_gradient_placed_ = false; // the boundary's gradient buffer is taken
};

}  // namespace planner::lowering
