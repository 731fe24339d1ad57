#pragma once
// PointBook: measured times by name, with their spread, kept in a file after each. Every rank runs
// a point's body at the same time; a repeat lasts as long as its slowest rank. One thread.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "core/units.hpp"

namespace exec {

struct Point {
  double median = 0, p10 = 0, p90 = 0;  // seconds of one repeat
  std::int64_t repeats = 0;
  // Of the median: (p90 - p10) / 2.
  double spread() const { return (p90 - p10) / (2 * median); }
};

// What a rank repeats; made on that rank's thread, before anything is timed.
using MakeBody = std::function<std::function<void()>(int rank)>;

struct BookOptions {
  int ranks = 1;
  core::Seconds budget{0.5};           // of a point, at least kFewest repeats
  std::optional<std::string> file;     // empty: kept in memory alone
  std::function<void(const std::string& name, const Point&, bool kept)> progress;
};

class PointBook {
 public:
  // Errors: a file that is no book, or one of another machine or number of ranks.
  static core::Result<PointBook> open(BookOptions options);

  // Of this name: from the book, or measured now and kept. Throws std::runtime_error when the file
  // cannot be written.
  const Point& measure(const std::string& name, const MakeBody& make);
  const std::map<std::string, Point>& points() const { return points_; }
  int ranks() const { return options_.ranks; }

 private:
  explicit PointBook(BookOptions options) : options_(std::move(options)) {}
  core::Status load();
  void keep() const;

  static constexpr int kFewest = 7;
  BookOptions options_;
  std::map<std::string, Point> points_;
};

}  // namespace exec
