#pragma once
// Names of the standard library that libc++ for WASI leaves out, included before everything else.
// One thread needs no lock. CLI11's reader of configuration files, which the options of planner do
// not use, names a stream of files: this one finds none.

#include <istream>
#include <string>

namespace std {

class mutex {
 public:
  void lock() {}
  void unlock() {}
};

template <>
class basic_ifstream<char> : public basic_istream<char> {
 public:
  explicit basic_ifstream(const string&) : basic_istream<char>(nullptr) {}
};

}  // namespace std
