#include "exec/communicator/statistics.hpp"

namespace exec {

std::string collective_name(const TrafficKey& key) {
  std::string text(program::name(key.collective));
  if (key.server) text += ".server";
  return text;
}

std::string algorithm_name(const TrafficKey& key) {
  return key.library ? "library" : std::string(program::name(key.algorithm));
}

TrafficTotals& TrafficTotals::operator+=(const TrafficTotals& b) {
  calls += b.calls;
  payload += b.payload;
  wire += b.wire;
  busy += b.busy;
  return *this;
}

void CommunicatorStatistics::merge(const CommunicatorStatistics& other) {
  for (const auto& [key, totals] : other.entries) entries[key] += totals;
  for (const auto& [key, calls] : other.library)
    for (const program::LibraryCalls& c : calls) program::add_calls(library[key], c);
  emulated_links = emulated_links || other.emulated_links;
}

}  // namespace exec
