#include "core/call.hpp"

#include <utility>

namespace core {

static thread_local const Call* call_of_thread = nullptr;

const Call* current_call() { return call_of_thread; }

CallScope::CallScope(const Call* call) : previous_(std::exchange(call_of_thread, call)) {}
CallScope::~CallScope() { call_of_thread = previous_; }

void stop_point() {
  if (call_of_thread != nullptr && call_of_thread->is_stopped()) throw Stopped();
}

const std::string* file_of_call(std::string_view path) {
  if (call_of_thread == nullptr) return nullptr;
  const auto file = call_of_thread->files().find(path);
  return file == call_of_thread->files().end() ? nullptr : &file->second;
}

}  // namespace core
