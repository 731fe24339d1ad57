// `planner-exec-cuda` over a GPU that is played on the host: the command line of the real one, for
// tests through the front door. PLANNER_TWIN says what goes wrong: words NAME=VALUE, of which
//   open=KIND                the device does not open
//   CALL=NTH:KIND            the NTH call of that name fails (exec/cuda/twin/twin.hpp)
//   memory=BYTES  seed=N     of the device; of the order of its streams
// KIND: as FailureKind names them.

#include <array>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "cli/cuda_runner.hpp"
#include "core/check.hpp"
#include "exec/cuda/twin/twin.hpp"

namespace {

namespace cuda = exec::cuda;
using cuda::FailureKind;

constexpr std::array<std::pair<const char*, FailureKind>, 9> kKinds{{
    {"no_driver", FailureKind::no_driver},
    {"old_driver", FailureKind::old_driver},
    {"no_device", FailureKind::no_device},
    {"no_image", FailureKind::no_image},
    {"out_of_memory", FailureKind::out_of_memory},
    {"out_of_host_memory", FailureKind::out_of_host_memory},
    {"graph", FailureKind::graph},
    {"launch", FailureKind::launch},
    {"device", FailureKind::device},
}};

FailureKind kind_of(const std::string& word) {
  for (const auto& [name, kind] : kKinds)
    if (word == name) return kind;
  PLANNER_CHECK(false, "no failure of that name: " + word);
  return FailureKind::device;
}

std::unique_ptr<cuda::Api> open_twin(const cli::DeviceChoice& choice) {
  const char* const given = std::getenv("PLANNER_TWIN");
  std::istringstream words(given != nullptr ? given : "");
  cuda::TwinOptions options;
  std::map<std::string, std::string> faults;
  for (std::string word; words >> word;) {
    const std::size_t at = word.find('=');
    PLANNER_CHECK(at != std::string::npos, "PLANNER_TWIN has words NAME=VALUE, not " + word);
    const std::string name = word.substr(0, at), value = word.substr(at + 1);
    if (name == "open")
      throw cuda::DeviceFailure(kind_of(value), "open", "a failure that a test asked for");
    if (name == "memory")
      options.memory = core::Bytes(std::stoll(value));
    else if (name == "seed")
      options.seed = std::stoull(value);
    else
      faults[name] = value;
  }
  // Ranks of a machine draw orders of their own.
  options.seed += static_cast<std::uint64_t>(choice.local_rank) << 32;
  auto twin = std::make_unique<cuda::Twin>(options);
  for (const auto& [call, fault] : faults) {
    const std::size_t colon = fault.find(':');
    twin->fail(call, std::stoi(fault.substr(0, colon)), kind_of(fault.substr(colon + 1)));
  }
  return twin;
}

}  // namespace

int main(int count, char** arguments) {
  return cli::run_planner_on_gpu(count, arguments, open_twin, true);
}
