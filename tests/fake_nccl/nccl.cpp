// A libnccl.so.2 for tests, with the real binary interface, between processes without a GPU. Its
// work goes to the streams of a twin (exec/cuda/twin/meeting.hpp), whose binary exports the way in.
// What NCCL leaves to its callers it is strict about: it goes on with a call only when it is asked
// how far it is (ncclInProgress), refuses another call of that communicator meanwhile, lets no send
// end before its receiver has come, and adds in an order of its own. Calls that differ between
// ranks, which hang or corrupt on a GPU, are errors that ncclCommGetAsyncError tells of.
//
// PLANNER_FAKE_NCCL has words NAME=VALUE:
//   version=CODE   what ncclGetVersion answers
//   rank=N         the words below are for this rank of the job alone
//   error=N        the Nth call of the process ends in an asynchronous error
//   stall=N        the Nth call never ends
//   hold=N         the Nth call is not over before there is a file `released` in TMPDIR
//   count=N        the Nth call is made with one element less
//   refuse=N       the Nth call is refused at once
//   serial=1       calls of one rank begin when the one before is over, whatever their streams
//   serial=2       the same, but a send begins when what came before is over, and holds up nothing
//   memory=0       there is none that it could give
//   windows=0      GPUs do not reach each other's memory: a window is nothing, and no error
//   channels=N     channels of each communicator, which its connections take memory for (2)
//   nvls=N         channels of sums in the switch, of communicators of three ranks or more (0)

#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <utility>

#include "exec/cuda/twin/meeting.hpp"
#include "tests/fake_nccl/comm.hpp"
#include "tests/fake_nccl/plugins.hpp"
#include "tests/fake_nccl/work.hpp"

std::int64_t fake_nccl::number(const char* name, std::int64_t otherwise) {
  const char* const given = std::getenv("PLANNER_FAKE_NCCL");
  std::istringstream text(given != nullptr ? given : "");
  const std::string start = std::string(name) + "=";
  for (std::string word; text >> word;)
    if (word.starts_with(start)) return std::stoll(word.substr(start.size()));
  return otherwise;
}

namespace {

using namespace exec::cuda::nccl;
using fake_nccl::Board;
using fake_nccl::number;
using fake_nccl::Part;
using fake_nccl::Work;

// ---- giving work to streams

// Where the stream's work is kept as a graph, a call is given whenever the graph is launched.
void meet(void* stream, std::unique_ptr<Work> work) {
  using Way = void (*)(void*, const planner_twin_meeting*);
  using Keeps = int (*)(void*);
  static const Way way = reinterpret_cast<Way>(::dlsym(RTLD_DEFAULT, "planner_twin_meet"));
  static const Keeps keeps = reinterpret_cast<Keeps>(::dlsym(RTLD_DEFAULT, "planner_twin_keeps"));
  if (way == nullptr || keeps == nullptr) std::abort();  // no twin in this binary
  if (keeps(stream) == 0) work->give();
  const planner_twin_meeting calls{
      work.release(),
      [](void* self) { return static_cast<int>(static_cast<Work*>(self)->may_begin()); },
      [](void* self) { static_cast<Work*>(self)->begin(); },
      [](void* self) { return static_cast<int>(static_cast<Work*>(self)->is_over()); },
      [](void* self) { static_cast<Work*>(self)->finish(); },
      [](void* self) { return static_cast<Work*>(self)->board_now(); },
      [](void* self, std::uint64_t then) { static_cast<Work*>(self)->stuck(then); },
      [](void* self) { delete static_cast<Work*>(self); },
      [](void* self) {
        Work* const next = static_cast<Work*>(self)->again();
        next->give();
        return static_cast<void*>(next);
      }};
  way(stream, &calls);
}

struct Group {
  int depth = 0;
  // In the order of first use.
  std::vector<std::pair<std::pair<Comm, void*>, std::vector<Part>>> works;
};
thread_local Group group;

// Buffers of a channel's connection on a GPU of Hopper's kind, as the library takes them when
// ranks first talk: 2 MiB to send, 10 MiB to receive (NVIDIA/nccl v2.28.9, src/transport/p2p.cc).
// A ring sends to one peer and receives from another.
constexpr std::int64_t kToSend = std::int64_t{2} << 20, kToReceive = std::int64_t{10} << 20;

// Of sums in the switch, a channel takes for each rank eight chunks of 128 KiB both ways
// (src/transport/nvls.cc, ncclNvlsSetup).
constexpr std::int64_t kNvlsChannel = std::int64_t{128} << 14;
constexpr int kFewestInSwitch = 3;

void connect(Comm comm, void* stream, const std::vector<Part>& parts) {
  static const auto take = reinterpret_cast<void* (*)(void*, std::int64_t)>(
      ::dlsym(RTLD_DEFAULT, "planner_twin_take"));
  std::int64_t bytes = 0;
  bool fresh = false;                  // for collectives
  for (const Part& p : parts) {
    const bool sends = p.kind == Part::Kind::send;
    if (sends || p.kind == Part::Kind::recv) {
      if (comm->peers.emplace(p.peer, sends).second) bytes += sends ? kToSend : kToReceive;
    } else if (!comm->connected) {
      comm->connected = fresh = true;
      bytes += kToSend + kToReceive;
    }
  }
  bytes *= comm->channels;
  if (fresh && comm->ranks >= kFewestInSwitch)
    bytes += kNvlsChannel * comm->ranks * number("nvls", 0);
  if (bytes > 0) comm->memory_of = take(stream, bytes);
  comm->buffers += bytes;
}

Result launch(Comm comm, void* stream, std::vector<Part> parts) {
  connect(comm, stream, parts);
  for (const Part& p : parts)
    if (!fake_nccl::tune_and_profile(*comm, p)) return kInvalidUsage;
  meet(stream, std::make_unique<Work>(comm, std::move(parts)));
  return kSuccess;
}

// The caller must ask how far it is before the work is given.
Result begin_group() {
  Result result = kSuccess;
  for (auto& [where, parts] : group.works) {
    const auto comm = where.first;
    const auto stream = where.second;
    const std::scoped_lock lock(comm->mutex);
    if (comm->aborted || comm->state != kSuccess || !comm->going.empty()) {
      comm->error = "a call while another is in progress";
      result = kInvalidUsage;
      break;
    }
    if (number("refuse", 0) == comm->device->given + 1 && comm->device->is_meant()) {
      comm->error = "a refusal that a test asked for";
      result = kInvalidArgument;
      break;
    }
    comm->going.push_back([] { return kInProgress; });
    comm->going.push_back([comm, stream, kept = parts] { return launch(comm, stream, kept); });
    result = kInProgress;
  }
  group.works.clear();
  return result;
}

Result give(Comm comm, void* stream, const Part& part) {
  if (comm == nullptr) return kInvalidArgument;
  const auto at = std::ranges::find_if(
      group.works, [&](const auto& w) { return w.first == std::pair{comm, stream}; });
  if (at != group.works.end())
    at->second.push_back(part);
  else
    group.works.push_back({{comm, stream}, {part}});
  return group.depth > 0 ? kSuccess : begin_group();
}

// A communicator's plugins are made with it.
Result attach(Comm comm) {
  const Result result = fake_nccl::attach_plugins(*comm);
  if (result == kSuccess) return result;
  const std::scoped_lock lock(comm->mutex);
  comm->error = "a plugin refused to start";
  return result;
}

int channels_of(const Config* config) {
  const int least = config != nullptr && config->min_ctas != INT_MIN ? config->min_ctas : 0;
  return std::max(least, static_cast<int>(number("channels", 2)));
}

bool is_sound(const Config* config) {
  return config == nullptr || (config->magic == kConfigMagic && config->size >= 40 &&
                               (config->blocking == 0 || config->blocking == 1));
}

}  // namespace

// A file of each, and then all files.
void fake_nccl::begin_claims(Comm comm, const std::string& name, const std::string& claim,
                             const std::string& otherwise) {
  std::vector<std::byte> bytes(claim.size());
  std::memcpy(bytes.data(), claim.data(), claim.size());
  const std::string file = comm->name + "." + name + ".";
  comm->board->write(file + std::to_string(comm->rank), bytes);
  comm->going.push_back([] { return kInProgress; });
  comm->going.push_back([comm, file, bytes, otherwise] {
    for (int r = 0; r < comm->ranks; ++r) {
      const auto other = comm->board->read(file + std::to_string(r));
      if (!other) return kInProgress;
      if (*other == bytes) continue;
      const std::scoped_lock lock(comm->mutex);
      comm->error = "index " + std::to_string(r) + " " + otherwise;
      return kInvalidUsage;
    }
    return kSuccess;
  });
}

FAKE_NCCL Result ncclGetVersion(int* version) {
  *version = static_cast<int>(number("version", version_code(2, 28, 9)));
  return kSuccess;
}

FAKE_NCCL Result ncclGetUniqueId(UniqueId* id) try {
  const std::string folder = Board::make_folder();
  if (folder.size() >= sizeof id->internal) return kSystemError;
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, folder.data(), folder.size());
  return kSuccess;
} catch (const std::exception&) {
  return kSystemError;
}

FAKE_NCCL Result ncclCommInitRankConfig(Comm* comm, int ranks, UniqueId id, int rank,
                                        Config* config) try {
  if (!is_sound(config) || rank < 0 || rank >= ranks) return kInvalidArgument;
  *comm = new CommOf;
  (*comm)->board = Board::open(id.internal, rank, ranks);
  (*comm)->device = new fake_nccl::Device{.rank = rank};
  (*comm)->name = "world";
  (*comm)->rank = rank;
  (*comm)->ranks = ranks;
  (*comm)->channels = channels_of(config);
  int version = 0;
  ncclGetVersion(&version);
  fake_nccl::begin_claims(*comm, "init", std::to_string(version) + " " + std::to_string(ranks),
                          "is of another version or size");
  (*comm)->going.push_back([own = *comm] { return attach(own); });
  return kInProgress;
} catch (const std::exception&) {
  return kSystemError;
}

// Ends of a colour learn of each other by what every end of the parent says.
FAKE_NCCL Result ncclCommSplit(Comm parent, int colour, int key, Comm* made, Config* config) {
  if (!is_sound(config)) return kInvalidArgument;
  const std::scoped_lock lock(parent->mutex);
  if (parent->aborted || !parent->going.empty()) return kInvalidUsage;
  const std::string split = parent->name + ".split" + std::to_string(parent->splits++);
  const std::string own = std::to_string(colour) + " " + std::to_string(key);
  std::vector<std::byte> bytes(own.size());
  std::memcpy(bytes.data(), own.data(), own.size());
  parent->board->write(split + "." + std::to_string(parent->rank), bytes);
  Comm child = nullptr;
  if (colour != kNoColour) {
    child = new CommOf;
    child->board = parent->board;
    child->device = parent->device;
    child->channels = channels_of(config);
    child->name = split + "c" + std::to_string(colour);
  }
  // As NCCL does, it gives the new one when the split is over, and none before.
  const auto meet_all = [parent, child, split, colour, made] {
    std::vector<std::pair<int, int>> members;  // key, rank of the parent
    for (int r = 0; r < parent->ranks; ++r) {
      const auto other = parent->board->read(split + "." + std::to_string(r));
      if (!other) return kInProgress;
      std::istringstream text(
          std::string(reinterpret_cast<const char*>(other->data()), other->size()));
      int its_colour = 0, its_key = 0;
      text >> its_colour >> its_key;
      if (its_colour == colour) members.emplace_back(its_key, r);
    }
    if (child == nullptr) return kSuccess;
    std::ranges::sort(members);
    child->ranks = static_cast<int>(members.size());
    for (int i = 0; i < child->ranks; ++i)
      if (members[static_cast<std::size_t>(i)].second == parent->rank) child->rank = i;
    *made = child;
    return attach(child);
  };
  parent->going.push_back([] { return kInProgress; });
  parent->going.push_back(meet_all);
  *made = nullptr;
  return kInProgress;
}

FAKE_NCCL Result ncclCommGetAsyncError(Comm comm, Result* state) {
  const std::scoped_lock asking(comm->asking);
  std::unique_lock lock(comm->mutex);
  *state = comm->state;
  if (comm->state != kSuccess || comm->going.empty()) return kSuccess;
  // A step is over, or asked about again. It gives work to the device, which asks this communicator
  // about its work: it must not hold what that needs.
  const std::size_t left = comm->going.size();
  const std::function<Result()> step = comm->going.front();
  lock.unlock();
  const Result result = step();
  lock.lock();
  if (result != kInProgress || left > 1) comm->going.pop_front();
  if (result != kSuccess && result != kInProgress) comm->state = result;
  *state = comm->state != kSuccess ? comm->state : comm->going.empty() ? kSuccess : kInProgress;
  return kSuccess;
}

FAKE_NCCL Result ncclCommFinalize(Comm) { return kSuccess; }
FAKE_NCCL Result ncclCommDestroy(Comm comm) {
  static const auto give_back = reinterpret_cast<void (*)(void*, std::int64_t)>(
      ::dlsym(RTLD_DEFAULT, "planner_twin_give_back"));
  fake_nccl::detach_plugins(*comm);
  if (comm->buffers > 0) give_back(comm->memory_of, std::exchange(comm->buffers, 0));
  if (comm->name == "world") comm->board->leave();
  return kSuccess;
}
FAKE_NCCL Result ncclCommAbort(Comm comm) {
  {
    const std::scoped_lock lock(comm->mutex);
    comm->aborted = true;
    fake_nccl::let_go(*comm);
  }
  return ncclCommDestroy(comm);
}

FAKE_NCCL const char* ncclGetErrorString(Result result) {
  switch (result) {
    case kSuccess: return "no error";
    case kInvalidUsage: return "invalid usage";
    case kInvalidArgument: return "invalid argument";
    case kRemoteError: return "remote process exited or there was a network error";
    case kInternalError: return "internal error";
    default: return "another error";
  }
}
FAKE_NCCL const char* ncclGetLastError(Comm comm) {
  return comm != nullptr ? comm->error.c_str() : "";
}

FAKE_NCCL Result ncclAllReduce(const void* from, void* to, std::size_t count, Type type, Op op,
                               Comm comm, void* stream) {
  return give(comm, stream, {Part::Kind::all_reduce, from, to, count, type, op, 0});
}
FAKE_NCCL Result ncclReduceScatter(const void* from, void* to, std::size_t count, Type type,
                                   Op op, Comm comm, void* stream) {
  return give(comm, stream, {Part::Kind::reduce_scatter, from, to, count, type, op, 0});
}
FAKE_NCCL Result ncclAllGather(const void* from, void* to, std::size_t count, Type type, Comm comm,
                               void* stream) {
  return give(comm, stream, {Part::Kind::all_gather, from, to, count, type, kSum, 0});
}
FAKE_NCCL Result ncclBroadcast(const void* from, void* to, std::size_t count, Type type, int root,
                               Comm comm, void* stream) {
  return give(comm, stream, {Part::Kind::broadcast, from, to, count, type, kSum, root});
}
FAKE_NCCL Result ncclSend(const void* from, std::size_t count, Type type, int peer, Comm comm,
                          void* stream) {
  return give(comm, stream, {Part::Kind::send, from, nullptr, count, type, kSum, peer});
}
FAKE_NCCL Result ncclRecv(void* to, std::size_t count, Type type, int peer, Comm comm,
                          void* stream) {
  return give(comm, stream, {Part::Kind::recv, nullptr, to, count, type, kSum, peer});
}
FAKE_NCCL Result ncclGroupStart() {
  ++group.depth;
  return kSuccess;
}
FAKE_NCCL Result ncclGroupEnd() {
  if (group.depth == 0) return kInvalidUsage;
  if (--group.depth > 0) return kSuccess;
  return begin_group();
}
