#include "core/json.hpp"

#include <algorithm>

namespace core {

Json Json::object() { return from_members({}); }
Json Json::object(std::initializer_list<Member> members) { return from_members(members); }
Json Json::array() { return from_items({}); }
Json Json::array(std::initializer_list<Json> items) { return from_items(items); }

Json Json::from_members(std::vector<Member> members) {
  Json result;
  result.value_ = std::move(members);
  return result;
}

Json Json::from_items(std::vector<Json> items) {
  Json result;
  result.value_ = std::move(items);
  return result;
}

Json& Json::set(std::string_view key, Json value) {
  PLANNER_CHECK(is_object(), "set() on a JSON value that is no object");
  auto& members = std::get<std::vector<Member>>(value_);
  const auto at = std::find_if(members.begin(), members.end(),
                               [&](const Member& m) { return m.key == key; });
  if (at != members.end())
    at->value = std::move(value);
  else
    members.push_back({std::string(key), std::move(value)});
  return *this;
}

Json& Json::push_back(Json value) {
  PLANNER_CHECK(is_array(), "push_back() on a JSON value that is no array");
  std::get<std::vector<Json>>(value_).push_back(std::move(value));
  return *this;
}

bool Json::as_bool() const {
  PLANNER_CHECK(is_bool());
  return std::get<bool>(value_);
}

std::int64_t Json::as_int64() const {
  PLANNER_CHECK(is_int64());
  return std::get<std::int64_t>(value_);
}

std::uint64_t Json::as_uint64() const {
  PLANNER_CHECK(is_uint64());
  return std::get<std::uint64_t>(value_);
}

double Json::as_double() const {
  if (is_int64()) return static_cast<double>(as_int64());
  if (is_uint64()) return static_cast<double>(as_uint64());
  PLANNER_CHECK(is_double());
  return std::get<double>(value_);
}

const std::string& Json::as_string() const {
  PLANNER_CHECK(is_string());
  return std::get<std::string>(value_);
}

const std::vector<Json>& Json::items() const {
  PLANNER_CHECK(is_array());
  return std::get<std::vector<Json>>(value_);
}

const std::vector<Json::Member>& Json::members() const {
  PLANNER_CHECK(is_object());
  return std::get<std::vector<Member>>(value_);
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const Member& m : members())
    if (m.key == key) return &m.value;
  return nullptr;
}

const Json& Json::at(std::string_view key) const {
  const Json* found = find(key);
  PLANNER_CHECK(found, key);
  return *found;
}

std::size_t Json::size() const {
  if (is_array()) return items().size();
  return is_object() ? members().size() : 0;
}

bool operator==(const Json& a, const Json& b) { return a.value_ == b.value_; }

}  // namespace core
