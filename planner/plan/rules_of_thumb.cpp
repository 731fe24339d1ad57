#include "planner/plan/rules_of_thumb.hpp"

#include <fmt/format.h>

namespace planner {

std::vector<RuleOfThumb> rules_of_thumb(const models::ModelSpec& model, std::int64_t parameters,
                                        std::int64_t seq_len, std::int64_t samples) {
  if (model.family != models::Family::gpt2) return {};
  const double h = static_cast<double>(model.hidden), layers = static_cast<double>(model.layers);
  const double a = static_cast<double>(model.heads), s = static_cast<double>(seq_len);
  const double b = static_cast<double>(samples);
  const std::string batch = fmt::format("b = {}", samples);
  std::vector<RuleOfThumb> rules;
  rules.push_back({"model state, mixed precision with Adam", "16 Psi",
                   16.0 * static_cast<double>(parameters), "B", "[zero] section 3.1"});
  rules.push_back({fmt::format("activations, {}", batch), "12 h b s L x 2 B",
                   12 * h * b * s * layers * 2, "B",
                   "[zero] section 3.2"});
  rules.push_back({fmt::format("activations without recomputation, {}", batch),
                   "s b h L (34 + 5 a s / h)",
                   s * b * h * layers * (34 + 5 * a * s / h), "B", "[korthikanti2022] eq. 1"});
  rules.push_back({fmt::format("activations with fused attention, {}", batch), "24 s b h L",
                   24 * s * b * h * layers, "B", "[zero] section 3.2 as 12 elements of 2 B"});
  rules.push_back({"GPT-2 1.5B activations with checkpointing, b = 32", "8 GB", 8e9, "B",
                   "[zero] section 3.2"});
  rules.push_back({"activations left by checkpointing", "about half", 0.5, "fraction",
                   "lecture notes the product was founded on"});
  rules.push_back({"recomputation of checkpointing", "1 forward of forward + backward", 1.0 / 3,
                   "fraction", "[zero] section 3.2"});
  return rules;
}

}  // namespace planner
