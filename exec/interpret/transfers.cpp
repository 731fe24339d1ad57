// Collectives, messages, servers and the optimizer of the Interpreter.
#include <algorithm>
#include <chrono>
#include <tuple>

#include "core/check.hpp"
#include "exec/communicator/channels.hpp"
#include "exec/host/optimizers.hpp"
#include "exec/interpret/interpreter.hpp"
#include "sim/program/norm.hpp"
#include "sim/program/traffic.hpp"
#include "sim/program/turns.hpp"

namespace exec {

using program::Action;
using program::ActionKind;
using program::Call;
using program::Group;
using program::Transfer;

namespace {

bool communicates(ActionKind kind) { return kind >= ActionKind::collective; }
bool serves(ActionKind kind) {
  return kind == ActionKind::push || kind == ActionKind::serve_push ||
         kind == ActionKind::serve_pull || kind == ActionKind::pull;
}

// Ranks in the order of their indices in the group of this action. Workers come first, then servers
// apart, or those that answer beside the steps of their ranks' workers: these are there twice.
std::vector<int> group_of(const program::Program& p, const Action& a, const Transfer& t, int rank) {
  if (serves(a.kind)) {
    std::vector<int> ranks = p.mesh.members(Group::data, p.mesh.is_server(rank) ? 0 : rank);
    const auto first = static_cast<std::size_t>(p.mesh.data);
    for (int s = 0; s < p.mesh.separate_servers; ++s) ranks.push_back(p.mesh.workers() + s);
    if (p.servers_colocated && program::takes_turns(t))
      for (int s = 0; s < p.servers; ++s) ranks.push_back(ranks[ranks.size() - first]);
    return ranks;
  }
  std::vector<int> ranks = p.mesh.members(t.group, rank);
  if (a.kind == ActionKind::receive) std::ranges::reverse(ranks);  // {sender, receiver}
  return ranks;
}

// This rank's place in that group: its last one where it serves.
int index_in(const std::vector<int>& group, ActionKind kind, int rank) {
  const bool server = kind == ActionKind::serve_push || kind == ActionKind::serve_pull;
  const auto first = std::ranges::find(group, rank);
  const auto second = server ? std::find(first + 1, group.end(), rank) : group.end();
  return static_cast<int>((second != group.end() ? second : first) - group.begin());
}

}  // namespace

void Interpreter::open_communicators() {
  const program::Program& p = context_.program;
  channel_of_action_.assign(class_.actions.size(), program::kNone);
  std::vector<std::tuple<std::vector<int>, int, int>> opened;  // group, channel, index
  for (std::size_t i = 0; i < class_.actions.size(); ++i) {
    const Action& a = class_.actions[i];
    if (!communicates(a.kind)) continue;
    const Transfer& t = class_.transfers[a.op];
    const bool message = a.kind == ActionKind::send || a.kind == ActionKind::receive;
    const std::vector<int> group = group_of(p, a, t, rank_);
    const int channel = message          ? kMessageChannel + t.tag
                        : serves(a.kind) ? kServerChannel
                                         : static_cast<int>(a.stream);
    const int index = index_in(group, a.kind, rank_);
    const std::tuple key{group, channel, index};
    auto at = std::ranges::find(opened, key);
    if (at == opened.end()) {
      opened.push_back(key);
      at = opened.end() - 1;
      channels_.push_back(context_.world.communicator_at(index, group, channel,
                                                         backend_->messages(a.stream)));
      if (serves(a.kind))
        channels_.back()->use_servers(
            {p.mesh.data, p.servers, p.servers_colocated && !in_turns_});
    }
    channel_of_action_[i] = static_cast<std::uint16_t>(at - opened.begin());
  }
  std::vector<int> everyone(static_cast<std::size_t>(p.mesh.ranks()));
  for (int r = 0; r < p.mesh.ranks(); ++r) everyone[static_cast<std::size_t>(r)] = r;
  barrier_ = context_.world.communicator(rank_, everyone, kBarrierChannel);
}

Communicator& Interpreter::communicator_of(const Action& a) {
  const auto i = static_cast<std::size_t>(&a - class_.actions.data());
  return *channels_[channel_of_action_[i]];
}

CommunicatorStatistics Interpreter::statistics() const {
  CommunicatorStatistics all = settled_;
  for (const auto& c : channels_) all.merge(c->statistics());
  for (const CommunicatorStatistics& c : copies_) all.merge(c);
  return all;
}

// Between device and host. The last part of a span may be stored shorter than it is counted.
void Interpreter::copy(const Action& a, const Call& call, const std::vector<Operand>& args) {
  const auto begin = std::chrono::steady_clock::now();
  Operand to = args[1];
  to.elements = std::min(args[0].elements, args[1].elements);
  backend_->cast(a.stream, args[0], to);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (!keeping_) count_copy(a, call, took.count());
}

void Interpreter::count_copy(const Action& a, const Call& call, double seconds) {
  const Transfer& t = class_.transfers[a.op];
  const core::Bytes bytes = core::bytes_of(
      program::view_elements(class_, class_.views[a.first_arg + 1], call), t.wire_type);
  copies_[static_cast<std::size_t>(a.stream)]
      .entries[{t.what, t.collective, t.algorithm, 1, false}] +=
      {1, bytes, bytes, core::Seconds(seconds)};
}

void Interpreter::move(program::Stream stream, void* to, const void* from, core::Bytes bytes) {
  backend_->copy(stream, {.to = static_cast<std::byte*>(to),
                          .from = static_cast<const std::byte*>(from),
                          .width = static_cast<std::size_t>(bytes.value())});
}

void Interpreter::transfer(const Action& a, const Call& call, const std::vector<Operand>& args) {
  const Transfer& t = class_.transfers[a.op];
  Communicator& c = communicator_of(a);
  const Operand& x = args.back();
  const auto span_elements = [&] { return class_.spans[call.layer].elements; };
  switch (a.kind) {
    case ActionKind::collective:
      return collective(a, c, call, args);
    case ActionKind::send:
      return c.send(x.data, x.elements, x.type, 1, t.tag, t.what);
    case ActionKind::receive:
      return c.recv(x.data, x.elements, x.type, 0, t.tag, t.what);
    case ActionKind::push:
      return c.push(call.layer, x.data, x.elements, x.type, t.what);
    case ActionKind::pull:
      return c.pull(call.layer, x.data, x.elements, x.type, t.what);
    case ActionKind::serve_push:
      if (in_turns_) return c.take_push(turn_, x.data, t.what);
      return c.collect(call.layer, x.data, span_elements(), x.type, t.reduce, t.what);
    case ActionKind::serve_pull: {
      // A reply carries a whole chunk; the last one's padding is not stored in flat weights.
      const auto chunk = core::bytes_of(class_.spans[call.layer].shard_elements, x.type);
      std::byte* const padded =
          backend_->scratch(a.stream, static_cast<std::size_t>(chunk.value()));
      backend_->zero(a.stream, {padded, class_.spans[call.layer].shard_elements, x.type});
      move(a.stream, padded, x.data, x.bytes());
      if (in_turns_)
        return c.reply_to(turn_.worker, call.layer, padded, span_elements(), x.type, t.what);
      return c.reply(call.layer, padded, span_elements(), x.type, t.what);
    }
    default:
      PLANNER_CHECK(false, "not a transfer");
  }
}

// Rows lie sample by sample, and each rank has a piece of every sample's: between that order and
// the collective's, rank by rank, they are moved in memory of our own where there are several
// samples.
void Interpreter::rows_collective(const Action& a, Communicator& c, const Operand& rows,
                                  const Operand& all) {
  const Transfer& t = class_.transfers[a.op];
  const std::int64_t samples = context_.program.samples, ranks = c.size();
  const auto piece = static_cast<std::size_t>(rows.bytes().value() / samples);
  const auto size = static_cast<std::size_t>(all.bytes().value());
  const bool gathers = t.collective == program::Collective::all_gather;
  auto* by_rank = static_cast<std::byte*>(all.data);
  if (samples > 1) by_rank = backend_->scratch(a.stream, size);
  const auto reorder = [&] {
    const std::size_t apart = static_cast<std::size_t>(ranks) * piece;
    for (std::int64_t r = 0; r < ranks && samples > 1; ++r) {
      std::byte* const in_scratch = by_rank + static_cast<std::size_t>(r * samples) * piece;
      std::byte* const in_all =
          static_cast<std::byte*>(all.data) + static_cast<std::size_t>(r) * piece;
      RowCopy moved{in_scratch, in_all, piece, apart, piece, static_cast<std::size_t>(samples)};
      if (gathers) {
        std::swap(moved.to_pitch, moved.from_pitch);
        moved.to = in_all;
        moved.from = in_scratch;
      }
      backend_->copy(a.stream, moved);
    }
  };
  if (gathers) {
    c.all_gather(rows.data, by_rank, all.elements, all.type, t.what);
    return reorder();
  }
  reorder();
  c.reduce_scatter(by_rank, all.elements, rows.data, all.type, t.reduce, t.what);
}

void Interpreter::collective(const Action& a, Communicator& c, const Call& call,
                             const std::vector<Operand>& args) {
  const Transfer& t = class_.transfers[a.op];
  const Operand& x = args.back();
  const bool rows = t.what == program::Traffic::sequence && args.size() == 2;
  if (rows) return rows_collective(a, c, args[0], x);
  if (t.what == program::Traffic::tensor && args.size() == 3) return share_keys(a, c, args);
  if (t.what == program::Traffic::split) return split_collective(a, c, args[0], x);
  if (t.what == program::Traffic::context) return context_collective(a, c, args[0], x);
  switch (t.collective) {
    case program::Collective::all_reduce:
      return c.all_reduce(x.data, x.elements, x.type, t.reduce, t.algorithm, t.what);
    case program::Collective::exchange:
      return c.exchange(args[0].data, x.data, x.elements, x.type, t.what);
    case program::Collective::all_gather:
      return c.all_gather(args[0].data, x.data, x.elements, x.type, t.what);
    case program::Collective::reduce_scatter: {
      const std::int64_t chunk = class_.spans[call.layer].shard_elements;
      const auto bytes = static_cast<std::size_t>(core::bytes_of(chunk, x.type).value());
      std::byte* const out = backend_->scratch(a.stream, bytes);
      c.reduce_scatter(x.data, x.elements, out, x.type, t.reduce, t.what);
      const std::int64_t part = class_.spans[call.layer].part_of(part_);
      const std::int64_t begin = std::min(part * chunk, x.elements);
      const std::int64_t own = std::min(chunk, x.elements - begin);
      return move(a.stream,
                  static_cast<std::byte*>(x.data) + core::bytes_of(begin, x.type).value(), out,
                  core::bytes_of(own, x.type));
    }
    default:
      PLANNER_CHECK(false, "a collective that no Program holds");
  }
}

// visit(parameter, at, n): n of its elements, which begin `at` elements into this rank's part of
// the call's span, of `elements` in all.
template <class Visit>
void Interpreter::for_own_parameters(const Call& call, std::int64_t elements,
                                     Visit&& visit) const {
  const program::Span& span = class_.spans[call.layer];
  const std::int64_t begin =
      span.offset + std::min(span.part_of(part_) * span.shard_elements, span.elements);
  for (const program::PlacedParameter& p : class_.parameters) {
    if (!p.trained) continue;
    const std::int64_t lo = std::max(begin, p.offset);
    const std::int64_t hi = std::min(begin + elements, p.offset + p.parameter.elements);
    if (lo < hi) visit(p, lo - begin, hi - lo);
  }
}

// Each gradient is counted by one of the ranks that have it.
void Interpreter::square_sum(const Action& a, const Call& call, const std::vector<Operand>& args) {
  for_own_parameters(call, args[0].elements,
                     [&](const program::PlacedParameter& p, std::int64_t at, std::int64_t n) {
                       if (!program::counts_in_norm(context_.program, class_, rank_, p)) return;
                       backend_->add_squares(a.stream, view(args[0]).at(at), n,
                                             static_cast<double*>(args[1].data));
                     });
}

void Interpreter::scale_step(const Action& a, const std::vector<Operand>& args) {
  const program::Program& p = context_.program;
  backend_->step_loss_scale(a.stream, static_cast<host::LossScaleState*>(args[1].data),
                            static_cast<const double*>(args[0].data),
                            host::loss_scale_rule(p.loss_scale, p.clip, training_.hyper));
}

// {weight, gradient, [master], slots..., scales..., [squares of the norm or loss scale]}: parameter
// by parameter, since weight decay applies to matrices alone; block-quantised optimizers take the
// whole range (they do not decay).
void Interpreter::optimizer(const Action& a, const Call& call,
                            const std::vector<Operand>& args) {
  const auto& spec = context_.program.optimizer;
  const auto kind = spec.kind;
  const std::int64_t number = update_number(call);
  const Hyper hyper = training_.at(step_of_update(number));
  const bool has_master = spec.has_master && (a.flags & program::kMasterAlone) == 0;
  const std::size_t first_slot = has_master ? 3 : 2;
  const std::size_t past_slots = args.size() - (program::reads_norm(a) ? 1 : 0);
  const auto update = [&](std::int64_t at, std::int64_t n, bool decays) {
    host::Parameters p;
    p.weight = view(args[0]).at(at);
    p.gradient = view(args[1]).at(at);
    if (has_master) p.master = view(args[2]).at(at);
    p.n = n;
    p.decays = decays;
    if ((a.flags & program::kClips) != 0)
      p.squares = static_cast<const double*>(args.back().data);
    if ((a.flags & program::kScales) != 0)
      p.loss_scale = static_cast<const host::LossScaleState*>(args.back().data);
    p.clip = context_.program.clip;
    std::vector<host::View> slots;
    for (std::size_t i = first_slot; i < past_slots; ++i) slots.push_back(view(args[i]).at(at));
    backend_->update(a.stream, {kind, hyper, number, p, slots});
  };
  const std::int64_t n = args[0].elements;
  if (kind == planner::OptimizerKind::adam8bit) return update(0, n, false);
  for_own_parameters(call, n,
                     [&](const program::PlacedParameter& p, std::int64_t at, std::int64_t count) {
                       update(at, count, p.parameter.decays);
                     });
}

}  // namespace exec
