#pragma once
// Collectives: their names, what each rank puts on the wire (laws C1-C4 of the founding facts), and
// the order in which each algorithm adds floating-point numbers. The communicators of exec execute
// exactly this, the planner prints it, and the reference trainer of the tests follows the order.
// Pure functions; thread-safe.
//
// Conventions (nccl-tests doc/PERFORMANCE.md): the payload S of all_reduce, broadcast and send is
// the full vector; of all_gather, reduce_scatter and exchange the total gathered size. Wire bytes
// are payload bytes that a rank sends, without framing; padding to a multiple of the group counts.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/units.hpp"

namespace program {

enum class Collective : std::uint8_t {
  all_reduce, reduce_scatter, all_gather, broadcast, send, parameter_server, copy,
  exchange                             // all-to-all: chunk i of each rank's vector goes to rank i
};
// ring of send: each rank's whole vector goes to the next one of the group, round.
// direct: one message, or one to each peer, no reduction order of its own (send, broadcast, and the
// copy between a rank and its host).
// pairwise: a message from each rank to each other, of its own part (exchange).
enum class Algorithm : std::uint8_t {
  ring, tree, naive_all_reduce, parameter_server, direct, pairwise
};
enum class ReduceOp : std::uint8_t { sum, max };
// What a transfer is for: the `what` of the plan file.
enum class Traffic : std::uint8_t {
  gradients, parameters, tensor, sequence, pipeline, embedding, loss, norm, context, offload,
  expert,
  split,                               // between ranks that divide operators
  statistics,                          // of batch norms over the samples of all data ranks
};
inline constexpr std::size_t kTraffics = 13;

std::string_view name(Collective c);
std::string_view name(Algorithm a);
std::string_view name(Traffic t);
std::optional<Algorithm> algorithm_from_name(std::string_view text);
std::optional<Collective> collective_from_name(std::string_view text);

// n rounded up to a multiple of `parts`. REQUIRES: parts >= 1.
constexpr std::int64_t padded(std::int64_t n, std::int64_t parts) {
  return (n + parts - 1) / parts * parts;
}

// Payload S in bytes of a collective over `elements` elements, padded where the algorithm needs it:
// ring all_reduce, reduce_scatter, all_gather, exchange to a multiple of group; naive_all_reduce,
// tree, broadcast and every send not at all. parameter_server pads to a multiple of `servers`.
core::Bytes payload_bytes(Collective c, Algorithm a, int group, int servers, std::int64_t elements,
                          core::DType wire_type);

// Bytes of a collective as a library like NCCL is given it: chunks of gathers and scatters are
// equal, a vector to reduce is not padded.
core::Bytes library_bytes(Collective c, int group, std::int64_t elements, core::DType type);

// Bytes that the rank of index `index` in a group of `group` sends for one call:
//   ring all_reduce        2 S (K-1)/K          [C4]   chunks of S/K
//   naive_all_reduce       S (K-1)              [C1]   every rank sends all to the others
//   tree all_reduce        binary heap tree rooted at 0: S up (not the root) + S per child down
//   ring reduce_scatter,
//   ring all_gather,
//   pairwise exchange      S (K-1)/K
//   broadcast direct       S (K-1) at the root (index 0), else 0
//   send direct            S at index 0 (the sender), else 0
//   send ring              S, to the next index; as nccl-tests' sendrecv
// A group of one sends nothing. REQUIRES: not parameter_server (see below), 0 <= index < group.
core::Bytes wire_bytes(Collective c, Algorithm a, int group, int index, std::int64_t elements,
                       core::DType wire_type);

// Parameter servers [C2, C3, C5]: `servers` M each own 1/M of the (padded) vector. Colocated
// servers are workers 0..M-1 and do not send to themselves.
struct ServerTraffic {
  core::Bytes push_per_worker;   // gradients a worker sends (by worker index when colocated)
  core::Bytes reply_per_server;  // weights a server sends
};
ServerTraffic server_traffic(int workers, int servers, bool colocated, int index,
                             std::int64_t elements, core::DType gradient_type,
                             core::DType weight_type);

// One reduction of K contributions in a stated order, as a list of steps on accumulators:
// acc[into] = acc[into] + acc[from], where acc[i] starts as the contribution of group index i, each
// sum rounded to the wire type. The result is acc[result].
struct ReductionStep { int into; int from; };
struct ReductionOrder { std::vector<ReductionStep> steps; int result; };
// The order for the element chunk `chunk` (of `group` chunks of padded(n, group)/group elements):
//   ring (all_reduce and reduce_scatter): chunk c starts at index c+1 and visits ascending indices
//     cyclically, ending at c: ((g[c+1] + g[c+2]) + ...) + g[c]. The running sum stands left.
//   naive_all_reduce and parameter_server: ascending fold ((g[0] + g[1]) + ...), any chunk.
//   tree: acc[i] = (g[i] + acc[2i+1]) + acc[2i+2], any chunk.
ReductionOrder reduction_order(Algorithm a, int group, int chunk);

}  // namespace program
