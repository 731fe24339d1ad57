#include "exec/communicator/message_communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/check.hpp"
#include "exec/communicator/reduce.hpp"

namespace exec {
namespace {

std::size_t size_in_bytes(std::int64_t n, core::DType type) {
  return static_cast<std::size_t>(core::bytes_of(n, type).value());
}

Header send_header(std::int64_t n, core::DType type, std::int64_t tag, program::Traffic what) {
  return {CallKind::send, program::Algorithm::direct, program::ReduceOp::sum, type, what, n, tag,
          0};
}

}  // namespace

Chunks::Chunks(std::int64_t elements, int parts, core::DType element_type)
    : n(elements), each(program::padded(elements, parts) / parts), type(element_type) {
  PLANNER_CHECK(parts == 1 || each * core::bits(type) % 8 == 0, "a chunk ends within a byte");
}

std::int64_t Chunks::elements(int chunk) const {
  return std::clamp<std::int64_t>(n - chunk * each, 0, each);
}
std::size_t Chunks::offset(int chunk) const {
  return size_in_bytes(std::min(n, chunk * each), type);
}
std::size_t Chunks::bytes(int chunk) const { return size_in_bytes(elements(chunk), type); }
std::size_t Chunks::chunk_bytes() const { return size_in_bytes(each, type); }

MessageCommunicator::MessageCommunicator(std::unique_ptr<Transport> transport)
    : transport_(std::move(transport)) {
  reset_statistics();
}

void MessageCommunicator::reset_statistics() {
  statistics_ = {};
  statistics_.emulated_links = transport_->emulated_links();
}

void MessageCommunicator::record(TrafficKey key, std::int64_t calls, core::Bytes payload,
                                 const std::function<void()>& body) {
  const core::Bytes before = transport_->sent();
  const auto start = std::chrono::steady_clock::now();
  {
    struct Recall {
      Transport& transport;
      ~Recall() { transport.recall(); }
    } const recall{*transport_};
    body();
    transport_->settle();
  }
  const std::chrono::duration<double> busy = std::chrono::steady_clock::now() - start;
  if (size() == 1) return;
  statistics_.entries[key] +=
      TrafficTotals{calls, payload, transport_->sent() - before, core::Seconds(busy.count())};
}

TrafficKey MessageCommunicator::key_of(Traffic what, program::Collective collective,
                                       program::Algorithm algorithm, bool library) const {
  return {what, collective, algorithm, size(), false, library};
}

Message MessageCommunicator::expect(int peer, Lane lane, const Header& header) {
  Message message = transport_->receive(peer, lane);
  if (message.header == header) return message;
  const std::string text = fmt::format(
      "the ranks of a group made different calls: rank {} called {}, but rank {} called {}; every "
      "rank of a group must make the same calls in the same order",
      rank_of(index()), to_text(header), rank_of(peer), to_text(message.header));
  transport_->abort(text);
  throw OrderMismatch(text);
}

void MessageCommunicator::send_bytes(int peer, Lane lane, const Header& header,
                                     const std::byte* data, std::size_t size) {
  transport_->send(peer, lane, header, {data, size}, 0);
}

void MessageCommunicator::lend_bytes(int peer, Lane lane, const Header& header,
                                     const std::byte* data, std::size_t size) {
  transport_->lend(peer, lane, header, {data, size});
}

void MessageCommunicator::lend_chunk(int peer, const Header& header, const std::byte* vector,
                                     const Chunks& chunks, int chunk) {
  if (chunks.bytes(chunk) < chunks.chunk_bytes())
    return send_chunk(peer, Lane{}, header, vector, chunks, chunk);
  lend_bytes(peer, Lane{}, header, vector + chunks.offset(chunk), chunks.chunk_bytes());
}

void MessageCommunicator::send_chunk(int peer, Lane lane, const Header& header,
                                     const std::byte* vector, const Chunks& chunks, int chunk) {
  const std::size_t real = chunks.bytes(chunk);
  const std::span<const std::byte> data =
      real == 0 ? std::span<const std::byte>{} : std::span(vector + chunks.offset(chunk), real);
  transport_->send(peer, lane, header, data, chunks.chunk_bytes() - real);
}

void MessageCommunicator::receive_bytes(int peer, Lane lane, const Header& header, std::byte* out,
                                        std::size_t size) {
  Message message = expect(peer, lane, header);
  PLANNER_CHECK(message.size >= size);
  transport_->memory().copy(out, message.bytes.get(), size);
  transport_->recycle(std::move(message));
}

void MessageCommunicator::fold_message_in(int peer, Lane lane, const Header& header, ReduceOp op,
                                          std::byte* out, std::int64_t n) {
  Message message = expect(peer, lane, header);
  transport_->memory().combine(out, message.bytes.get(), out, n, header.type, op);
  transport_->recycle(std::move(message));
}

void MessageCommunicator::fold_into_message(int peer, const Header& header, std::byte* out,
                                            std::int64_t n) {
  Message message = expect(peer, Lane{}, header);
  transport_->memory().combine(message.bytes.get(), out, out, n, header.type, header.op);
  transport_->recycle(std::move(message));
}

void MessageCommunicator::all_reduce(void* buffer, std::int64_t n, DType type, ReduceOp op,
                                     program::Algorithm algorithm, Traffic what) {
  PLANNER_CHECK(reducible(type), "this type cannot be reduced");
  const Header header{CallKind::all_reduce, algorithm, op, type, what, n, 0, collective_calls_++};
  const auto collective = program::Collective::all_reduce;
  // The others are what the plan is about: nobody else's will do.
  const bool any_will_do =
      algorithm == program::Algorithm::ring || algorithm == program::Algorithm::tree;
  LibraryCollectives* const library = any_will_do ? transport_->library() : nullptr;
  record(key_of(what, collective, algorithm, library != nullptr), 1,
         program::payload_bytes(collective, algorithm, size(), 1, n, type), [&] {
           if (library != nullptr) return library->all_reduce(buffer, n, type, op);
           run_all_reduce(header, static_cast<std::byte*>(buffer));
         });
}

void MessageCommunicator::run_all_reduce(const Header& header, std::byte* vector) {
  switch (header.algorithm) {
    case program::Algorithm::ring: {
      const Chunks chunks(header.n, size(), header.type);
      ring_reduce(header, vector, chunks);
      return ring_gather(header, vector, chunks);
    }
    case program::Algorithm::tree: return tree_all_reduce(header, vector);
    case program::Algorithm::naive_all_reduce: return naive_all_reduce(header, vector);
    case program::Algorithm::parameter_server: return server_all_reduce(header, vector);
    case program::Algorithm::direct:
    case program::Algorithm::pairwise: break;
  }
  PLANNER_CHECK(false, "direct and pairwise transfers reduce nothing");
}

void MessageCommunicator::reduce_scatter(void* buffer, std::int64_t n, void* chunk, DType type,
                                         ReduceOp op, Traffic what) {
  PLANNER_CHECK(reducible(type), "this type cannot be reduced");
  const Header header{CallKind::reduce_scatter, program::Algorithm::ring, op, type, what, n, 0,
                      collective_calls_++};
  auto* vector = static_cast<std::byte*>(buffer);
  auto* out = static_cast<std::byte*>(chunk);
  const Chunks chunks(n, size(), type);
  const auto collective = program::Collective::reduce_scatter;
  LibraryCollectives* const library = transport_->library();
  record(key_of(what, collective, program::Algorithm::ring, library != nullptr), 1,
         program::payload_bytes(collective, program::Algorithm::ring, size(), 0, n, type), [&] {
           if (library != nullptr) return library->reduce_scatter(buffer, n, chunk, type, op);
           ring_reduce(header, vector, chunks);
           const std::size_t real = chunks.bytes(index());
           transport_->memory().copy(out, vector + chunks.offset(index()), real);
           transport_->memory().zero(out + real, chunks.chunk_bytes() - real);
         });
}

void MessageCommunicator::all_gather(const void* chunk, void* full, std::int64_t n, DType type,
                                     Traffic what) {
  const Header header{CallKind::all_gather, program::Algorithm::ring, ReduceOp::sum, type, what, n,
                      0, collective_calls_++};
  auto* vector = static_cast<std::byte*>(full);
  const Chunks chunks(n, size(), type);
  const auto collective = program::Collective::all_gather;
  LibraryCollectives* const library = transport_->library();
  record(key_of(what, collective, program::Algorithm::ring, library != nullptr), 1,
         program::payload_bytes(collective, program::Algorithm::ring, size(), 0, n, type), [&] {
           if (library != nullptr) return library->all_gather(chunk, full, n, type);
           transport_->memory().copy(vector + chunks.offset(index()),
                                     static_cast<const std::byte*>(chunk), chunks.bytes(index()));
           ring_gather(header, vector, chunks);
         });
}

void MessageCommunicator::broadcast(void* buffer, std::int64_t n, DType type, int root,
                                    Traffic what) {
  PLANNER_CHECK(root >= 0 && root < size());
  const Header header{CallKind::broadcast, program::Algorithm::direct, ReduceOp::sum, type, what, n,
                      root, collective_calls_++};
  auto* vector = static_cast<std::byte*>(buffer);
  const std::size_t bytes = size_in_bytes(n, type);
  const auto collective = program::Collective::broadcast;
  record(key_of(what, collective, program::Algorithm::direct), 1, core::bytes_of(n, type), [&] {
    if (index() != root) return receive_bytes(root, Lane{}, header, vector, bytes);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != root) lend_bytes(peer, Lane{}, header, vector, bytes);
    }
  });
}

// Nobody waits to send, so all go out before any is taken. What stays here is copied.
void MessageCommunicator::exchange(const void* out, void* in, std::int64_t n, DType type,
                                   Traffic what) {
  PLANNER_CHECK(n % size() == 0, "an exchange of equal chunks");
  const Header header{CallKind::exchange, program::Algorithm::pairwise, ReduceOp::sum, type, what,
                      n, 0, collective_calls_++};
  const auto* from = static_cast<const std::byte*>(out);
  auto* into = static_cast<std::byte*>(in);
  const Chunks chunks(n, size(), type);
  const int k = size(), i = index();
  const auto collective = program::Collective::exchange;
  const auto algorithm = program::Algorithm::pairwise;
  record(key_of(what, collective, algorithm), 1,
         program::payload_bytes(collective, algorithm, k, 0, n, type), [&] {
           transport_->memory().copy(into + chunks.offset(i), from + chunks.offset(i),
                                     chunks.bytes(i));
           for (int step = 1; step < k; ++step) {
             const int to = (i + step) % k;
             lend_bytes(to, Lane{}, header, from + chunks.offset(to), chunks.bytes(to));
           }
           for (int step = 1; step < k; ++step) {
             const int peer = (i + k - step) % k;
             receive_bytes(peer, Lane{}, header, into + chunks.offset(peer), chunks.bytes(peer));
           }
         });
}

// Nobody waits to send, so that all ranks may begin with it.
void MessageCommunicator::ring_shift(const void* out, void* in, std::int64_t n, DType type,
                                     Traffic what) {
  const auto collective = program::Collective::send;
  const auto algorithm = program::Algorithm::ring;
  const Header header{CallKind::ring_shift, algorithm, ReduceOp::sum, type, what, n, 0,
                      collective_calls_++};
  const int k = size(), i = index();
  const std::size_t bytes = size_in_bytes(n, type);
  record(key_of(what, collective, algorithm), 1, core::bytes_of(n, type), [&] {
    lend_bytes((i + 1) % k, Lane{}, header, static_cast<const std::byte*>(out), bytes);
    receive_bytes((i + k - 1) % k, Lane{}, header, static_cast<std::byte*>(in), bytes);
  });
}

void MessageCommunicator::send(const void* buffer, std::int64_t n, DType type, int peer,
                               std::int64_t tag, Traffic what) {
  PLANNER_CHECK(peer >= 0 && peer < size() && peer != index());
  const Header header = send_header(n, type, tag, what);
  record(key_of(what, program::Collective::send, program::Algorithm::direct), 1,
         core::bytes_of(n, type), [&] {
           send_bytes(peer, Lane{Lane::Kind::point_to_point, tag}, header,
                      static_cast<const std::byte*>(buffer), size_in_bytes(n, type));
         });
}

void MessageCommunicator::recv(void* buffer, std::int64_t n, DType type, int peer,
                               std::int64_t tag, Traffic what) {
  PLANNER_CHECK(peer >= 0 && peer < size() && peer != index());
  const Header header = send_header(n, type, tag, what);
  record(key_of(what, program::Collective::send, program::Algorithm::direct), 0, core::Bytes(0),
         [&] {
           receive_bytes(peer, Lane{Lane::Kind::point_to_point, tag}, header,
                         static_cast<std::byte*>(buffer), size_in_bytes(n, type));
         });
}

// To the farthest of the others, from index 0 and one way; elsewhere 0. The least of three.
std::chrono::nanoseconds MessageCommunicator::farthest_trip(const Header& header) {
  using Clock = std::chrono::steady_clock;
  std::chrono::nanoseconds farthest{0};
  for (int peer = 1; peer < size(); ++peer) {
    if (index() != 0 && index() != peer) continue;
    auto there_and_back = std::chrono::nanoseconds::max();
    for (int trip = 0; trip < 3; ++trip) {
      const Clock::time_point start = Clock::now();
      if (index() == 0) send_bytes(peer, Lane{}, header, nullptr, 0);
      receive_bytes(index() == 0 ? peer : 0, Lane{}, header, nullptr, 0);
      if (index() != 0) send_bytes(0, Lane{}, header, nullptr, 0);
      there_and_back = std::min<std::chrono::nanoseconds>(there_and_back, Clock::now() - start);
    }
    if (index() == 0) farthest = std::max(farthest, there_and_back / 2);
  }
  return farthest;
}

// Everyone reports to index 0, which then answers everyone, and goes on itself when its answer is
// there: what all begin behind a barrier they begin at one time, however far apart they are.
void MessageCommunicator::barrier() {
  Header header;
  header.kind = CallKind::barrier;
  header.sequence = collective_calls_++;
  if (!trip_) trip_ = farthest_trip(header);
  const int first = index() == 0 ? 1 : 0;
  const int last = index() == 0 ? size() : 1;
  if (index() != 0) send_bytes(0, Lane{}, header, nullptr, 0);
  for (int peer = first; peer < last; ++peer) receive_bytes(peer, Lane{}, header, nullptr, 0);
  if (index() != 0) return;
  for (int peer = 1; peer < size(); ++peer) send_bytes(peer, Lane{}, header, nullptr, 0);
  const auto there = std::chrono::steady_clock::now() + *trip_;
  while (std::chrono::steady_clock::now() < there) std::this_thread::yield();
}

}  // namespace exec
