#include "sim/program/trace_scope.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "core/parse_units.hpp"

namespace program {
namespace {

constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();  // however many there are
constexpr std::int64_t kMostIndex = 1 << 30;

std::optional<std::int64_t> index_of(std::string_view text) {
  std::int64_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (index < 0 || index > kMostIndex) return std::nullopt;
  return index;
}

// "3", "8-11", "8..11", "8..".
std::optional<core::IntRange> range_of(std::string_view text) {
  std::size_t at = text.find(".."), length = 2;
  if (at == std::string_view::npos) {
    at = text.find('-');
    length = 1;
  }
  const auto low = index_of(text.substr(0, at));
  if (!low) return std::nullopt;
  if (at == std::string_view::npos) return core::IntRange{*low, *low};
  const std::string_view rest = text.substr(at + length);
  if (rest.empty() && length == 2) return core::IntRange{*low, kLast};
  const auto high = index_of(rest);
  if (!high || *high < *low) return std::nullopt;
  return core::IntRange{*low, *high};
}

IndexRanges joined(IndexRanges ranges) {
  std::ranges::sort(ranges, {}, &core::IntRange::low);
  IndexRanges all;
  for (const core::IntRange& r : ranges) {
    if (!all.empty() && (all.back().high == kLast || r.low <= all.back().high + 1))
      all.back().high = std::max(all.back().high, r.high);
    else
      all.push_back(r);
  }
  return all;
}

// What of 0 to `count` - 1 is asked for, or why that cannot be.
core::Result<IndexRanges> within(IndexRanges asked, std::int64_t count, std::string_view option,
                                 std::string_view what) {
  for (core::IntRange& r : asked) {
    if (r.high == kLast) r.high = std::max(r.low, count - 1);
    if (r.high >= count)
      return core::Problem{std::string(option), fmt::format("{} from 0 to {}", what, count - 1),
                           fmt::format("{}", r.high), "name some of those, or: all"};
  }
  return asked;
}
core::Result<IndexRanges> asked_ranks(const TraceChoice& choice, const TraceSubject& subject) {
  return within(*choice.ranks, subject.ranks, "--ranks", "ranks");
}
core::Result<IndexRanges> asked_micro_batches(const TraceChoice& choice,
                                              const TraceSubject& subject) {
  return within(*choice.micro_batches, subject.micro_batches, "--micro-batches", "micro-batches");
}

std::vector<int> listed(const IndexRanges& ranges) {
  std::vector<int> all;
  for (const core::IntRange& r : ranges)
    for (std::int64_t i = r.low; i <= r.high; ++i) all.push_back(static_cast<int>(i));
  return all;
}

// Tries scopes until one fits.
class Fitter {
 public:
  Fitter(const TraceChoice& choice, const TraceSubject& subject, const DrawTrace& draw)
      : choice_(choice), subject_(subject), draw_(draw) {}

  core::Result<Trace> run() {
    core::Problems problems = problems_of(choice_, subject_);
    if (!problems.empty()) return problems;
    name_what_is_asked_for();
    if (choice_.ranks && choice_.micro_batches) return as_asked();
    if (auto whole = draw(ranks_)) return std::move(*whole);
    if (!choice_.ranks) {
      ranks_ = subject_.unlike;
      if (auto unlike = draw(ranks_)) return std::move(*unlike);
    }
    if (!choice_.micro_batches)
      if (auto some = fewer(subject_.micro_batches, [&](std::int64_t n) {
            micro_batches_ = {{0, n - 1}};
            return draw(ranks_);
          }))
        return std::move(*some);
    if (!choice_.ranks)
      if (auto some = fewer(static_cast<std::int64_t>(ranks_.size()), [&](std::int64_t n) {
            return draw({ranks_.begin(), ranks_.begin() + static_cast<std::ptrdiff_t>(n)});
          }))
        return std::move(*some);
    if (!choice_.ranks) ranks_.resize(1);
    return as_asked();
  }

 private:
  core::Result<Trace> as_asked() const {
    if (auto drawn = draw(ranks_, choice_.most_bytes_asked)) return std::move(*drawn);
    const auto most = core::Bytes(static_cast<std::int64_t>(choice_.most_bytes_asked));
    return core::Problem{
        "--trace", fmt::format("at most {}", core::to_text(most)),
        fmt::format("more for {} ranks", ranks_.size()),
        "fewer --ranks or --micro-batches, --trace-format perfetto, or --detail block"};
  }

  void name_what_is_asked_for() {
    micro_batches_ = {{0, subject_.micro_batches - 1}};
    if (choice_.micro_batches) micro_batches_ = asked_micro_batches(choice_, subject_).value();
    const bool few = static_cast<std::size_t>(subject_.ranks) <= choice_.most_ranks;
    if (choice_.ranks)
      ranks_ = listed(asked_ranks(choice_, subject_).value());
    else
      ranks_ = few ? listed({{0, subject_.ranks - 1}}) : subject_.unlike;
  }

  // The most of 1 to `all` - 1 that fits; empty: not even one does. micro_batches_ ends at the last
  // that was tried, which is one where none fits. O(log all) drawings.
  template <class Try>
  static std::optional<Trace> fewer(std::int64_t all, const Try& attempt) {
    std::optional<Trace> best;
    std::int64_t fits = 0, exceeds = all;
    while (exceeds - fits > 1) {
      const std::int64_t middle = fits + (exceeds - fits) / 2;
      if (auto drawn = attempt(middle)) {
        best = std::move(drawn);
        fits = middle;
      } else {
        exceeds = middle;
      }
    }
    return best;
  }

  std::optional<Trace> draw(const std::vector<int>& ranks) const {
    return draw(ranks, choice_.most_bytes);
  }
  std::optional<Trace> draw(const std::vector<int>& ranks, std::size_t most_bytes) const {
    TraceScope scope;
    scope.ranks = ranks;
    scope.micro_batches = micro_batches_;
    scope.of_ranks = subject_.ranks;
    scope.of_micro_batches = subject_.micro_batches;
    scope.all_ranks = static_cast<std::int64_t>(ranks.size()) == subject_.ranks;
    scope.once_each = !scope.all_ranks && !choice_.ranks && ranks == subject_.unlike;
    scope.all_micro_batches = micro_batches_.front().low == 0 &&
                              micro_batches_.front().high == subject_.micro_batches - 1;
    scope.chosen = (!scope.all_ranks && !choice_.ranks) ||
                   (!scope.all_micro_batches && !choice_.micro_batches);
    TraceFile file(choice_.format, most_bytes);
    draw_(file, scope);
    if (file.full()) return std::nullopt;
    return Trace{file.finish(), std::move(scope)};
  }

  const TraceChoice& choice_;
  const TraceSubject& subject_;
  const DrawTrace& draw_;
  std::vector<int> ranks_;
  IndexRanges micro_batches_;
};

}  // namespace

bool has(const IndexRanges& ranges, std::int64_t index) {
  return std::ranges::any_of(ranges,
                             [&](const core::IntRange& r) { return core::contains(r, index); });
}

core::Result<IndexRanges> parse_index_ranges(std::string_view text, std::string_view option) {
  if (text == "all") return IndexRanges{{0, kLast}};
  IndexRanges ranges;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const auto range = range_of(rest.substr(0, comma));
    if (!range)
      return core::Problem{std::string(option), "numbers from 0 and ranges of them, as 0,3,8-11",
                           '"' + std::string(text) + '"', "write 0,3,8-11 or 0..3 or all"};
    ranges.push_back(*range);
    if (comma == std::string_view::npos) return joined(std::move(ranges));
    rest.remove_prefix(comma + 1);
  }
}

std::string to_text(const IndexRanges& ranges) {
  std::string text;
  for (const core::IntRange& r : ranges) {
    if (!text.empty()) text += ", ";
    text += r.low == r.high ? fmt::format("{}", r.low) : fmt::format("{} to {}", r.low, r.high);
  }
  return text;
}

IndexRanges ranges_of(const std::vector<int>& indices) {
  IndexRanges ranges;
  for (const int i : indices) ranges.push_back({i, i});
  return joined(std::move(ranges));
}

core::Problems problems_of(const TraceChoice& choice, const TraceSubject& subject) {
  core::Problems problems;
  const auto add = [&](const core::Result<IndexRanges>& asked) {
    if (!asked.ok())
      problems.insert(problems.end(), asked.problems().begin(), asked.problems().end());
  };
  if (choice.ranks) add(asked_ranks(choice, subject));
  if (choice.micro_batches) add(asked_micro_batches(choice, subject));
  return problems;
}

std::string to_text(const TraceScope& s) {
  const auto part = [](std::string_view one, const IndexRanges& shown, std::int64_t all) {
    const bool single = shown.size() == 1 && shown.front().low == shown.front().high;
    return fmt::format("{}{} {} of {}", one, single ? "" : one == "rank" ? "s" : "es",
                       to_text(shown), core::count_text(all));
  };
  std::string text = "shows ";
  text += s.all_ranks ? "every rank" : part("rank", ranges_of(s.ranks), s.of_ranks);
  if (s.once_each) text += " (of ranks that behave alike, one)";
  text += " and ";
  text += s.all_micro_batches ? "every micro-batch"
                              : part("micro-batch", s.micro_batches, s.of_micro_batches);
  if (s.chosen)
    text += ", so that a browser opens it. All of them: --ranks all --micro-batches all";
  return text + '.';
}

bool TraceScope::shows_rank(int rank) const { return std::ranges::binary_search(ranks, rank); }

core::Result<Trace> write_trace(const TraceChoice& choice, const TraceSubject& subject,
                                const DrawTrace& draw) {
  return Fitter(choice, subject, draw).run();
}

}  // namespace program
