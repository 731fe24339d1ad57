#include "core/json.hpp"

#include <algorithm>

namespace core {

Json Json::object() { return from_members({}); }
Json Json::object(std::initializer_list<Member> members) { return from_members(members); }
Json Json::array() { return from_items({}); }
Json Json::array(std::initializer_list<Json> items) { return from_items(items); }

Json Json::from_members(std::vector<Member> members) {
  if (members.empty()) return {kObject, {.members = nullptr}};
  return {kObject, {.members = new std::vector<Member>(std::move(members))}};
}

Json Json::from_items(std::vector<Json> items) {
  if (items.empty()) return {kArray, {.items = nullptr}};
  return {kArray, {.items = new std::vector<Json>(std::move(items))}};
}

Json::Json(const Json& from) {
  switch (from.tag_.kind) {
    case kString: *this = Json(from.as_string()); break;
    case kArray: *this = from_items(from.items()); break;
    case kObject: *this = from_members(from.members()); break;
    default: content_ = from.content_;
  }
  tag_ = from.tag_;
}

void Json::release() noexcept {
  if (tag_.kind == kString) delete content_.text;
  if (tag_.kind == kArray) delete content_.items;
  if (tag_.kind == kObject) delete content_.members;
}

void Json::set_place(int line, int column) {
  constexpr std::uint32_t kMostPlace = (std::uint32_t{1} << 30) - 1;
  PLANNER_CHECK(std::in_range<std::uint32_t>(line) && std::in_range<std::uint32_t>(column));
  tag_.line = static_cast<std::uint32_t>(line) & kMostPlace;
  tag_.column = static_cast<std::uint32_t>(column) & kMostPlace;
}

Json& Json::set(std::string_view key, Json value) {
  PLANNER_CHECK(is_object(), "set() on a JSON value that is no object");
  if (!content_.members) content_.members = new std::vector<Member>();
  std::vector<Member>& members = *content_.members;
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
  if (!content_.items) content_.items = new std::vector<Json>();
  content_.items->push_back(std::move(value));
  return *this;
}

bool Json::as_bool() const {
  PLANNER_CHECK(is_bool());
  return content_.boolean;
}

std::int64_t Json::as_int64() const {
  PLANNER_CHECK(is_int64());
  return content_.int64;
}

std::uint64_t Json::as_uint64() const {
  PLANNER_CHECK(is_uint64());
  return content_.uint64;
}

double Json::as_double() const {
  if (is_int64()) return static_cast<double>(as_int64());
  if (is_uint64()) return static_cast<double>(as_uint64());
  PLANNER_CHECK(is_double());
  return content_.number;
}

const std::string& Json::as_string() const {
  PLANNER_CHECK(is_string());
  return *content_.text;
}

const std::vector<Json>& Json::items() const {
  PLANNER_CHECK(is_array());
  static const std::vector<Json> none;
  return content_.items ? *content_.items : none;
}

const std::vector<Json::Member>& Json::members() const {
  PLANNER_CHECK(is_object());
  static const std::vector<Member> none;
  return content_.members ? *content_.members : none;
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

bool operator==(const Json& a, const Json& b) {
  if (a.tag_.kind != b.tag_.kind) return false;
  switch (a.tag_.kind) {
    case Json::kNull: return true;
    case Json::kBool: return a.as_bool() == b.as_bool();
    case Json::kDouble: return a.as_double() == b.as_double();
    case Json::kString: return a.as_string() == b.as_string();
    case Json::kArray: return a.items() == b.items();
    case Json::kObject: return a.members() == b.members();
    default: return a.content_.uint64 == b.content_.uint64;
  }
}

}  // namespace core
