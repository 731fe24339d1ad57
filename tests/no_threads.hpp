#pragma once
// A machine that refuses threads: after only(n), n more threads start, and every later one is
// refused as the system does it (EAGAIN). Include it in one source of a binary alone: it takes the
// place of pthread_create. Process-wide; atomic.

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <limits>

namespace no_threads {

inline std::atomic<int> left = std::numeric_limits<int>::max();

class Only {
 public:
  explicit Only(int n) { left = n; }
  Only(const Only&) = delete;
  Only& operator=(const Only&) = delete;
  ~Only() { left = std::numeric_limits<int>::max(); }
};

}  // namespace no_threads

// A sanitizer's own pthread_create, where one is linked in: it must hear of every thread.
extern "C" int __interceptor_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*),
                                            void*) __attribute__((weak));

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) noexcept {
  using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static Create* const create =
      __interceptor_pthread_create != nullptr
          ? &__interceptor_pthread_create
          : reinterpret_cast<Create*>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (no_threads::left.fetch_sub(1) <= 0) return EAGAIN;
  return create(thread, attributes, body, argument);
}
