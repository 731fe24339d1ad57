#pragma once
// Quantities as people write and read them: "24GiB", "50us", "500B" tokens, "400Gbps". GB is 10^9
// bytes, GiB 2^30; Gbps is bits, GB/s bytes. Units are spelt exactly, and a wrong one is answered
// with the nearest right one; blanks between number and unit are allowed. Thread-safe.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.hpp"
#include "core/units.hpp"

namespace core {

// `where` is what problems call the text: "--bucket-bytes". All refuse negative values and what is
// not finite.

// B, kB, MB, GB, TB, PB (powers of 1000), KiB to PiB (powers of 1024); a bare number is bytes. The
// value must come to whole bytes below 2^63: "1.5GiB" does, "1.5B" does not.
Result<Bytes> parse_bytes(std::string_view text, std::string_view where);
// ps, ns, us, ms, s, min, h, d; only 0 goes without a unit.
Result<Seconds> parse_duration(std::string_view text, std::string_view where);
// K, M, B, T (10^3 to 10^12) or none; comes to a whole number: "500B" is 500,000,000,000.
Result<std::int64_t> parse_count(std::string_view text, std::string_view where);
// bps to Tbps in bits, B/s to TB/s and KiB/s to TiB/s in bytes.
Result<BytesPerSecond> parse_bandwidth(std::string_view text, std::string_view where);

// Three significant digits and the unit that keeps the number below its next step: "12.3 GiB",
// "512 B", "1.24 ms", "1.56 B", "50.0 GB/s". A count below 10,000 is written in full.
std::string to_text(Bytes bytes);
std::string to_text(Seconds seconds);
std::string to_text(Picoseconds time);
std::string to_text(BytesPerSecond rate);
std::string count_text(std::int64_t count);

}  // namespace core
