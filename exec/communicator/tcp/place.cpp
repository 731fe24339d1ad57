#include "exec/communicator/tcp/place.hpp"

#include <charconv>
#include <cstdlib>

namespace exec {
namespace {

constexpr int kMostRanks = 65536, kMostPort = 65535;
constexpr int kDefaultPort = 29500;  // torchrun's own default of MASTER_PORT

// How a launcher names what a rank must know.
struct Dialect {
  const char *rank, *size, *other_size, *local_rank, *local_size;
};
constexpr Dialect kTorch{"RANK", "WORLD_SIZE", nullptr, "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Dialect kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr,
                           "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
// A script under sbatch has SLURM_PROCID and SLURM_NTASKS too: what srun started has a step.
constexpr Dialect kSlurm{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_LOCALID",
                         nullptr};

class Reader {
 public:
  explicit Reader(const Variables& variables) : variables_(variables) {}

  std::optional<std::string> text(const char* name) const {
    if (name == nullptr) return std::nullopt;
    std::optional<std::string> value = variables_(name);
    if (value && value->empty()) value.reset();
    return value;
  }
  int number(const char* name, int least, int most, int otherwise) {
    const std::optional<std::string> value = text(name);
    if (!value) return otherwise;
    int number = 0;
    const char* const end = value->data() + value->size();
    const auto read = std::from_chars(value->data(), end, number);
    if (read.ec == std::errc() && read.ptr == end && number >= least && number <= most)
      return number;
    problems.push_back({name,
                        "a whole number of " + std::to_string(least) + " to " +
                            std::to_string(most),
                        '"' + *value + '"', "the launcher sets it; unset it to start ranks here"});
    return otherwise;
  }

  core::Problems problems;

 private:
  const Variables& variables_;
};

const Dialect* dialect(const Reader& r) {
  if (r.text(kTorch.rank) || r.text(kTorch.size)) return &kTorch;
  if (r.text(kOpenMpi.rank)) return &kOpenMpi;
  const bool step = r.text("SLURM_STEP_ID") || r.text(kSlurm.size);
  return step && r.text(kSlurm.rank) ? &kSlurm : nullptr;
}

std::string address(const Reader& r, const Place& place) {
  if (const auto given = r.text("MASTER_ADDR")) return *given;
  if (place.size == 1 || place.local_size == place.size) return kLoopback;
  for (const char* nodes : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"})
    if (const auto list = r.text(nodes)) return first_host(*list);
  return r.text("SLURM_LAUNCH_NODE_IPADDR").value_or("");
}

// torchrun's agent may listen at MASTER_PORT itself, for its workers; then the next one is ours.
// Jobs of Slurm that share a machine get ports of their own.
int port(Reader& r) {
  int otherwise = kDefaultPort;
  if (const int job = r.number("SLURM_JOB_ID", 0, 2147483647, -1); job >= 0)
    otherwise = 20000 + job % 10000;
  int port = r.number("MASTER_PORT", 1, kMostPort, otherwise);
  if (r.text("TORCHELASTIC_USE_AGENT_STORE") == "True") port = port % kMostPort + 1;
  return r.number(kPortVariable, 1, kMostPort, port);
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

void check(const Reader& r, const Dialect& d, Place& place, core::Problems& problems) {
  for (const char* name : {d.rank, d.size})
    if (!r.text(name) && !r.text(name == d.size ? d.other_size : nullptr))
      problems.push_back({name, "to be set, as its counterpart is", "nothing",
                          "a launcher sets both; unset both to start ranks here"});
  if (place.rank >= place.size && problems.empty())
    problems.push_back({d.rank, "a rank below " + std::to_string(place.size),
                        std::to_string(place.rank), "ranks are counted from 0"});
  if (place.address.empty())
    problems.push_back({"MASTER_ADDR", "the machine of rank 0", "nothing",
                        "set it for every rank: export MASTER_ADDR=its name"});
  else if (place.secret.empty() && place.size > 1 && !is_loopback(place.address))
    problems.push_back(
        {kSecretVariable, "a secret that all ranks share, as others reach " + place.address,
         "nothing",
         "set the same for every rank: export PLANNER_SECRET=$(head -c 16 /dev/urandom | base64)"});
}

}  // namespace

Variables environment_variables() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  };
}

bool has_place(const Variables& variables) { return dialect(Reader(variables)) != nullptr; }

core::Result<std::optional<Place>> place_from(const Variables& variables) {
  Reader r(variables);
  const Dialect* const d = dialect(r);
  if (d == nullptr) return std::optional<Place>();
  Place place;
  place.rank = r.number(d->rank, 0, kMostRanks - 1, 0);
  place.size = r.number(r.text(d->size) ? d->size : d->other_size ? d->other_size : d->size, 1,
                        kMostRanks, 1);
  place.local_rank = r.number(d->local_rank, 0, kMostRanks - 1, -1);
  if (d->local_size != nullptr) place.local_size = r.number(d->local_size, 1, kMostRanks, -1);
  place.address = address(r, place);
  place.port = port(r);
  place.secret = r.text(kSecretVariable).value_or("");
  for (const char* name : {"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"})
    if (place.job.empty()) place.job = r.text(name).value_or("");
  place.patience = r.number(kPatienceVariable, 1, 86400, 60);
  place.listener = r.number(kListenerVariable, 0, 1 << 20, -1);
  place.followed = r.text(kFollowedVariable).has_value();
  core::Problems problems = std::move(r.problems);
  check(r, *d, place, problems);
  if (!problems.empty()) return problems;
  return std::optional<Place>(std::move(place));
}

std::string first_host(std::string_view nodes) {
  const std::size_t end = nodes.find_first_of(",[");
  std::string host(nodes.substr(0, end));
  if (end == std::string_view::npos || nodes[end] == ',') return host;
  const std::string_view inside = nodes.substr(end + 1);
  host += inside.substr(0, inside.find_first_of(",-]"));
  const std::size_t close = inside.find(']');
  if (close == std::string_view::npos) return host;
  const std::string_view behind = inside.substr(close + 1);
  return host.append(behind.substr(0, behind.find(',')));
}

}  // namespace exec
