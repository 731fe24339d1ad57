#include "planner/evaluate/closed_form/transfer_times.hpp"

namespace planner::closed_form {

std::int64_t TransferTimes::operator()(program::Collective collective,
                                       program::Algorithm algorithm, const cost::Place& place,
                                       std::int64_t elements, core::DType type,
                                       const cost::Machine& machine) {
  const Question question{&machine,     elements,     place.size, place.nodes, place.per_node,
                          place.paired, collective,   algorithm,  type};
  std::uint64_t mixed = static_cast<std::uint64_t>(elements);
  for (const int part : {place.size, place.nodes, place.per_node, static_cast<int>(collective)})
    mixed = mixed * 0x9E3779B97F4A7C15ULL + static_cast<std::uint64_t>(part);
  Answer& at = answers_[(mixed * 0x9E3779B97F4A7C15ULL) >> 54];  // ten bits
  if (at.question == question) return at.time;
  at.question = question;
  at.time = core::to_picoseconds(cost::collective_time(collective, algorithm, place, elements,
                                                       type, machine))
                .value();
  return at.time;
}

}  // namespace planner::closed_form
