#pragma once
// Ledger: every buffer of one rank, by memory term, as it is allocated and freed. Live bytes, the
// terms at the first instant of the live peak, and each term's own peak: the measured half of the
// plan's memory, compared with the replay to the byte. One thread (the issuing one); no locks.

#include "sim/program/replay.hpp"

namespace exec {

class Ledger {
 public:
  void allocate(program::Term term, core::Bytes bytes) {
    at(now_, term) += bytes;
    live_ += bytes;
    if (at(now_, term) > at(peaks_, term)) at(peaks_, term) = at(now_, term);
    if (live_ > peak_) peak_ = live_, terms_ = now_;
  }
  void free(program::Term term, core::Bytes bytes) {
    at(now_, term) -= bytes;
    live_ -= bytes;
  }

  core::Bytes live() const { return live_; }
  const program::TermBytes& now() const { return now_; }
  core::Bytes peak() const { return peak_; }
  const program::TermBytes& terms() const { return terms_; }    // at the first instant of the peak
  const program::TermBytes& peaks() const { return peaks_; }

 private:
  static core::Bytes& at(program::TermBytes& t, program::Term term) {
    return t[static_cast<std::size_t>(term)];
  }
  program::TermBytes now_{}, terms_{}, peaks_{};
  core::Bytes live_{}, peak_{};
};

}  // namespace exec
