#pragma once
// The cost of one action: the one home of durations. Every evaluator (closed form, sweep, engine)
// sums these integers. Kernels: roofline of sim/cost/kernel.hpp + launch gap; transfers:
// sim/cost/link.hpp; alloc, free and fence cost nothing.
//
// ActionCost prepares what a class's actions share; it keeps references to program, class and
// machine, which outlive it. Thread-safe to read.

#include <array>
#include <cstdint>

#include "core/units.hpp"
#include "sim/cost/link.hpp"
#include "sim/cost/machine.hpp"
#include "sim/cost/nccl.hpp"
#include "sim/program/program.hpp"

namespace cost {

// First rank of the class: the place whose links stand for all of them.
int first_rank(const program::Program& program, const program::RankClass& rank_class);

// Bytes that a kernel reads and writes.
struct MemoryTraffic {
  core::Bytes read{}, written{};
  core::Bytes all() const { return read + written; }
};

class ActionCost {
 public:
  // samples: micro-batch size to cost, where it differs from the program's own; activations scale
  // with it (the search lowers one program and costs many micro-batches).
  // rank: whose links are meant, where it is not the class's first. Parts of spans are always the
  // first rank's, which are the longest.
  ActionCost(const program::Program& program, const program::RankClass& rank_class,
             const Machine& machine, std::int64_t samples = 0, int rank = -1);

  core::Picoseconds operator()(const program::Action& action, const program::Call& call) const;
  // Of a transfer's duration what is not the wire's: a server's fold of what it was sent.
  core::Picoseconds beside_wire(const program::Action& action, const program::Call& call) const;

  // What this tool's kernels for an action read and write of the memory that its arguments lie in,
  // each byte once a launch. Nothing of what moves between memories. Partial sums of a column over
  // rows are left out: they are small.
  MemoryTraffic traffic(const program::Action& action, const program::Call& call) const;

  // Elements of a collective, of a message, in this call.
  std::int64_t transferred(const program::Action& action, const program::Call& call) const;
  // What a collective over n elements takes, of a transfer that need not be the class's.
  core::Seconds collective_of(const program::Transfer& transfer, std::int64_t n) const;
  // Whether the collective copies rows, too, because tensor ranks share key heads.
  static bool joins_heads(const program::Action& action) { return action.arg_count == 3; }
  core::Seconds heads_time(const program::Action& action, const program::Call& call) const;
  // The type in which an operator's kernel computes: that of its first argument (x or dy), but for
  // products in 8 bits. The head's, whose input or output are logits, stay in 16.
  core::DType computed_in(const program::Action& action) const;

  // What the next kernels of the rank last longer because of a transfer beside them that takes
  // `duration`; 0 of one that computing waits for in its own stream, and of receiving.
  core::Picoseconds held(const program::Action& action, core::Picoseconds duration) const;

  // Where the host runs ahead within a block: what the block's issue takes longer than its actions
  // on the compute stream, and the action that it makes longer (the last operator; kNone: none).
  struct BlockWait {
    std::uint32_t action = program::kNone;
    core::Picoseconds time{};
  };
  BlockWait block_wait(const program::Block& block, const program::Call& call) const;
  // The same where it is known what those actions take.
  BlockWait block_wait(const program::Block& block, core::Picoseconds taken) const;
  // Whether an action's time is the compute stream's, and is not that of a message.
  static bool is_computing(const program::Action& action);
  // Of a block's weight gradients, what adding them up in f32 beside takes.
  core::Picoseconds wide_time(const program::Block& block) const;

  const program::RankClass& rank_class() const { return *class_; }

  // Whether the duration is the wire's: collective, send, push and their counterparts.
  static bool is_transfer(program::ActionKind kind);
  // Whether the action issues a kernel.
  static bool is_kernel(program::ActionKind kind);
  // Whether the kernel is an operator's: its duration is the same in every call.
  static bool is_operator(program::ActionKind kind);

 private:
  const program::View& view(const program::Action& action, int arg) const;
  const program::Buffer& buffer(const program::Action& action, int arg) const;
  // Elements of an argument in this call, scaled to samples_ where it holds activations.
  std::int64_t elements(const program::Action& action, int arg, const program::Call& call) const;
  core::Bytes bytes(const program::Action& action, int arg, const program::Call& call) const;
  MemoryTraffic operator_traffic(const program::Action& action, const program::Call& call) const;
  MemoryTraffic update_traffic(const program::Action& action, const program::Call& call) const;
  MemoryTraffic cast_traffic(const program::Action& action, const program::Call& call) const;
  double cast_launches(const program::Action& action) const;
  core::Seconds operator_time(const program::Action& action, const program::Call& call) const;
  core::Seconds launch_time(const program::Action& action) const;
  core::Seconds bias_gradient_time(const models::Operator& op, const program::Action& action) const;
  core::Seconds pass_time(const models::Operator& op, const program::Action& action,
                          const program::Call& call) const;
  core::Seconds convolution_time(const models::Operator& op, const program::Action& action) const;
  core::Seconds product_time(const models::Operator& op, const program::Action& action) const;
  core::Seconds expert_bias_time(const models::Operator& op, const program::Action& action) const;
  core::Seconds operand_cast_time(const models::Operator& op, const program::Action& action) const;
  bool touches_logits(const program::Action& action) const;
  core::Seconds attention_pass_time(const models::Operator& op,
                                    const program::Action& action) const;
  core::DType elementwise_type(const models::Operator& op, const program::Action& action) const;
  core::Bytes elementwise_bytes(const models::Operator& op, const program::Action& action,
                                const program::Call& call) const;
  core::Seconds elementwise_time(const models::Operator& op, const program::Action& action,
                                 const program::Call& call) const;
  // Of what works on bytes alone: on the device, or where the buffers are offloaded on the host.
  core::Seconds bytes_time(const program::Action& action, core::Bytes moved) const;
  core::Seconds optimizer_time(const program::Action& action, const program::Call& call) const;
  core::Seconds transfer_time(const program::Action& action, const program::Call& call) const;
  core::Seconds hidden_time(const program::Transfer& transfer) const;
  core::Seconds exchange_time(const program::Transfer& transfer, const Place& place,
                              std::int64_t n) const;
  core::Seconds activation_time(const program::Transfer& transfer, core::Seconds time) const;
  core::Seconds wide_time(const program::Action& action) const;
  core::Seconds issue_time(const program::Action& action) const;
  core::Seconds operator_issue_time(const models::Operator& op) const;
  core::Seconds fold_time(const program::Action& action, const program::Call& call) const;
  core::Seconds server_time(const program::Action& action, const program::Call& call) const;

  const program::Program* program_;
  const program::RankClass* class_;
  const Machine* machine_;             // of the rank's kernels
  std::int64_t samples_;
  int part_ = 0;
  bool wide_ = false;                  // holds gradients in f32 beside
  Routed routed_;                      // of the class's layers, where tokens are sent once
  int rank_ = 0;                       // whose turn is over no link
  std::array<Place, program::kGroups> places_{};  // by program::Group, of the class's first rank
  std::array<const Machine*, program::kGroups> links_{};  // whose links each group has
  const Machine& links_of(program::Group group) const {
    return *links_[static_cast<std::size_t>(group)];
  }
};

// One action by itself; a loop over many is better served by ActionCost.
core::Picoseconds action_cost(const program::RankClass& rank_class,
                              const program::Program& program, const program::Action& action,
                              const program::Call& call, const Machine& machine);

}  // namespace cost
