#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "cli/child.hpp"
#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/requirements.hpp"
#include "cli/verbs.hpp"
#include "core/json.hpp"
#include "core/machine_memory.hpp"
#include "core/parse_units.hpp"
#include "exec/cuda/nccl/library.hpp"
#include "exec/cuda/nvml/topology.hpp"
#include "hw_profiles/detect.hpp"
#include "hw_profiles/load.hpp"
#include "reports/text.hpp"

namespace cli {
namespace {

using core::Json;

constexpr std::string_view kDoctorPurpose =
    "Says what this machine has for running plans, what is missing for each way of running, and\n"
    "how to get it. Exit code 1: the way that --for names cannot run; without --for, plans cannot\n"
    "run on the host, or on a GPU that is here.";
constexpr std::string_view kDoctorExamples =
    "  planner doctor\n"
    "  planner doctor --for mpi --json";

struct Way {
  Needs needs;
  std::string_view name, options;
};
constexpr std::array<Way, 5> kWays{{
    {Needs::host, "host", "--backend host, --communicator local"},
    {Needs::host, "tcp", "--backend host, --communicator tcp"},
    {Needs::mpi, "mpi", "--backend host, --communicator mpi"},
    {Needs::cuda, "cuda", "--backend cuda, --communicator local"},
    {Needs::nccl, "nccl", "--backend cuda, --communicator nccl"},
}};

// What holds of a way whether this machine can go it or not.
constexpr const char* kUnproven =
    "built, and run on one H100 (two processes on one card); no machine of several GPUs ran it yet";

// The rest of the first line that starts with key, without the colon and blanks; empty: none.
std::string line_of(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t at = line.find_first_not_of(": \t", key.size());
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

std::optional<std::string> text_or_none(std::string text) {
  if (text.empty()) return std::nullopt;
  return text;
}

// "2.28.9, /usr/lib/libnccl.so.2"
std::optional<std::string> nccl_version() {
  const auto opened = exec::cuda::open_collectives("");
  if (!opened.library) return std::nullopt;
  return exec::cuda::nccl_version_text(opened.library->version) + ", " + opened.library->path;
}

// Of `mpirun --version`: "mpirun (Open MPI) 4.1.4".
std::optional<std::string> launcher_version() {
  const std::string mpirun = find_program("mpirun");
  if (mpirun.empty()) return std::nullopt;
  const auto ending = follow_child({mpirun, "--version"}, 65536, [](std::string_view) {});
  if (!ending.ok() || ending->code != 0) return mpirun;
  return ending->output.substr(0, ending->output.find('\n'));
}

struct Disk {
  std::string path;
  std::optional<core::Bytes> free;
  std::optional<std::string> problem;
};

Disk disk_of(const std::string& path) {
  Disk disk{path, std::nullopt, std::nullopt};
  struct statvfs numbers{};
  if (::statvfs(path.c_str(), &numbers) != 0 || ::access(path.c_str(), W_OK | X_OK) != 0) {
    disk.problem = std::strerror(errno);
    return disk;
  }
  disk.free = core::Bytes(static_cast<std::int64_t>(numbers.f_bavail * numbers.f_frsize));
  return disk;
}

struct Finding {
  Way way;
  core::Problems missing;
};

struct Machine {
  std::optional<std::string> processor, kernel, driver, launcher, nccl;
  int cores = 1;
  std::optional<core::Bytes> memory, free_memory;
  std::string memory_bound;            // the file of a control group; empty: none
  std::vector<hw_profiles::LocalGpu> gpus;
  Disk disk;
  std::vector<Finding> findings;
  // How GPUs are joined, and where that is not as their profile says.
  std::string topology;
  std::vector<std::string> differences;
};

void examine_links(Machine& m) {
  const exec::cuda::Topology topology = exec::cuda::read_topology(exec::cuda::NvmlLibrary());
  m.topology = to_text(topology);
  if (m.gpus.empty() || !m.gpus.front().profile) return;
  const auto profile = hw_profiles::find_profile(*m.gpus.front().profile);
  if (profile.ok()) m.differences = exec::cuda::differences(topology, *profile);
}

Machine examine(const std::string& folder) {
  Machine m;
  m.processor = text_or_none(line_of("/proc/cpuinfo", "model name"));
  utsname system{};
  if (::uname(&system) == 0) m.kernel = fmt::format("{} {}", system.sysname, system.release);
  m.driver = text_or_none(line_of("/proc/driver/nvidia/version", "NVRM version"));
  m.launcher = launcher_version();
  m.nccl = nccl_version();
  m.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (const auto memory = core::machine_memory()) {
    m.memory = memory->total;
    m.free_memory = memory->available;
    m.memory_bound = memory->bound;
  }
  m.gpus = hw_profiles::local_gpus();
  examine_links(m);
  m.disk = disk_of(folder);
  for (const Way& way : kWays) m.findings.push_back({way, missing_for(way.needs)});
  return m;
}

Json bytes_json(const std::optional<core::Bytes>& b) { return b ? Json(b->value()) : Json(); }

std::string to_json(const Machine& m) {
  Json gpus = Json::array();
  for (const hw_profiles::LocalGpu& gpu : m.gpus)
    gpus.push_back(Json::object({{"address", gpu.address},
                                 {"pci_device", fmt::format("{:04x}", gpu.device)},
                                 {"profile", gpu.profile}}));
  Json ways = Json::array();
  for (const Finding& finding : m.findings) {
    Json missing = Json::array();
    for (const core::Problem& p : finding.missing)
      missing.push_back(Json::object({{"what", p.where},
                                      {"expected", p.expected},
                                      {"found", p.found},
                                      {"fix", p.fix}}));
    ways.push_back(Json::object({{"name", finding.way.name},
                                 {"options", finding.way.options},
                                 {"runs", finding.missing.empty()},
                                 {"missing", missing}}));
  }
  return core::dump(Json::object({{"schema", "doctor/1"},
                                  {"processor", m.processor},
                                  {"cores", m.cores},
                                  {"memory_bytes", bytes_json(m.memory)},
                                  {"free_memory_bytes", bytes_json(m.free_memory)},
                                  {"memory_bound", m.memory_bound},
                                  {"kernel", m.kernel},
                                  {"gpus", gpus},
                                  {"topology", m.topology},
                                  {"topology_differences", Json::array_of(m.differences)},
                                  {"driver", m.driver},
                                  {"mpi_launcher", m.launcher},
                                  {"nccl", m.nccl},
                                  {"disk", Json::object({{"path", m.disk.path},
                                                         {"free_bytes", bytes_json(m.disk.free)},
                                                         {"problem", m.disk.problem}})},
                                  {"ways", ways}})) +
         '\n';
}

std::string to_text(const Machine& m) {
  const auto size = [](const std::optional<core::Bytes>& b) {
    return b ? core::to_text(*b) : std::string("unknown");
  };
  const reports::TextStyle style = page_style();
  std::string gpus;
  for (const hw_profiles::LocalGpu& gpu : m.gpus)
    gpus += fmt::format("{}{} at {}", gpus.empty() ? "" : ", ",
                        gpu.profile.value_or(fmt::format("of no known kind (10de:{:04x})",
                                                         gpu.device)),
                        gpu.address);
  reports::Table table({{"this machine", reports::Align::left}, {"", reports::Align::left}});
  table.add({"processor", fmt::format("{} x {}", m.cores, m.processor.value_or("unnamed"))});
  table.add({"memory", fmt::format("{}, {} free{}{}", size(m.memory), size(m.free_memory),
                                   m.memory_bound.empty() ? "" : ", bounded by ",
                                   m.memory_bound)});
  table.add({"disk", m.disk.problem ? fmt::format("{}: {}", m.disk.path, *m.disk.problem)
                                    : fmt::format("{} free at {}", size(m.disk.free),
                                                  m.disk.path)});
  table.add({"GPUs", gpus.empty() ? "none" : gpus});
  table.add({"links", m.topology});
  table.add({"driver", m.driver.value_or("none")});
  table.add({"MPI", m.launcher.value_or("none")});
  table.add({"NCCL", m.nccl.value_or("none")});
  std::string text = table.text(style) + '\n';
  for (const std::string& d : m.differences)
    text += reports::wrapped("not as the profile says: " + d, 0, 2, style);
  for (const Finding& f : m.findings) {
    const bool runs = f.missing.empty();
    text += fmt::format("{}  exec {}\n",
                        reports::painted(runs ? "runs   " : "lacking", runs ? reports::Ink::good
                                                                           : reports::Ink::bad,
                                         style),
                        f.way.options);
    if (f.way.needs == Needs::nccl)
      text += reports::wrapped(std::string("- ") + kUnproven, 4, 6, style);
    for (const core::Problem& p : f.missing)
      text += reports::wrapped("- " + core::to_text(p), 4, 6, style);
  }
  return text;
}

// Whether the answer is about this way. Without --for: the host, and a GPU that is here.
bool is_asked(const Way& way, const Machine& m, const std::optional<std::string>& asked) {
  if (asked) return way.name == *asked;
  return way.name == "host" || (way.needs == Needs::cuda && !m.gpus.empty());
}

// Where plans run here: how fast they will.
std::vector<reports::NextStep> next_of(const Machine& m) {
  std::vector<reports::NextStep> steps;
  const auto runs = [&](Needs needs) {
    return std::ranges::any_of(m.findings, [&](const Finding& f) {
      return f.way.needs == needs && f.missing.empty();
    });
  };
  if (runs(Needs::host))
    steps.push_back({"planner calibrate --backend host --out me.json",
                     "measures this host, for --gpu me.json"});
  if (runs(Needs::cuda))
    steps.push_back({"planner calibrate --backend cuda --out gpu.json",
                     "measures this GPU, for --gpu gpu.json"});
  return steps;
}

}  // namespace

int doctor_verb(Arguments arguments) {
  OutputOptions output;
  std::optional<std::string> asked, folder;
  OptionSet set("doctor", kDoctorPurpose, kDoctorExamples);
  set.text("--for", asked, "WAY", "check one way of running: host, tcp, mpi, cuda or nccl");
  set.text("--checkpoint-dir", folder, "DIR", "folder whose disk is checked (this folder)");
  add_output_options(set, output, "what was found");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  core::Problems problems;
  if (const core::Status target = check_output(output); !target.ok()) problems = target.problems();
  const bool known = !asked || std::ranges::any_of(kWays, [&](const Way& way) {
    return way.name == *asked;
  });
  if (!known) problems.push_back({"--for", "host, tcp, mpi, cuda or nccl", '"' + *asked + '"', ""});
  if (!problems.empty()) return refuse(problems);
  const Machine machine = examine(folder.value_or("."));
  const core::Status delivered =
      deliver(output, to_json(machine), [&] {
        return to_text(machine) + next_text(next_of(machine));
      });
  if (!delivered.ok()) return refuse(delivered.problems());
  int code = kDone;
  for (const Finding& f : machine.findings) {
    if (f.missing.empty() || !is_asked(f.way, machine, asked)) continue;
    write_reason(core::to_text(f.missing));
    code = kAnswerIsNo;
  }
  if (!machine.disk.problem) return code;
  write_reason(fmt::format("{}: expected a folder to write checkpoints to, found {}",
                           machine.disk.path, *machine.disk.problem));
  return kAnswerIsNo;
}

}  // namespace cli
