#pragma once
// A thread that the system may refuse: limits of processes or of memory are met in the middle of a
// run, and std::thread says of them no more than "Resource temporarily unavailable". Thread-safe.

#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/result.hpp"

namespace core {

class ThreadRefused : public std::runtime_error {
 public:
  // what: for whom the thread was, "rank 3". reason: the system's.
  ThreadRefused(std::string_view what, std::string_view reason);
};

// expected: how many threads are needed for what, "24 threads: 8 ranks and their streams".
Problem thread_problem(const ThreadRefused& refused, std::string expected);

// A std::thread or std::jthread for `what`. Throws ThreadRefused.
template <class Thread = std::thread, class Body>
Thread start_thread(std::string_view what, Body&& body) {
  try {
    return Thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    throw ThreadRefused(what, error.code().message());
  }
}

}  // namespace core
