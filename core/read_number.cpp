#include "core/read_number.hpp"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string>

namespace core {

#ifdef __cpp_lib_to_chars

std::from_chars_result read_double(const char* first, const char* last, double& value) {
  return std::from_chars(first, last, value);
}

#else

// strtod reads more than std::from_chars: it is given no more than a number's own letters.
std::from_chars_result read_double(const char* first, const char* last, double& value) {
  const std::string text(first, last);
  const std::size_t digits = text.starts_with('-') ? 1 : 0;
  std::size_t length = text.find_first_not_of("0123456789.eE+-", digits);
  const std::string word = text.substr(digits, 3);
  if (word == "inf" || word == "nan") length = digits + 3;
  else if (text.find_first_of("0123456789.", digits) != digits)
    return {first, std::errc::invalid_argument};
  const std::string number = text.substr(0, length);
  char* end = nullptr;
  errno = 0;
  const double read = std::strtod(number.c_str(), &end);
  if (end == number.c_str()) return {first, std::errc::invalid_argument};
  const char* const after = first + (end - number.c_str());
  if (errno == ERANGE && (read == 0 || std::isinf(read)))  // not of numbers near zero
    return {after, std::errc::result_out_of_range};
  value = read;
  return {after, std::errc()};
}

#endif

}  // namespace core
