#pragma once
// Work whose pieces know nothing of each other, on several threads. Results do not depend on the
// number of threads: each piece writes what is its own.

#include <cstddef>
#include <functional>

namespace core {

// Threads that this process may run at once; at least 1.
int usable_threads();

// work(0) .. work(count - 1), each once, on up to `threads` threads, the caller's among them (0:
// usable_threads(); 1: here, in order). The caller's thread does the first piece; each takes the
// next when it has done one.
// Where the system refuses a thread, those that could be made do all the work. Returns when all are
// done. What the first piece by index throws is thrown again. All threads work for the caller's
// Call (call.hpp); pieces that begin after it was stopped throw Stopped.
void for_each_index(std::size_t count, int threads, const std::function<void(std::size_t)>& work);

}  // namespace core
