#include "models/ops/schemas.hpp"

#include <algorithm>
#include <utility>

namespace models::ops {
namespace {

using Signatures = std::array<Signature, kKernels>;

template <std::size_t kIndex>
constexpr Signatures signatures() {
  constexpr const Schema& s = *kSchemas[kIndex];
  return {kSignature<s, Kernel::forward>, kSignature<s, Kernel::input_gradient>,
          kSignature<s, Kernel::weight_gradient>};
}

template <std::size_t... kIndex>
constexpr std::array<Signatures, kSchemas.size()> all(std::index_sequence<kIndex...>) {
  return {signatures<kIndex>()...};
}

constexpr auto kSignatures = all(std::make_index_sequence<kSchemas.size()>{});

// Each kind at its own place, then other forms of kinds.
constexpr bool in_order() {
  bool forms = false;
  for (std::size_t i = 0; i < kSchemas.size(); ++i) {
    const auto kind = static_cast<std::size_t>(kSchemas[i]->kind);
    forms = forms || kind != i;
    if (forms && kind >= i) return false;
  }
  return true;
}
static_assert(in_order(), "kSchemas has another order than OpKind");

}  // namespace

const Signature& signature(const Schema& schema, Kernel kernel) {
  auto index = static_cast<std::size_t>(schema.kind);
  if (kSchemas[index] != &schema)
    index = static_cast<std::size_t>(std::ranges::find(kSchemas, &schema) - kSchemas.begin());
  return kSignatures[index][static_cast<std::size_t>(kernel)];
}

bool may_share(const Schema& schema, std::string_view written, std::string_view other) {
  for (std::string_view pairs = schema.in_place; !pairs.empty();) {
    const std::string_view pair = next_word(pairs);
    const std::size_t equals = pair.find('=');
    if (equals == pair.npos) continue;
    if (pair.substr(0, equals) == written && pair.substr(equals + 1) == other) return true;
  }
  return false;
}

}  // namespace models::ops
