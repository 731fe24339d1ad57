#include "reports/price_text.hpp"

#include <fmt/format.h>

#include "core/untrusted.hpp"
#include "hw_profiles/mixed.hpp"
#include "reports/plan_headline.hpp"
#include "reports/text.hpp"

namespace reports {

std::string usd_text(cost::Dollars amount) {
  return number_text(amount.value()) + " USD";
}

std::optional<cost::Dollars> token_price(const hw_profiles::Gpu& gpu, std::int64_t gpus,
                                         double tokens_per_second) {
  const auto one = cost::rent(gpu, core::Seconds(1 / tokens_per_second));
  return one ? std::optional(*one * static_cast<double>(gpus)) : std::nullopt;
}

// A source says provider, tier and date first, then in brackets where that is written.
std::string price_text(const hw_profiles::Profile& profile) {
  if (!profile.others.empty()) {
    std::string all;
    for (std::size_t k = 0; k < hw_profiles::kinds(profile); ++k) {
      hw_profiles::Profile one = hw_profiles::profile_of_kind(profile, k);
      one.others.clear();
      const std::string text = price_text(one);
      if (text.empty()) return "";
      all += fmt::format("{}{} of {}", all.empty() ? "" : " and ", text, one.gpu.id);
    }
    return all;
  }
  if (!profile.gpu.price) return "";
  const hw_profiles::Sourced* stated = profile.lookup("gpu.price");
  const std::string source = stated == nullptr ? "" : stated->source;
  const std::string text = price_text(*profile.gpu.price, source);
  const std::string& cloud = profile.node.cloud;
  const bool is_own = source.find("--price") != std::string::npos ||
                      source.find(cloud) != std::string::npos;
  if (cloud.empty() || is_own) return text;
  return text + fmt::format(", which is not what {} asks (--price states it)",
                            core::visible(cloud));
}

std::string price_text(hw_profiles::DollarsPerHour price, std::string_view source) {
  return fmt::format("{} USD a GPU hour ({})", number_text(price.value()),
                     source.substr(0, source.find(" (")));
}

std::string token_price_text(cost::Dollars one, std::string_view counted) {
  constexpr double kCent = 0.01;
  const double million = one.value() * 1e6;
  if (million >= kCent) return fmt::format("{} USD per million {}", number_text(million), counted);
  return fmt::format("{} USD per billion {}", number_text(million * 1e3), counted);
}

std::string rent_text(const planner::Plan& plan, const planner::Candidate& candidate) {
  constexpr core::Seconds kDay{86'400};
  const hw_profiles::Gpu gpu = hw_profiles::mean_gpu(plan.profile, plan.gpus);
  const auto day = cost::rent(gpu, kDay);
  if (!day) return "";
  const auto token = token_price(gpu, plan.gpus,
                                 candidate.throughput.tokens_per_second);
  return fmt::format("{} a day, {}, at {}", usd_text(*day * static_cast<double>(plan.gpus)),
                     token_price_text(*token, counted_in(plan)), price_text(plan.profile));
}

}  // namespace reports
