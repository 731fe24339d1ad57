#include "exec/communicator/links.hpp"

#include <algorithm>

#include "core/check.hpp"

namespace exec {
namespace {

std::chrono::nanoseconds nanoseconds(core::Seconds s) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(s.value() * 1e9 + 0.5));
}

}  // namespace

PacedLinks::PacedLinks(int ranks, std::optional<Link> every, const std::vector<LinkBetween>& pairs)
    : ranks_(ranks),
      any_(every.has_value() || !pairs.empty()),
      links_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks), every),
      ports_(static_cast<std::size_t>(ranks)) {
  for (const LinkBetween& p : pairs) {
    PLANNER_CHECK(p.from >= 0 && p.from < ranks && p.to >= 0 && p.to < ranks);
    links_[p.from * ranks + p.to] = p.link;
  }
  for (const auto& link : links_) {
    PLANNER_CHECK(!link || (link->bandwidth.value() > 0 && link->latency.value() >= 0));
  }
}

PacedLinks::Time PacedLinks::arrival(int from, int to, core::Bytes bytes, Time now) {
  const std::optional<Link>& link = links_[from * ranks_ + to];
  if (!link || from == to) return now;
  const auto transfer = nanoseconds(bytes / link->bandwidth);
  const std::scoped_lock lock(mutex_);
  Time& sends = ports_[from].sends;
  const Time start = std::max(now, sends);
  sends = start + transfer;
  // The first byte reaches the other port as it leaves this one; that port may still be busy.
  return receive(ports_[to], start, transfer, now) + transfer + nanoseconds(link->latency);
}

PacedLinks::Time PacedLinks::receive(Port& port, Time earliest, std::chrono::nanoseconds transfer,
                                     Time now) {
  std::erase_if(port.receives, [&](const Span& s) { return s.last <= now; });
  auto at = port.receives.begin();
  for (; at != port.receives.end() && earliest + transfer > at->first; ++at)
    earliest = std::max(earliest, at->last);
  port.receives.insert(at, {earliest, earliest + transfer});
  return earliest;
}

}  // namespace exec
