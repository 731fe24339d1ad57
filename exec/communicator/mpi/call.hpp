#pragma once
// One call of MPI, checked. MPI reports through codes here (MPI_ERRORS_RETURN), never by ending the
// process; a code that is no success becomes an exception with the library's own text.

#include <mpi.h>

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace exec::mpi {

inline void call(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw std::runtime_error(std::string(what) + ": " +
                           std::string(text.data(), static_cast<std::size_t>(length)));
}

// A run of bytes as count and type, which may be more than an int counts.
class Bytes {
 public:
  Bytes(std::size_t size, std::size_t longest_plain);
  ~Bytes();
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_;
  MPI_Datatype type_ = MPI_BYTE;
};

}  // namespace exec::mpi
