#include "exec/cuda/api/product_choices.hpp"

#include <algorithm>
#include <bit>

#include "core/file.hpp"
#include "core/json_reader.hpp"
#include "exec/cuda/api/stored_matrix.hpp"

namespace exec::cuda {
namespace {

constexpr std::string_view kSchema = "products/2";
constexpr std::size_t kMostBytes = std::size_t{16} << 20;

// Bytes that divide the address, up to 256: what a kernel may take for granted.
std::int64_t alignment(const void* p) {
  const auto address = reinterpret_cast<std::uintptr_t>(p) | 256U;
  return std::int64_t{1} << std::countr_zero(address);
}

}  // namespace

ProductKey key_of(const host::MixedGemm& g, int then, const void* before) {
  const StoredMatrix a = stored(g.a), b = stored(g.b), c = stored(g.c);
  // Of the matrices of a batch, too.
  const auto lies = [&](const StoredMatrix& m) {
    const std::int64_t between = g.count > 1 ? m.stride * core::bits(m.type) / 8 : 0;
    return std::min(alignment(m.data), alignment(reinterpret_cast<const void*>(between)));
  };
  const auto type = [](const host::View& v) {
    const std::int64_t format = v.f8 != nullptr ? 1 + static_cast<std::int64_t>(v.f8->format()) : 0;
    return static_cast<std::int64_t>(v.type) + 100 * format;
  };
  return {g.m, g.n, g.k, a.leading, b.leading, c.leading, a.transposed, b.transposed,
          type(g.a.view), type(g.b.view), type(g.c.view), g.bias ? 1 + type(g.bias) : 0,
          lies(a), lies(b), lies(c),
          g.accumulate, then, alignment(before), alignment(g.bias.data), g.count,
          a.stride, b.stride, c.stride};
}

core::Result<ProductChoices> read_product_choices(const std::string& path) {
  ProductChoices choices;
  if (!core::path_exists(path)) return choices;
  const auto text = core::read_file(path, kMostBytes);
  if (!text.ok()) return text.problems();
  const auto json = core::parse_json(*text, path);
  if (!json.ok()) return json.problems();
  core::Problems problems;
  core::JsonReader reader(*json, path, "", problems);
  std::string schema;
  if (reader.required("schema", schema) && schema != kSchema)
    reader.problem("schema", std::string(kSchema), schema, "name another file, or remove this one");
  reader.required("gpu", choices.gpu);
  reader.required("library", choices.library);
  for (core::JsonReader& one : reader.objects("choices")) {
    std::vector<std::int64_t> key;
    ProductChoice choice;
    one.required("key", key);
    one.required("proposal", choice.proposal, core::at_least(0));
    one.required("seconds", choice.seconds, core::not_negative());
    one.required("first_seconds", choice.first_seconds, core::not_negative());
    one.allow_only_known();
    ProductKey own{};
    if (key.size() != own.size()) {
      one.problem("key", std::to_string(own.size()) + " numbers", std::to_string(key.size()));
      continue;
    }
    std::ranges::copy(key, own.begin());
    choices.of[own] = choice;
  }
  reader.allow_only_known();
  if (!problems.empty()) return problems;
  return choices;
}

core::Status write_product_choices(const std::string& path, const ProductChoices& choices) {
  core::Json all = core::Json::array();
  for (const auto& [key, choice] : choices.of) {
    core::Json numbers = core::Json::array();
    for (const std::int64_t n : key) numbers.push_back(n);
    core::Json one = core::Json::object({{"key", std::move(numbers)},
                                         {"proposal", choice.proposal},
                                         {"seconds", choice.seconds},
                                         {"first_seconds", choice.first_seconds}});
    all.push_back(std::move(one));
  }
  core::Json root = core::Json::object(
      {{"schema", std::string(kSchema)}, {"gpu", choices.gpu}, {"library", choices.library}});
  root.set("choices", std::move(all));
  return core::write_atomically(path, core::dump(root) + '\n');
}

}  // namespace exec::cuda
