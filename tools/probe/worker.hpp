#pragma once
// What a section sees while it runs in its own process: its settings, its time budget, its data so
// far, and the means to save that data. The conductor (conductor.hpp) starts one worker per
// section, so that each has a fresh CUDA context and none can spoil another. One thread.

#include <chrono>
#include <exception>
#include <string>

#include "tools/probe/json.hpp"

namespace probe {

struct WorkerOptions {
  std::string section;
  std::string folder;     // the data goes to folder/<section>.json, an error to <section>.error
  double seconds = 60.0;  // soft budget; the conductor kills the worker some time after it
  int device = 0;
  bool quick = false;
  int nccl_ranks = 2;
};

class Worker {
 public:
  explicit Worker(WorkerOptions options);

  const WorkerOptions& options() const { return options_; }
  Json& data() { return data_; }
  double left() const;  // seconds of the soft budget, negative when overdrawn
  void say(const std::string& text) const;  // progress, on stderr
  void save() const;    // the data so far, whole

  // data[name] = make(), or {"error": text} when it throws; or {"skipped": ...} without time left.
  template <class Make>
  void part(const std::string& name, Make&& make) {
    if (left() <= 0.0) {
      data_[name]["skipped"] = "the section's time was used up";
    } else {
      say(name);
      try {
        data_[name] = make();
      } catch (const std::exception& error) {
        data_[name]["error"] = error.what();
      }
    }
    if (data_[name].has("error")) ++failed_parts_;
    ++parts_;
    save();
  }
  // Saves, with the count of failed parts. Throws when every part failed: then the section failed.
  void finish();

 private:
  WorkerOptions options_;
  Json data_ = Json::object();
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int parts_ = 0;
  int failed_parts_ = 0;
};

// The command line that starts a worker, and its inverse (throws std::runtime_error).
std::vector<std::string> to_arguments(const WorkerOptions& options);
WorkerOptions worker_options(const std::vector<std::string>& arguments);

// The sections. Each fills worker.data() and throws when nothing could be measured.
void run_environment(Worker& worker);
void run_context(Worker& worker);
void run_pool(Worker& worker);
void run_launch(Worker& worker);
void run_copy(Worker& worker);
void run_gemm(Worker& worker);
void run_clock(Worker& worker);
void run_nccl(Worker& worker);

// One rank of section nccl: `nccl-rank` as first argument. Returns the exit status.
int run_nccl_rank(const std::vector<std::string>& arguments);

}  // namespace probe
