#include "exec/communicator/transport.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace exec {
namespace {

constexpr std::array<std::string_view, 10> kKinds{
    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "exchange",
    "ring_shift", "barrier",        "send",       "push",      "reply"};

std::string details(const Header& h) {
  const std::string_view op = h.op == program::ReduceOp::sum ? "sum" : "max";
  switch (h.kind) {
    case CallKind::all_reduce:
    case CallKind::reduce_scatter: return fmt::format("({}, {})", program::name(h.algorithm), op);
    case CallKind::broadcast: return fmt::format("(root {})", h.label);
    case CallKind::send: return fmt::format("(tag {})", h.label);
    case CallKind::push:
    case CallKind::reply: return fmt::format("(key {})", h.label);
    default: return "";
  }
}

}  // namespace

std::string to_text(const Header& h) {
  std::string text(kKinds[static_cast<std::size_t>(h.kind)]);
  text += details(h);
  if (h.kind != CallKind::barrier) {
    text += fmt::format(" of {} {} for {}", h.n, core::name(h.type), program::name(h.what));
  }
  if (h.kind <= CallKind::barrier) text += fmt::format(", call {}", h.sequence);
  return text;
}

}  // namespace exec
