// What transfers take: collectives, messages, a server's turns, and what they hold of computing.
#include <algorithm>

#include "sim/cost/action.hpp"
#include "sim/cost/kernel.hpp"
#include "sim/cost/nccl.hpp"
#include "sim/program/turns.hpp"

namespace cost {
namespace {

using program::Action;
using program::ActionKind;
using program::Call;
using program::Group;

// Messages between stages, rows on their way to experts, keys and values of other ranks, and
// collectives over activations.
bool scales_with_samples(program::Traffic what, program::Term term) {
  return what == program::Traffic::pipeline || what == program::Traffic::expert ||
         what == program::Traffic::context || what == program::Traffic::split ||
         term == program::Term::activations;
}

}  // namespace

int first_rank(const program::Program& p, const program::RankClass& k) {
  if (!k.is_worker) return p.mesh.workers();
  const bool after_servers = p.servers > 0 && p.servers_colocated && !k.is_server;
  const int data = after_servers ? p.servers : k.first_replica;
  return p.mesh.rank({.tensor = 0, .data = data, .pipeline = k.stage});
}

core::Seconds ActionCost::transfer_time(const Action& action, const Call& call) const {
  if (action.kind != ActionKind::collective && action.kind != ActionKind::send &&
      action.kind != ActionKind::receive)
    return server_time(action, call);
  return collective_of(class_->transfers[action.op], transferred(action, call)) +
         heads_time(action, call);
}

// {buffer} or {shard, full}: the last argument is the full vector.
std::int64_t ActionCost::transferred(const Action& action, const Call& call) const {
  const int full = action.arg_count - 1;
  const std::int64_t n = program::resolve(*class_, view(action, full), call, part_).elements;
  const bool scales = samples_ != program_->samples &&
                      scales_with_samples(class_->transfers[action.op].what,
                                          buffer(action, full).term);
  return scales ? n / program_->samples * samples_ : n;
}

// Where tensor ranks share key heads, rows are copied from one buffer to another.
core::Seconds ActionCost::heads_time(const Action& action, const Call& call) const {
  if (!joins_heads(action)) return {};
  core::Bytes moved{};
  for (const int i : {0, 1})
    moved += core::bytes_of(program::resolve(*class_, view(action, i), call, part_).elements,
                            buffer(action, i).type);
  return memory_time(moved / program_->samples * samples_, *machine_);
}

core::Seconds ActionCost::collective_of(const program::Transfer& transfer, std::int64_t n) const {
  const Place& place = places_[static_cast<std::size_t>(transfer.group)];
  if (transfer.what == program::Traffic::expert) return exchange_time(transfer, place, n);
  const core::Seconds time =
      collective_time(transfer.collective, transfer.algorithm,
                      place, n, transfer.wire_type, links_of(transfer.group));
  if (time.value() == 0) return time;
  if (transfer.what == program::Traffic::tensor || transfer.what == program::Traffic::sequence ||
      transfer.what == program::Traffic::split)
    return activation_time(transfer, time);
  return time;
}

// Of n elements. Beside a neighbouring micro-batch it costs what overlapped collectives leave
// exposed: the kernels of a layer are taken to last longer than its exchanges. Of m micro-batches
// the first forward pass and the last backward pass have no neighbour: 1 / m of the exchanges.
core::Seconds ActionCost::exchange_time(const program::Transfer& transfer, const Place& place,
                                        std::int64_t n) const {
  const Machine& links = links_of(transfer.group);
  const bool once = transfer.once && routed_.chosen > 0 && links.fabric;
  const core::Seconds time =
      once ? core::to_seconds(once_each_time(core::bytes_of(n, transfer.wire_type), routed_, place,
                                             *links.fabric))
           : collective_time(transfer.collective, transfer.algorithm, place, n,
                             transfer.wire_type, links);
  if (!transfer.overlapped) return time;
  const std::int64_t m = std::max<std::int64_t>(1, class_->schedule.micro_batches);
  const double alone = 1 / static_cast<double>(m);
  return time * (alone + (1 - alone) * machine_->exposed_overlapped);
}

// Beside a matrix product, in the midst of a step.
core::Seconds ActionCost::activation_time(const program::Transfer& transfer,
                                          core::Seconds time) const {
  const Place& place = places_[static_cast<std::size_t>(transfer.group)];
  const Machine& links = links_of(transfer.group);
  if (place.nodes > 1 && links.activation_waits > 1 && links.fabric)
    time += ring_steps(place, *links.fabric) * (links.activation_waits - 1);
  const double exposed =
      transfer.overlapped ? machine_->exposed_overlapped : machine_->exposed_tensor;
  const core::Seconds left =
      time * exposed + machine_->collective_sync - hidden_time(transfer);
  return machine_->host_ahead ? std::max(left, core::Seconds{})
                              : std::max(left, machine_->host.collective);
}

// A push and its server's fold happen together, and so do a reply and its pull: each side is as
// long as the busier link. The span's parts are 1/M each. In turns a server meets one worker, and
// the one on its own rank over no link.
core::Seconds ActionCost::server_time(const Action& action, const Call& call) const {
  const Place& place = places_[static_cast<std::size_t>(Group::data)];
  const program::Span& span = class_->spans[call.layer];
  const int last = action.arg_count - 1;
  const core::DType type = buffer(action, last).type;
  const core::Bytes part = core::bytes_of(span.shard_elements, type);
  const int workers = program_->mesh.data;
  const program::Transfer& t = class_->transfers[action.op];
  const bool turns = program::takes_turns(t);
  const bool serves =
      action.kind == ActionKind::serve_push || action.kind == ActionKind::serve_pull;
  int peers = program_->servers_colocated ? workers - 1 : workers;
  if (turns) peers = serves && program::is_own_turn(*program_, t, rank_) ? 0 : 1;
  const core::Seconds wire = incast_time(place, peers, part, links_of(Group::data));
  if (action.kind == ActionKind::serve_push)
    return wire + fold_time(action, call);
  if (action.kind == ActionKind::serve_pull) return wire;
  // push, pull: the worker's own link carries M parts, the server's carries K of them.
  const int others = program_->servers - (turns && class_->is_server ? 1 : 0);
  if (others == 0) return core::Seconds{};
  return std::max(wire, incast_time(place, others, part, links_of(Group::data)));
}

core::Seconds ActionCost::fold_time(const Action& action, const Call& call) const {
  const core::DType type = buffer(action, action.arg_count - 1).type;
  const core::Bytes part = core::bytes_of(class_->spans[call.layer].shard_elements, type);
  const bool turns = program::takes_turns(class_->transfers[action.op]);
  return memory_time(part * (turns ? 2 : program_->mesh.data + 1), *machine_);
}

core::Picoseconds ActionCost::beside_wire(const Action& action, const Call& call) const {
  if (action.kind != ActionKind::serve_push) return {};
  return core::to_picoseconds(fold_time(action, call));
}

core::Picoseconds ActionCost::held(const Action& action, core::Picoseconds duration) const {
  if (machine_->hold.value() == 0 || action.stream == program::Stream::compute ||
      action.kind == ActionKind::receive || !is_transfer(action.kind))
    return {};
  const Group group = class_->transfers[action.op].group;
  const Place& place = places_[static_cast<std::size_t>(group)];
  return core::Picoseconds(static_cast<std::int64_t>(
      static_cast<double>(duration.value()) * held_share(place, links_of(group))));
}

}  // namespace cost
