#pragma once
// Communicator: what the ranks of one group can say to each other, whatever carries it (threads,
// processes, a GPU library). Buffers are untyped memory of `n` elements of a DType; calls block
// until the caller's buffers may be used again. Every rank of the group makes the same collective
// calls in the same order; a rank that does not gets an OrderMismatch that names both. Reductions
// follow program::reduction_order bit by bit, and wire bytes are program::wire_bytes.
//
// Thread-safety: one thread at a time per communicator. A rank that communicates from two threads
// (main and data-parallel stream) opens one communicator per thread, on different channels.

#include <cstdint>
#include <stdexcept>
#include <string>

#include "core/dtype.hpp"
#include "exec/communicator/statistics.hpp"
#include "sim/program/collective.hpp"

namespace exec {

// Another rank failed: its message, the same on every rank that is still in a call.
class Aborted : public std::runtime_error {
 public:
  Aborted(int rank, const std::string& message)
      : std::runtime_error("rank " + std::to_string(rank) + ": " + message), rank_(rank) {}
  int rank() const { return rank_; }  // the rank that failed first

 private:
  int rank_;
};

// Two ranks of a group made different calls where the same was due.
class OrderMismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Where a group keeps its parameter servers. Workers are indices 0..workers-1. Server m is index m
// when colocated, else workers + m. Server m owns chunk m of padded(n, servers)/servers elements.
struct ServerLayout {
  int workers = 0;
  int servers = 0;
  bool colocated = true;
  int index_of_server(int m) const { return colocated ? m : workers + m; }
};

// A push that has arrived at a server and not been taken.
struct PendingPush {
  int worker;
  std::int64_t key;
  std::int64_t n;  // elements of the whole vector
  core::DType type;
};

class Communicator {
 public:
  using DType = core::DType;
  using Traffic = program::Traffic;
  using ReduceOp = program::ReduceOp;

  virtual ~Communicator() = default;

  virtual int size() const = 0;              // ranks in the group
  virtual int index() const = 0;             // of this rank in the group
  virtual int rank_of(int index) const = 0;  // in the world

  // buffer (n) becomes the reduction of all, in place. Any algorithm but direct;
  // parameter_server here means one server, colocated with index 0, that returns the sum.
  virtual void all_reduce(void* buffer, std::int64_t n, DType type, ReduceOp op,
                          program::Algorithm algorithm, Traffic what) = 0;
  // Ring. buffer (n) is destroyed; chunk (padded(n, size)/size) receives the reduced chunk `index`,
  // zero where it lies past n. chunk may be that place of buffer if buffer holds padded(n, size).
  virtual void reduce_scatter(void* buffer, std::int64_t n, void* chunk, DType type, ReduceOp op,
                              Traffic what) = 0;
  // Ring. chunk (padded(n, size)/size, of which what lies past n is not read) to full (n). chunk
  // may be its own place in full. REQUIRES, below a byte per element: chunks of whole bytes.
  virtual void all_gather(const void* chunk, void* full, std::int64_t n, DType type,
                          Traffic what) = 0;
  // buffer (n) of index `root` to all; the root sends it to each.
  virtual void broadcast(void* buffer, std::int64_t n, DType type, int root, Traffic what) = 0;
  // All-to-all: chunk i of out (n) goes to index i, in (n) receives in place i what index i sent
  // here. REQUIRES: size() divides n; out and in do not overlap.
  virtual void exchange(const void* out, void* in, std::int64_t n, DType type, Traffic what) = 0;
  // Round a ring: out (n) goes to the next index, in (n) receives what the one before sent.
  // REQUIRES: out and in do not overlap.
  virtual void ring_shift(const void* out, void* in, std::int64_t n, DType type, Traffic what) = 0;
  // Point to point, matched by (sender, receiver, tag), in order within a tag. send() is buffered:
  // it returns without the receiver. `peer` is an index in the group.
  virtual void send(const void* buffer, std::int64_t n, DType type, int peer, std::int64_t tag,
                    Traffic what) = 0;
  virtual void recv(void* buffer, std::int64_t n, DType type, int peer, std::int64_t tag,
                    Traffic what) = 0;
  // Returns once every rank of the group has called it, on all at about one time.
  virtual void barrier() = 0;

  // Parameter servers. Every rank of the group states the same layout before the first push.
  virtual void use_servers(const ServerLayout& layout) = 0;
  // Worker: sends each server its chunk of gradient (n). Buffered.
  virtual void push(std::int64_t key, const void* gradient, std::int64_t n, DType type,
                    Traffic what) = 0;
  // Worker: waits for each server's reply and puts it into weights (n).
  virtual void pull(std::int64_t key, void* weights, std::int64_t n, DType type, Traffic what) = 0;
  // Server: waits for the push of every worker; sum (padded(n, servers)/servers) is their fold in
  // ascending worker order, the running sum on the left.
  virtual void collect(std::int64_t key, void* sum, std::int64_t n, DType type, ReduceOp op,
                       Traffic what) = 0;
  // Server: sends weights (padded(n, servers)/servers) to every worker. Buffered.
  virtual void reply(std::int64_t key, const void* weights, std::int64_t n, DType type,
                     Traffic what) = 0;
  // Asynchronous server: waits for any worker's push, in order of arrival, and leaves it there;
  // takes that push into gradient (a chunk); answers one worker.
  virtual PendingPush next_push() = 0;
  virtual void take_push(const PendingPush& push, void* gradient, Traffic what) = 0;
  virtual void reply_to(int worker, std::int64_t key, const void* weights, std::int64_t n,
                        DType type, Traffic what) = 0;

  // What this rank has moved through this communicator. A group of one moves and records nothing.
  virtual const CommunicatorStatistics& statistics() const = 0;
  virtual void reset_statistics() = 0;
};

}  // namespace exec
