#include "exec/calibrate/point_book.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <exception>
#include <latch>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "core/clock.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "core/thread.hpp"
#include "exec/run/environment.hpp"

namespace exec {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr std::int64_t kMostRepeats = 10'000;

Point summary(std::vector<double> times) {
  std::ranges::sort(times);
  const auto at = [&](double q) {
    return times[static_cast<std::size_t>(q * static_cast<double>(times.size() - 1) + 0.5)];
  };
  return {at(0.5), at(0.1), at(0.9), static_cast<std::int64_t>(times.size())};
}

// Repeats of all ranks together, until the budget is spent; the first two warm up.
std::vector<double> time_together(int ranks, const MakeBody& make, double budget, int fewest) {
  std::vector<double> times;
  bool more = true;
  std::barrier meet(ranks);
  std::mutex mutex;
  std::exception_ptr error;            // the first; guarded
  std::atomic<bool> failed = false;
  const auto measure = [&](int rank) {
    const std::function<void()> body = make(rank);
    for (int warm = 0; warm < 2; ++warm) body();
    double spent = 0;
    for (std::int64_t n = 0; more && !failed; ++n) {
      meet.arrive_and_wait();
      const double start = core::steady_seconds();
      body();
      meet.arrive_and_wait();
      if (rank == 0) {
        times.push_back(core::steady_seconds() - start);
        spent += times.back();
        more = n + 1 < fewest || (spent < budget && n + 1 < kMostRepeats);
      }
      meet.arrive_and_wait();
    }
  };
  const auto fail = [&] {
    const std::scoped_lock lock(mutex);
    if (!error) error = std::current_exception();
    failed = true;
  };
  const auto run = [&](int rank) {
    try {
      measure(rank);
    } catch (...) {
      fail();
    }
    meet.arrive_and_drop();            // those that have yet to see a failure wait for no other
  };
  std::latch started(1);
  bool all = true;                     // said before anybody starts
  std::vector<std::thread> others;
  try {
    while (std::ssize(others) + 1 < ranks)
      others.push_back(core::start_thread(
          "rank " + std::to_string(others.size() + 1), [&, rank = std::ssize(others) + 1] {
            started.wait();
            if (all) run(static_cast<int>(rank));
          }));
  } catch (const core::ThreadRefused&) {
    fail();
    all = false;
  }
  started.count_down();
  if (all) run(0);
  for (std::thread& t : others) t.join();
  if (error) std::rethrow_exception(error);
  return times;
}

}  // namespace

core::Result<PointBook> PointBook::open(BookOptions options) {
  PointBook book(std::move(options));
  if (core::Status loaded = book.load(); !loaded.ok()) return loaded.problems();
  return book;
}

core::Status PointBook::load() {
  if (!options_.file || ::access(options_.file->c_str(), F_OK) != 0) return core::Done{};
  const auto text = core::read_file(*options_.file, kMostBytes);
  if (!text.ok()) return text.problems();
  const auto json = core::parse_json(*text, *options_.file);
  if (!json.ok()) return json.problems();
  core::Problems problems;
  core::JsonReader reader(*json, *options_.file, "", problems);
  std::string schema, device;
  reader.required("schema", schema);
  reader.required("device", device);
  if (problems.empty() && (schema != "points/1" || device != device_text(options_.ranks)))
    reader.problem("device", device_text(options_.ranks), device,
                   "remove the file to measure anew, or go on where it was made");
  for (core::JsonReader& one : reader.objects("points")) {
    std::string name;
    Point p;
    if (one.required("name", name) && one.required("median", p.median) &&
        one.required("p10", p.p10) && one.required("p90", p.p90) &&
        one.required("repeats", p.repeats))
      points_[name] = p;
  }
  if (!problems.empty()) return problems;
  return core::Done{};
}

void PointBook::keep() const {
  if (!options_.file) return;
  core::Json points = core::Json::array();
  for (const auto& [name, p] : points_)
    points.push_back(core::Json::object({{"name", name},
                                         {"median", p.median},
                                         {"p10", p.p10},
                                         {"p90", p.p90},
                                         {"repeats", p.repeats}}));
  core::Json root =
      core::Json::object({{"schema", "points/1"}, {"device", device_text(options_.ranks)}});
  root.set("points", std::move(points));
  const core::Status written = core::write_atomically(*options_.file, core::dump(root) + '\n');
  if (!written.ok()) throw std::runtime_error(core::to_text(written.problems()));
}

const Point& PointBook::measure(const std::string& name, const MakeBody& make) {
  const auto at = points_.find(name);
  const bool kept = at != points_.end();
  if (!kept) {
    points_[name] = summary(time_together(options_.ranks, make, options_.budget.value(), kFewest));
    keep();
  }
  const Point& point = points_.at(name);
  if (options_.progress) options_.progress(name, point, kept);
  return point;
}

}  // namespace exec
