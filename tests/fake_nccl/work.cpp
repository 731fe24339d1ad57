#include "tests/fake_nccl/work.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "tests/fake_nccl/comm.hpp"
#include "tests/fake_nccl/sums.hpp"

namespace fake_nccl {

using namespace exec::cuda::nccl;

namespace {

const char* name_of(Part::Kind kind) {
  constexpr const char* kNames[] = {"AllReduce", "ReduceScatter", "AllGather",
                                    "Broadcast", "Send",          "Recv"};
  return kNames[static_cast<int>(kind)];
}

// What all ends must say alike.
struct Claim {
  Part::Kind kind;
  std::size_t count;
  Type type;
  Op op;
  int root;
  // Of collectives, in a symmetric window; -1: in none.
  std::int64_t from_place = -1, to_place = -1;
  // But for the places of their buffers.
  bool same_call(const Claim& o) const {
    return std::tie(kind, count, type, op, root) == std::tie(o.kind, o.count, o.type, o.op, o.root);
  }
};

// NCCL's own rule (NVIDIA/nccl 2.30.7, src/misc/argcheck.cc, registrationCheck): buffers lie in
// windows on all ranks or on none, and what other ranks reach lies at the same place of each.
std::string difference_of_windows(const Claim& a, const Claim& b) {
  if ((a.from_place < 0) != (b.from_place < 0) || (a.to_place < 0) != (b.to_place < 0))
    return "has buffers in a window where the other has none";
  const bool sends = a.kind == Part::Kind::all_reduce || a.kind == Part::Kind::reduce_scatter;
  const bool receives = a.kind == Part::Kind::all_reduce || a.kind == Part::Kind::all_gather;
  if ((sends && a.from_place != b.from_place) || (receives && a.to_place != b.to_place))
    return "has a buffer at another place of its window";
  return "";
}

std::string text_of(const Claim& c) {
  return std::string(name_of(c.kind)) + " of " + std::to_string(c.count) + " elements of type " +
         std::to_string(static_cast<int>(c.type));
}

std::vector<std::byte> message(const Claim& claim, const void* data, std::size_t bytes) {
  std::vector<std::byte> all(sizeof claim + bytes);
  std::memcpy(all.data(), &claim, sizeof claim);
  if (bytes > 0) std::memcpy(all.data() + sizeof claim, data, bytes);
  return all;
}

std::size_t bytes_of(const Part& p) { return p.count * size_of(p.type); }

Claim claim_at(const Board& board, const std::string& name) {
  Claim claim{};
  const auto bytes = board.read(name);
  std::memcpy(&claim, bytes->data(), sizeof claim);
  return claim;
}

}  // namespace

void Work::give() {
  {
    const std::scoped_lock lock(comm_->device->mutex);
    call_ = ++comm_->device->given;
    const bool sends = parts_.size() == 1 && parts_.front().kind == Part::Kind::send;
    if (!sends || number("serial", 0) != 2) comm_->device->under_way.push_back(call_);
    comm_->calls.push_back(call_);
  }
  if (comm_->device->is_meant() && number("count", 0) == call_) --parts_.front().count;
  for (const Part& p : parts_) {
    const auto names = [&](int from, int to, std::int64_t n) {
      return comm_->name + ".p." + std::to_string(from) + "." + std::to_string(to) + "." +
             std::to_string(n);
    };
    if (p.kind == Part::Kind::send)
      names_.push_back(names(comm_->rank, p.peer, comm_->sent[p.peer]++));
    else if (p.kind == Part::Kind::recv)
      names_.push_back(names(p.peer, comm_->rank, comm_->received[p.peer]++));
    else
      names_.push_back(comm_->name + ".c." + std::to_string(comm_->collectives++));
  }
}

bool Work::may_begin() {
  if (aborted()) return true;
  const std::scoped_lock lock(comm_->device->mutex);
  if (comm_->calls.front() != call_) return false;
  const std::deque<std::int64_t>& before = comm_->device->under_way;
  return number("serial", 0) == 0 || before.empty() || before.front() >= call_;
}

void Work::begin() {
  if (number("error", 0) == call_ && comm_->device->is_meant())
    return fail(kRemoteError, "an error that a test asked for");
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& p = parts_[i];
    Claim claim{p.kind, p.count, p.type, p.op, p.peer};
    if (!is_point_to_point(i)) {
      claim.from_place = place_in_window(*comm_, p.from);
      claim.to_place = place_in_window(*comm_, p.to);
    }
    Board& board = *comm_->board;
    if (p.kind == Part::Kind::send)
      board.write(names_[i] + ".sent", message(claim, p.from, bytes_of(p)));
    else if (p.kind == Part::Kind::recv)
      board.write(names_[i] + ".awaited", message(claim, nullptr, 0));
    else
      board.write(names_[i] + "." + std::to_string(comm_->rank),
                  message(claim, p.from, contributes(p)));
  }
}

bool Work::is_over() {
  if (aborted()) return true;
  held_ = is_held();
  if (held_) return false;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (!has_come(i)) return false;
  return claims_agree();
}

void Work::finish() {
  if (!aborted())
    for (std::size_t i = 0; i < parts_.size(); ++i) complete(i);
  const std::scoped_lock lock(comm_->device->mutex);
  std::erase(comm_->device->under_way, call_);
  std::erase(comm_->calls, call_);
  comm_->board->changed();
}

std::uint64_t Work::board_now() const { return comm_->board->changes(); }

void Work::stuck(std::uint64_t then) {
  if (held_) return;
  comm_->board->stuck(then, text());
  const std::string circle = comm_->board->circle();
  if (!circle.empty()) fail(kInternalError, "every rank waits for another: " + circle);
}

bool Work::aborted() {
  const std::scoped_lock lock(comm_->mutex);
  return comm_->aborted;
}

// It will never be over, by no fault of the others.
bool Work::is_held() {
  if (has_failed()) return true;
  if (!comm_->device->is_meant()) return false;
  return number("stall", 0) == call_ || (number("hold", 0) == call_ && !Board::is_released());
}

bool Work::has_failed() {
  const std::scoped_lock lock(comm_->mutex);
  return comm_->state != kSuccess;
}

// Elements are counted as the call has them: of a rank's part in two of them.
std::size_t Work::contributes(const Part& p) const {
  if (p.kind == Part::Kind::reduce_scatter)
    return bytes_of(p) * static_cast<std::size_t>(comm_->ranks);
  if (p.kind == Part::Kind::broadcast && p.peer != comm_->rank) return 0;
  return bytes_of(p);
}

std::string Work::part_name(std::size_t i, int rank) const {
  switch (parts_[i].kind) {
    case Part::Kind::send: return names_[i] + ".awaited";
    case Part::Kind::recv: return names_[i] + ".sent";
    default: return names_[i] + "." + std::to_string(rank);
  }
}

bool Work::is_point_to_point(std::size_t i) const {
  return parts_[i].kind == Part::Kind::send || parts_[i].kind == Part::Kind::recv;
}

bool Work::has_come(std::size_t i) const {
  if (is_point_to_point(i)) return comm_->board->has(part_name(i, 0));
  for (int r = 0; r < comm_->ranks; ++r)
    if (!comm_->board->has(part_name(i, r))) return false;
  return true;
}

// On a GPU nothing compares them: the kernels hang, or move what was not meant.
bool Work::claims_agree() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& p = parts_[i];
    if (is_point_to_point(i)) {
      const Claim other = claim_at(*comm_->board, part_name(i, 0));
      if (other.count * size_of(other.type) == bytes_of(p)) continue;
      fail(kInvalidUsage, "a message of " + text_of(other) + " meets " + name_of(p.kind) +
                              " of " + std::to_string(p.count) + " elements");
      return false;
    }
    const Claim first = claim_at(*comm_->board, part_name(i, 0));
    for (int r = 1; r < comm_->ranks; ++r) {
      const Claim other = claim_at(*comm_->board, part_name(i, r));
      const std::string windows = difference_of_windows(first, other);
      if (other.same_call(first) && windows.empty()) continue;
      if (!other.same_call(first))
        fail(kInvalidUsage, "index 0 of the communicator called " + text_of(first) +
                                ", but index " + std::to_string(r) + " " + text_of(other));
      else
        fail(kInvalidUsage, "of " + text_of(first) + " index " + std::to_string(r) + " " + windows);
      return false;
    }
  }
  return true;
}

void Work::complete(std::size_t i) {
  const Part& p = parts_[i];
  if (p.kind == Part::Kind::send) return;
  const auto data = [&](int r) {
    std::vector<std::byte> all = *comm_->board->read(part_name(i, r));
    all.erase(all.begin(), all.begin() + sizeof(Claim));
    return all;
  };
  const auto put = [&](std::size_t at, const std::vector<std::byte>& bytes) {
    std::memcpy(static_cast<std::byte*>(p.to) + at, bytes.data(), bytes.size());
  };
  if (p.kind == Part::Kind::recv) return put(0, data(0));
  if (p.kind == Part::Kind::broadcast) return put(0, data(p.peer));
  const auto own = static_cast<std::size_t>(comm_->rank) * bytes_of(p);
  if (p.kind == Part::Kind::all_gather) {
    for (int r = 0; r < comm_->ranks; ++r) put(static_cast<std::size_t>(r) * bytes_of(p), data(r));
    return;
  }
  // From the last to the first: another order than any of this project's.
  std::vector<std::byte> sum = data(comm_->ranks - 1);
  for (int r = comm_->ranks - 2; r >= 0; --r) add_into(sum, data(r), p.type, p.op);
  if (p.kind == Part::Kind::reduce_scatter)
    sum.assign(sum.begin() + static_cast<std::ptrdiff_t>(own),
               sum.begin() + static_cast<std::ptrdiff_t>(own + bytes_of(p)));
  put(0, sum);
}

std::string Work::text() const {
  const Part& p = parts_.front();
  std::string text = name_of(p.kind);
  if (p.kind == Part::Kind::send) text += " to index " + std::to_string(p.peer);
  if (p.kind == Part::Kind::recv) text += " from index " + std::to_string(p.peer);
  return text + " of communicator " + comm_->name + ", its call " + std::to_string(call_);
}

void Work::fail(Result result, const std::string& text) {
  const std::scoped_lock lock(comm_->mutex);
  if (comm_->state != kSuccess) return;
  comm_->state = result;
  comm_->error = text;
}

}  // namespace fake_nccl
