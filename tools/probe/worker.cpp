#include "tools/probe/worker.hpp"

#include <cstdio>
#include <stdexcept>

#include "tools/probe/files.hpp"

namespace probe {

Worker::Worker(WorkerOptions options) : options_(std::move(options)) {}

double Worker::left() const {
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
  return options_.seconds - spent.count();
}

void Worker::say(const std::string& text) const {
  std::fprintf(stderr, "  %s: %s\n", options_.section.c_str(), text.c_str());
}

void Worker::save() const {
  write_whole(options_.folder + "/" + options_.section + ".json", data_.dump());
}

void Worker::finish() {
  if (failed_parts_ > 0) {
    data_["failed_parts"] = failed_parts_;
    say(std::to_string(failed_parts_) + " of " + std::to_string(parts_) + " parts failed");
  }
  save();
  if (parts_ > 0 && failed_parts_ == parts_) {
    throw std::runtime_error("every part of the section failed; each says why");
  }
}

std::vector<std::string> to_arguments(const WorkerOptions& options) {
  return {"worker", options.section, options.folder, std::to_string(options.seconds),
          std::to_string(options.device), options.quick ? "1" : "0",
          std::to_string(options.nccl_ranks)};
}

WorkerOptions worker_options(const std::vector<std::string>& arguments) {
  if (arguments.size() != 7) throw std::runtime_error("a worker takes 6 values");
  WorkerOptions options;
  options.section = arguments[1];
  options.folder = arguments[2];
  options.seconds = std::stod(arguments[3]);
  options.device = std::stoi(arguments[4]);
  options.quick = arguments[5] == "1";
  options.nccl_ranks = std::stoi(arguments[6]);
  return options;
}

}  // namespace probe
