#include "tools/probe/conductor.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <ctime>

#include "tools/probe/child.hpp"
#include "tools/probe/cuda.hpp"
#include "tools/probe/files.hpp"
#include "tools/probe/json.hpp"
#include "tools/probe/worker.hpp"

namespace probe {
namespace {

constexpr int kFailed = 3;
constexpr int kInterrupted = 130;

// Seconds after which a section is killed, and the bound on all of them together.
struct Limits {
  const char* section;
  double full, quick;
};
constexpr std::array<Limits, 8> kLimits{{{"environment", 20, 15},
                                         {"context", 45, 20},
                                         {"pool", 20, 8},
                                         {"launch", 20, 8},
                                         {"copy", 60, 12},
                                         {"gemm", 90, 14},
                                         {"clock", 25, 14},
                                         {"nccl", 75, 20}}};
constexpr double kTotalFull = 350.0;
constexpr double kTotalQuick = 57.0;
constexpr double kSoftShare = 0.8;  // a worker stops by itself after this share of its limit

volatile std::sig_atomic_t stop_requested = 0;
void request_stop(int) { stop_requested = 1; }

double limit_of(const std::string& section, bool quick) {
  for (const Limits& limits : kLimits) {
    if (section == limits.section) return quick ? limits.quick : limits.full;
  }
  return 0.0;
}

std::string utc_now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::string joined(const std::vector<std::string>& words) {
  std::string text = "planner-probe";
  for (const std::string& word : words) text += " " + word;
  return text;
}

// {"error","seconds","data"}: error is null when the section went well; data is what it had saved.
Json run_one(const WorkerOptions& options, double limit) {
  const double start = now();
  std::string error;
  try {
    const std::array<pid_t, 1> child{spawn_self({to_arguments(options), {}, ""})};
    const Ending ending = wait_all(child, limit, stop_requested).front();
    error = read_or_empty(options.folder + "/" + options.section + ".error");
    if (!ending.good() && error.empty()) error = "the section's process " + to_text(ending);
  } catch (const std::exception& problem) {
    error = problem.what();
  }
  const std::string data = read_or_empty(options.folder + "/" + options.section + ".json");
  Json json = Json::object();
  json["error"] = error.empty() ? Json() : Json(error);
  json["seconds"] = now() - start;
  json["data"] = data.empty() ? Json::object() : Json::raw(data.substr(0, data.size() - 1));
  return json;
}

void save(const Options& options, const Json& result, bool last) {
  if (last || !is_special(options.out)) write_whole(options.out, result.dump());
}

int report(const Options& options, int failed, std::size_t count) {
  if (failed > 0) {
    std::fprintf(stderr,
                 "planner-probe: %d of %zu sections failed; their \"error\" in %s says why\n",
                 failed, count, options.out.c_str());
    return kFailed;
  }
  std::fprintf(stderr, "planner-probe: wrote %s\n", options.out.c_str());
  return 0;
}

}  // namespace

int run_sections(const Options& options, const std::vector<std::string>& command_line) {
  if (const std::string reason = why_unusable(options.device); !reason.empty()) {
    std::fprintf(stderr, "planner-probe: %s\n", reason.c_str());
    return kFailed;
  }
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  const TemporaryFolder folder;
  const double start = now();
  Json result = Json::object();
  result["schema"] = "probe/1";
  result["date"] = utc_now();
  result["command_line"] = joined(command_line);
  result["quick"] = options.quick;
  result["sections"] = Json::object();

  int failed = 0;
  for (std::size_t i = 0; i < options.sections.size() && stop_requested == 0; ++i) {
    const std::string& name = options.sections[i];
    const double left = (options.quick ? kTotalQuick : kTotalFull) - (now() - start);
    const double limit = std::min(limit_of(name, options.quick), left);
    std::fprintf(stderr, "[%zu/%zu] %s (at most %.0f s)\n", i + 1, options.sections.size(),
                 name.c_str(), std::max(limit, 0.0));
    Json& section = result["sections"][name];
    if (limit < 2.0) {
      section["error"] = "no time left for this section; run it alone with --sections " + name;
      ++failed;
    } else {
      section = run_one({name, folder.path(), limit * kSoftShare, options.device, options.quick,
                         options.nccl_ranks}, limit);
      failed += section["error"].dump() == "null\n" ? 0 : 1;
    }
    result["seconds"] = now() - start;
    save(options, result, i + 1 == options.sections.size() || stop_requested != 0);
  }
  if (stop_requested != 0) {
    std::fprintf(stderr, "planner-probe: interrupted; %s holds the sections up to here\n",
                 options.out.c_str());
    return kInterrupted;
  }
  return report(options, failed, options.sections.size());
}

}  // namespace probe
