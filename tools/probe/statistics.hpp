#pragma once
// Median, p10 and p90 of repeated measurements, and the rule that decides how often to repeat.
// Every time in a probe/1 file is such a summary. Pure functions except `measure`, which reads the
// steady clock. Thread-safe.

#include <functional>
#include <vector>

#include "tools/probe/json.hpp"

namespace probe {

struct Summary {
  double median = 0.0;
  double p10 = 0.0;
  double p90 = 0.0;
  int repeats = 0;  // 0: nothing was measured, the other fields mean nothing
};

// Percentiles interpolate linearly between order statistics at position q (n - 1), the common
// "type 7" definition; n = 1 gives the one value three times.
Summary summarize(std::vector<double> samples);

// `amount` per measured second: a rate's p10 is the amount over the time's p90.
// REQUIRES: seconds.repeats == 0 or every quantile > 0.
Summary rate(const Summary& seconds, double amount);

// {"median","p10","p90","repeats"}; nulls and 0 when nothing was measured.
Json to_json(const Summary& summary);

struct RepeatRule {
  int least = 5;         // samples taken whatever they cost
  int most = 50;         // samples never exceeded
  double seconds = 0.2;  // wall time after which sampling stops, once `least` are in
};

// Calls `sample` (which returns seconds) under the rule.
Summary measure(const RepeatRule& rule, const std::function<double()>& sample);

}  // namespace probe
