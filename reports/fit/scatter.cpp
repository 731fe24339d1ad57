#include "reports/fit/scatter.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/code.hpp"

namespace reports::fit {
namespace {

using core::Code;
using core::code;

constexpr double kSize = 640, kMargin = 60, kLegend = 190;
constexpr std::array<std::string_view, 12> kColours{
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b",
    "#e377c2", "#7f7f7f", "#bcbd22", "#17becf", "#393b79", "#637939"};

// Decades from `low`, each `decade` long.
struct Axes {
  double low = 0, decades = 1;

  double x(double seconds) const {
    return kMargin + (std::log10(seconds) - low) / decades * (kSize - 2 * kMargin);
  }
  double y(double seconds) const { return kSize - x(seconds); }
};

Axes axes_of(const std::vector<validation::Predicted>& rows) {
  double low = 1e300, high = 0;
  for (const validation::Predicted& p : rows) {
    if (!p.row.step) continue;
    for (const core::Seconds s : {*p.row.step, p.candidate.time.step}) {
      low = std::min(low, s.value());
      high = std::max(high, s.value());
    }
  }
  if (high <= 0) return {};
  const double first = std::floor(std::log10(low));
  return {first, std::max(1.0, std::ceil(std::log10(high)) - first)};
}

Code line(const Axes& a, double factor, const Code& style) {
  const double from = std::pow(10, a.low), to = std::pow(10, a.low + a.decades);
  const double start = std::max(from, from / factor), end = std::min(to, to / factor);
  return code("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", a.x(start),
              a.y(start * factor), a.x(end), a.y(end * factor), style);
}

Code grid(const Axes& a) {
  Code text;
  for (int i = 0; i <= static_cast<int>(a.decades); ++i) {
    const double at = std::pow(10, a.low + i);
    text += code(
        "<line x1=\"{0:.1f}\" y1=\"{2:.0f}\" x2=\"{0:.1f}\" y2=\"{3:.0f}\" stroke=\"#ddd\"/>\n"
        "<line x1=\"{2:.0f}\" y1=\"{1:.1f}\" x2=\"{3:.0f}\" y2=\"{1:.1f}\" stroke=\"#ddd\"/>\n"
        "<text x=\"{0:.1f}\" y=\"{4:.0f}\" text-anchor=\"middle\">{5:g} s</text>\n"
        "<text x=\"{6:.0f}\" y=\"{1:.1f}\" text-anchor=\"end\">{5:g} s</text>\n",
        a.x(at), a.y(at), kMargin, kSize - kMargin, kSize - kMargin + 18, at, kMargin - 6);
  }
  return text;
}

}  // namespace

std::string scatter_svg(const std::vector<validation::Predicted>& rows) {
  const Axes a = axes_of(rows);
  std::map<std::string, std::size_t> datasets;
  for (const validation::Predicted& p : rows)
    if (p.row.step) datasets.emplace(p.row.dataset, 0);
  std::size_t index = 0;
  for (auto& [name, at] : datasets) at = index++;

  Code text = code(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n",
      kSize + kLegend, kSize);
  text += grid(a);
  text += line(a, 1, "stroke=\"#444\"");
  text += line(a, 1.1, "stroke=\"#888\" stroke-dasharray=\"4 4\"");
  text += line(a, 1 / 1.1, "stroke=\"#888\" stroke-dasharray=\"4 4\"");
  for (const validation::Predicted& p : rows) {
    if (!p.row.step) continue;
    text +=
        code("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\" fill-opacity=\"0.6\"/>\n",
             a.x(p.row.step->value()), a.y(p.candidate.time.step.value()),
             Code::own(kColours[datasets[p.row.dataset] % kColours.size()]));
  }
  for (const auto& [name, at] : datasets) {
    const double y = kMargin + 18 * static_cast<double>(at);
    text += code(
        "<circle cx=\"{:.0f}\" cy=\"{:.0f}\" r=\"4\" fill=\"{}\"/>\n"
        "<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n",
        kSize, y, Code::own(kColours[at % kColours.size()]), kSize + 10, y + 4, Code::html(name));
  }
  text += code(
      "<text x=\"{0:.0f}\" y=\"{1:.0f}\" text-anchor=\"middle\">measured step</text>\n"
      "<text transform=\"translate(14 {0:.0f}) rotate(-90)\" "
      "text-anchor=\"middle\">predicted step</text>\n</svg>\n",
      kSize / 2, kSize - 12);
  return text.text();
}

}  // namespace reports::fit
