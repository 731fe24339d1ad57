#include "exec/cuda/nccl/world.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/check.hpp"
#include "core/parse_units.hpp"
#include "core/thread.hpp"
#include "exec/cuda/nccl/communicator.hpp"
#include "exec/run/environment.hpp"
#include "exec/run/pack.hpp"

namespace exec::cuda {
namespace {

using namespace std::chrono_literals;

constexpr auto kBetweenPolls = 20us;   // of a call that the library goes on with by itself

nccl::Config config() {
  nccl::Config c;
  c.blocking = 0;
  // What shares resources is put in one order by the library, whatever streams it is given to: a
  // send that waits for its receiver would hold up every other call of the rank.
  c.split_share = 0;
  return c;
}

// What NCCL takes for a machine: two ranks of one card count as ranks of two machines where their
// NCCL_HOSTID differs (src/misc/utils.cc, getHostHash). A test with one GPU needs that.
std::string host_id() {
  const char* const given = std::getenv("NCCL_HOSTID");
  return given != nullptr && *given != '\0' ? given : host_name();
}

}  // namespace

std::string NcclWorld::text_of(const Key& key) {
  return fmt::format("{} of ranks {}", key.second, fmt::join(key.first, ","));
}

NcclWorld::NcclWorld(Processes& control, Api& api, const CollectiveLibrary& library,
                     NcclOptions options)
    : control_(control), api_(api), library_(library), options_(options) {
  watch_ = core::start_thread("the watch over NCCL", [this] { watch(); });
}

NcclWorld::~NcclWorld() {
  close();
  {
    const std::scoped_lock lock(state_mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  watch_.join();
  for (const Given& g : given_) api_.destroy(g.done);
  for (EventHandle e : spare_events_) api_.destroy(e);
}

std::unique_ptr<Communicator> NcclWorld::open(int index, std::span<const int> group_ranks,
                                              int channel, MessageMemory& memory) {
  auto* const on_device = dynamic_cast<StreamMessages*>(&memory);
  if (on_device == nullptr) return control_.communicator_at(index, group_ranks, channel, memory);
  return std::make_unique<NcclCommunicator>(
      *this, std::vector<int>(group_ranks.begin(), group_ranks.end()), index, channel, *on_device);
}

void NcclWorld::add(NcclCommunicator* communicator) { communicators_.insert(communicator); }
void NcclWorld::remove(NcclCommunicator* communicator) { communicators_.erase(communicator); }

void NcclWorld::abort(int rank, const std::string& message) { control_.abort(rank, message); }
std::string NcclWorld::fail(const std::string& message) { return control_.fail(message); }

bool NcclWorld::everyone(bool yes) {
  return std::ranges::none_of(control_.exchange(yes ? "yes" : "no"),
                              [](const std::string& said) { return said != "yes"; });
}

std::map<std::string, std::string> NcclWorld::environment() const {
  std::map<std::string, std::string> all = control_.environment();
  all["nccl"] = nccl_version_text(library_.version);
  all["nccl_library"] = library_.path;
  all["nccl_communicators"] = std::to_string(comms_.size());
  all["nccl_buffers"] = range_text();
  all["nccl_collectives"] =
      options_.own_collectives
          ? "own kernels over the library's send and receive"
          : "the library's; its wire bytes are those of the plan's algorithm, not read from it";
  return all;
}

// ---- opening

void NcclWorld::opened() {
  std::set<Key> mine;
  for (const NcclCommunicator* c : communicators_)
    for (Key& key : c->needs()) mine.insert(std::move(key));
  Packer packer;
  packer.value(mine.size());
  for (const Key& key : mine) {
    packer.values(key.first);
    packer.text(key.second);
  }
  std::set<Key> all;
  for (const std::string& text : control_.exchange(packer.take())) {
    Unpacker unpacker(text);
    for (auto n = unpacker.value<std::size_t>(); n > 0; --n) {
      std::vector<int> ranks = unpacker.values<int>();
      all.emplace(std::move(ranks), unpacker.text());
    }
  }
  agree_on_machines();
  count_taken([&] {
    make_first();
    make_communicators(all, mine);
    register_range();
  });
  drained();
}

// What else allocates on this device does so on this thread, and not within `body`.
void NcclWorld::count_taken(const std::function<void()>& body) {
  if (!measures_) return body();
  const core::Bytes free = api_.memory().free;
  body();
  // Where others share the card and gave memory back meanwhile, what was taken cannot be told.
  taken_ += std::max(free - api_.memory().free, core::Bytes(0));
}

// One library for all, and a GPU for each: the library says either less clearly, or hangs.
void NcclWorld::agree_on_machines() {
  Packer packer;
  packer.value(library_.version);
  packer.text(host_id());
  packer.text(api_.device().pci);
  std::map<std::pair<std::string, std::string>, int> seen;  // host and GPU: rank
  int first_version = 0;
  const std::vector<std::string> told = control_.exchange(packer.take());
  for (std::size_t r = 0; r < told.size(); ++r) {
    Unpacker unpacker(told[r]);
    const int version = unpacker.value<int>();
    std::string host = unpacker.text(), pci = unpacker.text();
    if (r == 0) first_version = version;
    if (version != first_version)
      throw std::runtime_error(fmt::format(
          "expected one version of NCCL, found {} on rank 0 and {} on rank {}; install one on "
          "every machine, or name it with --nccl PATH",
          nccl_version_text(first_version), nccl_version_text(version), r));
    if (pci == "none") continue;       // no GPU, but one that is played
    const auto [at, fresh] = seen.try_emplace({host, pci}, static_cast<int>(r));
    if (!fresh)
      throw std::runtime_error(fmt::format(
          "expected a GPU for each rank, found ranks {} and {} on GPU {} of {}; start as many "
          "ranks on a machine as it has GPUs",
          at->second, r, pci, host));
  }
}

void NcclWorld::make_first() {
  nccl::UniqueId id{};
  std::string mine;
  if (rank() == 0) {
    const nccl::Result result = library_.get_unique_id(&id);
    if (result != nccl::kSuccess)
      throw std::runtime_error("ncclGetUniqueId: " + words_of(result, nullptr));
    mine.assign(id.internal, sizeof id.internal);
  }
  const std::string told = control_.exchange(mine).front();
  PLANNER_CHECK(told.size() == sizeof id.internal, "rank 0 tells an id of another size");
  std::memcpy(id.internal, told.data(), told.size());
  nccl::Config c = config();
  const std::string what = fmt::format("ncclCommInitRankConfig of {} ranks", ranks());
  nccl::Result result = nccl::kSuccess;
  {
    const std::scoped_lock lock(calls_);
    busy_since_ = Clock::now().time_since_epoch().count();
    result = library_.comm_init_rank_config(&first_, ranks(), id, rank(), &c);
  }
  if (result != nccl::kSuccess && result != nccl::kInProgress)
    throw std::runtime_error(what + ": " + words_of(result, nullptr));
  await(first_, what);
}

// In rounds of communicators that have no rank in common, each one call of every rank.
void NcclWorld::make_communicators(const std::set<Key>& all, const std::set<Key>& mine) {
  std::vector<Key> left(all.begin(), all.end());
  while (!left.empty()) {
    std::vector<Key> round, later;
    std::set<int> taken;
    for (Key& key : left) {
      const bool free = std::ranges::none_of(key.first, [&](int r) { return taken.contains(r); });
      if (free) taken.insert(key.first.begin(), key.first.end());
      (free ? round : later).push_back(std::move(key));
    }
    split(round);
    left = std::move(later);
  }
  for (const Key& key : mine)
    PLANNER_CHECK(comms_.contains(key), "a communicator that was not made: " + text_of(key));
}

void NcclWorld::split(const std::vector<Key>& round) {
  int colour = nccl::kNoColour, index = 0;
  for (std::size_t i = 0; i < round.size(); ++i) {
    const auto at = std::ranges::find(round[i].first, rank());
    if (at == round[i].first.end()) continue;
    colour = static_cast<int>(i);
    index = static_cast<int>(at - round[i].first.begin());
  }
  const bool in = colour != nccl::kNoColour;
  const std::string what =
      in ? "ncclCommSplit for " + text_of(round[static_cast<std::size_t>(colour)])
         : "ncclCommSplit for others";
  nccl::Comm& made = made_.emplace_back(nullptr);
  nccl::Config c = config();
  if (in) {
    const std::vector<int>& ranks = round[static_cast<std::size_t>(colour)].first;
    const auto channels = options_.channels.find(static_cast<int>(ranks.size()));
    // Both: NCCL 2.28 compares them, and takes one that is not given for the least there is.
    if (channels != options_.channels.end())
      c.min_ctas = channels->second, c.max_ctas = std::max(channels->second, nccl::kMostCtas);
  }
  nccl::Result result = nccl::kSuccess;
  {
    const std::scoped_lock lock(calls_);
    if (aborted_) throw_ended();
    result = library_.comm_split(first_, colour, index, &made, &c);
  }
  if (result != nccl::kSuccess && result != nccl::kInProgress)
    throw std::runtime_error(what + ": " + words_of(result, first_));
  await(first_, what);
  if (!in) return;
  if (made == nullptr) throw std::runtime_error(what + ": it was made, and none is there");
  {
    const std::scoped_lock lock(calls_);
    comms_[round[static_cast<std::size_t>(colour)]] = made;
  }
  await(made, what);
}

// ---- calls

nccl::Comm NcclWorld::comm(const Key& key) const {
  const auto at = comms_.find(key);
  PLANNER_CHECK(at != comms_.end(), "a communicator that nobody asked for: " + text_of(key));
  return at->second;
}

std::string NcclWorld::words_of(nccl::Result result, nccl::Comm comm) const {
  const char* const kind = library_.get_error_string(result);
  const char* const more = library_.get_last_error(comm);
  std::string text = kind != nullptr ? kind : fmt::format("error {}", static_cast<int>(result));
  if (more != nullptr && *more != '\0') text.append(": ").append(more);
  return text;
}

void NcclWorld::throw_ended() { throw std::runtime_error(control_.fail("the world has ended")); }

// The library goes on with a call by itself, and takes no other for this communicator meanwhile.
void NcclWorld::await(nccl::Comm comm, const std::string& what) {
  for (;;) {
    nccl::Result state = nccl::kSuccess;
    {
      const std::scoped_lock lock(calls_);
      if (aborted_) break;
      const nccl::Result result = library_.comm_get_async_error(comm, &state);
      if (result != nccl::kSuccess) state = result;
      if (state != nccl::kSuccess && state != nccl::kInProgress)
        throw std::runtime_error(what + ": " + words_of(state, comm));
    }
    if (state == nccl::kSuccess) return;
    look();
    std::this_thread::sleep_for(kBetweenPolls);
  }
  throw_ended();
}

void NcclWorld::call(nccl::Comm comm, const std::string& what, StreamHandle stream,
                     const std::function<nccl::Result()>& body) {
  count_taken([&] {
    {
      const std::scoped_lock lock(calls_);
      if (!aborted_) {
        begin_busy();
        const nccl::Result result = body();
        if (result != nccl::kSuccess && result != nccl::kInProgress)
          throw std::runtime_error(what + ": " + words_of(result, comm));
      }
    }
    if (aborted_) throw_ended();
    await(comm, what);
  });
  if (!keeps_) note(what, stream);
}

// REQUIRES: calls_ is held.
void NcclWorld::begin_busy() {
  if (busy_since_ == 0) busy_since_ = Clock::now().time_since_epoch().count();
}

// Which of its calls is not over cannot be seen from outside.
void NcclWorld::launched(StreamHandle stream) {
  {
    const std::scoped_lock lock(calls_);
    if (aborted_) throw_ended();
    begin_busy();
  }
  note("a step that was launched as a CUDA graph (--graphs off names the call)", stream);
}

// Where its work ends, for a message that names what is not over.
void NcclWorld::note(const std::string& what, StreamHandle stream) {
  const std::scoped_lock lock(calls_);
  if (spare_events_.empty()) spare_events_.push_back(api_.create_event(false));
  api_.record(spare_events_.back(), stream);
  given_.push_back({what, spare_events_.back()});
  spare_events_.pop_back();
}

void NcclWorld::look() {
  if (!control_.ended()) return;
  // Whoever unwinds waits for streams: the communicators must have let go of them before.
  std::unique_lock lock(state_mutex_);
  changed_.wait_for(lock, 2 * kPatienceToAbort, [&] { return aborted_.load(); });
  lock.unlock();
  throw_ended();
}

void NcclWorld::drained() {
  for (NcclCommunicator* c : communicators_) c->drain_beside();
  const std::scoped_lock lock(calls_);
  measures_ = measures_ && given_.empty();
  for (const Given& g : given_) spare_events_.push_back(g.done);
  given_.clear();
  busy_since_ = 0;
}

// ---- ending

void NcclWorld::close() {
  if (aborted_ || first_ == nullptr) return;
  deregister_range();
  std::vector<nccl::Comm> all;
  for (const auto& [key, comm] : comms_) all.push_back(comm);
  all.push_back(first_);
  try {
    for (nccl::Comm comm : all) {
      {
        const std::scoped_lock lock(calls_);
        if (aborted_) return;
        library_.comm_finalize(comm);
      }
      await(comm, "ncclCommFinalize");
    }
  } catch (const std::exception& e) {
    control_.abort(rank(), e.what());  // the watch thread aborts what is left
    std::unique_lock lock(state_mutex_);
    changed_.wait_for(lock, 2 * kPatienceToAbort, [&] { return aborted_.load(); });
    return;
  }
  const std::scoped_lock lock(calls_);
  if (aborted_) return;
  for (nccl::Comm comm : all) library_.comm_destroy(comm);
  comms_.clear();
  first_ = nullptr;
}

void NcclWorld::finish() {
  close();
  control_.finish();
}

}  // namespace exec::cuda
