#pragma once
// Before everything else where the thread sanitizer is on. Timed mutexes of libstdc++ call
// pthread_mutex_clocklock, which the sanitizer of Clang 14 does not know: it takes their unlocking
// for that of a free mutex. Without it they call pthread_mutex_timedlock, which it knows.
#include <version>
#undef _GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK
