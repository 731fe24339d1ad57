// planner._planner: the command line as a Python function (cli/call.hpp). The package around it, in
// planner/*.py, makes words of arguments and objects of answers.
//
// The work runs on a thread of its own. The caller's thread waits for it without the interpreter's
// lock (GIL), so that other Python threads run. It wakes up for progress, and now and then for
// signals: Python only notes a Ctrl-C, and hands it out where its main thread asks.

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "cli/call.hpp"
#include "cli/version.hpp"

namespace {

namespace py = pybind11;

constexpr std::chrono::milliseconds kSignalsEvery{20};

// What the working thread tells the waiting one.
class Mailbox {
 public:
  void tell(std::string_view progress) {
    const std::lock_guard lock(mutex_);
    progress_ = progress;
    changed_.notify_one();
  }
  void finish() {
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_one();
  }
  bool is_done() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  // Waits for the end, for progress, or for a while. The latest progress that was not taken yet.
  std::optional<std::string> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kSignalsEvery, [&] { return done_ || progress_; });
    return std::exchange(progress_, std::nullopt);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> progress_;
  bool done_ = false;
};

// Stops the call and waits for its thread, whatever happens on the waiting one.
class Worker {
 public:
  Worker(core::Call& call, std::thread thread) : call_(call), thread_(std::move(thread)) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    if (!thread_.joinable()) return;
    call_.stop();
    join();
  }
  void join() {
    const py::gil_scoped_release released;
    thread_.join();
  }

 private:
  core::Call& call_;
  std::thread thread_;
};

using Answered = std::tuple<int, std::string, std::string, std::string>;

Answered call(const std::vector<std::string>& words,
              const std::map<std::string, std::string>& files,
              const std::optional<py::function>& progress) {
  core::Call question({files.begin(), files.end()});
  cli::CallAnswer answer;
  Mailbox mailbox;
  Worker worker(question, std::thread([&] {
                  const auto tell = [&](std::string_view done) { mailbox.tell(done); };
                  answer = cli::answer_call(words, question, tell);
                  mailbox.finish();
                }));
  while (!mailbox.is_done()) {
    std::optional<std::string> done;
    {
      const py::gil_scoped_release released;
      done = mailbox.wait();
    }
    if (done && progress) (*progress)(*done);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  worker.join();
  return {answer.code, std::move(answer.out), std::move(answer.reasons), std::move(answer.page)};
}

}  // namespace

PYBIND11_MODULE(_planner, module) {
  module.def("call", &call, py::arg("words"), py::arg("files"), py::arg("progress"),
             "Exit code, standard output, standard error and page of a command line.");
  module.def("version", [] { return std::string(cli::version_text()); },
             "The version and the commit, as `planner --version` prints them.");
}
