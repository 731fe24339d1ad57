// PaSE's published tool [pase], re-stated: its cost model of AlexNet, minimised here. Its own
// minima (10 TFLOP/s, 16 GB/s, 128 samples) come out to the digit on 4, 8 and 32 processors, where
// each operator divides along several dimensions at once.
#include <array>
#include <functional>
#include <numeric>

#include "planner/search/elimination.hpp"
#include "tests/catch.hpp"

using planner::Assignment;
using planner::minimise;
using planner::PairwiseProblem;

namespace {

using Config = std::vector<double>;    // processors along each dimension

constexpr double kPerWord = 10.0 * 1000 / (16.0 / 8);  // FLOPs in the time of a word of 8 bytes
constexpr double kLeast = 4;           // elements along a dimension that is divided

double product(const Config& v, std::size_t from, std::size_t to) {
  return std::accumulate(v.begin() + static_cast<std::ptrdiff_t>(from),
                         v.begin() + static_cast<std::ptrdiff_t>(to), 1.0, std::multiplies<>());
}
double product(const Config& v) { return product(v, 0, v.size()); }

Config over(const Config& sizes, const Config& by) {
  Config each(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) each[i] = sizes[i] / by[i];
  return each;
}

// Factors of each size that leave at least kLeast, of at most `processors` together.
std::vector<Config> configs(const Config& sizes, double processors) {
  std::vector<Config> all{{}};
  for (const double size : sizes) {
    std::vector<double> factors;
    for (int f = 1; f <= static_cast<int>(size); ++f)
      if (static_cast<int>(size) % f == 0 && size / f >= kLeast) factors.push_back(f);
    if (factors.empty()) factors = {1};
    std::vector<Config> longer;
    for (const Config& c : all)
      for (const double f : factors) {
        if (product(c) * f > processors) continue;
        longer.push_back(c);
        longer.back().push_back(f);
      }
    all = std::move(longer);
  }
  return all;
}

double all_reduce(double words, double processors) {
  return kPerWord * (words / processors) * 2 * (processors - 1);
}

// y[m,n] = x[m,k] W: three products, point-wise operations on y, and the sums of y over k, of dx
// over n and of dW over m.
double gemm(const std::array<double, 3>& sizes, const std::array<double, 3>& by, double pointwise) {
  const double m = sizes[0] / by[0], n = sizes[1] / by[1], k = sizes[2] / by[2];
  return 3 * m * n * k + 3 * pointwise * m * n + all_reduce(m * n, by[2]) +
         all_reduce(m * k, by[1]) + all_reduce(n * k, by[0]);
}

class PaSE {
 public:
  explicit PaSE(double processors) : processors_(processors) {}

  // Of an operator: each configuration's cost, and how it divides its input and its output.
  struct Operator {
    std::vector<double> cost;
    std::vector<Config> in, out;
  };

  Operator convolution(const Config& image, double channels, double kernel, double places) const {
    const Config dom{image[0], image[1], 1, 1, kernel, kernel, channels};
    Operator op;
    for (const Config& c : configs(dom, processors_)) {
      op.cost.push_back(gemm({image[0] * places * places, channels, image[1] * kernel * kernel},
                             {c[0] * c[2] * c[3], c[6], c[1] * c[4] * c[5]}, 1));
      op.in.push_back({c[0], c[1], c[2], c[3]});
      op.out.push_back({c[0], c[6], c[2], c[3]});
    }
    return op;
  }

  // What lies beside a divided image is fetched, too.
  Operator pool(const Config& image, double places) const {
    const Config dom{image[0], image[1], places, places};
    Operator op;
    for (const Config& c : configs(dom, processors_)) {
      const Config each = over(image, c);
      const double high = each[2] + (c[2] > 1 ? 3 : 0), wide = each[3] + (c[3] > 1 ? 3 : 0);
      op.cost.push_back(product(over(dom, c)) +
                        kPerWord * (high * wide - each[2] * each[3]) * each[0] * each[1]);
      op.in.push_back(c);
      op.out.push_back(c);
    }
    return op;
  }

  // To one dimension, or from one: what is divided lies in one piece.
  Operator reshape(const Config& sizes, bool to_one) const {
    Operator op;
    for (const Config& c : configs(sizes, processors_)) {
      std::size_t d = 0;
      while (d < c.size() && c[d] == sizes[d]) ++d;
      if (d + 1 < c.size() && product(c, d + 1, c.size()) != 1) continue;
      op.cost.push_back(0);
      op.in.push_back(to_one ? c : Config{product(c)});
      op.out.push_back(to_one ? Config{product(c)} : c);
    }
    return op;
  }

  Operator dense(double samples, double outputs, double inputs, double pointwise) const {
    Operator op;
    for (const Config& c : configs({samples, outputs, inputs}, processors_)) {
      op.cost.push_back(gemm({samples, outputs, inputs}, {c[0], c[1], c[2]}, pointwise));
      op.in.push_back({c[0], c[2]});
      op.out.push_back({c[0], c[1]});
    }
    return op;
  }

  Operator loss(double samples, double classes) const {
    Operator op;
    for (const Config& c : configs({samples, classes}, processors_)) {
      const double own = samples / c[0];
      op.cost.push_back(4 * own * classes / c[1] + 2 * own + (c[1] > 1 ? kPerWord * 2 * own : 0));
      op.in.push_back(c);
      op.out.push_back(c);
    }
    return op;
  }

  // The next operator of a chain, which reads a value of these sizes.
  void append(const Operator& op, const Config& sizes) {
    problem_.own.push_back(op.cost);
    if (!before_.empty()) {
      const int last = static_cast<int>(problem_.own.size()) - 1;
      PairwiseProblem::Pair pair{last - 1, last, {}};
      for (const Config& from : before_)
        for (const Config& to : op.in) pair.cost.push_back(moved(sizes, from, to));
      problem_.pairs.push_back(std::move(pair));
    }
    before_ = op.out;
  }

  const PairwiseProblem& problem() const { return problem_; }

 private:
  // What a processor reads and does not have, forward, and its gradient back.
  static double moved(const Config& sizes, const Config& from, const Config& to) {
    const Config has = over(sizes, from), reads = over(sizes, to);
    double common = product(to) > product(from) ? 0 : 1;
    for (std::size_t i = 0; i < sizes.size(); ++i) common *= std::min(has[i], reads[i]);
    return kPerWord * 2 * std::max(0.0, product(reads) - common);
  }

  double processors_;
  PairwiseProblem problem_;
  std::vector<Config> before_;
};

PairwiseProblem alexnet(double processors) {
  constexpr double b = 128;
  PaSE net(processors);
  const auto convolve = [&](const Config& image, double channels, double kernel, double places) {
    net.append(net.convolution(image, channels, kernel, places), image);
  };
  convolve({b, 3, 227, 227}, 96, 11, 55);
  net.append(net.pool({b, 96, 55, 55}, 27), {b, 96, 55, 55});
  convolve({b, 96, 27, 27}, 256, 5, 27);
  net.append(net.pool({b, 256, 27, 27}, 13), {b, 256, 27, 27});
  convolve({b, 256, 13, 13}, 384, 3, 13);
  convolve({b, 384, 13, 13}, 384, 3, 13);
  convolve({b, 384, 13, 13}, 256, 3, 13);
  net.append(net.pool({b, 256, 13, 13}, 6), {b, 256, 13, 13});
  const double features = 256 * 6 * 6;
  net.append(net.reshape({b, 256, 6, 6}, true), {b, 256, 6, 6});
  net.append(net.reshape({b, features}, false), {b * features});
  net.append(net.dense(b, 4096, features, 1), {b, features});
  net.append(net.dense(b, 4096, 4096, 1), {b, 4096});
  net.append(net.dense(b, 1024, 4096, 0), {b, 4096});
  net.append(net.loss(b, 1024), {b, 1024});
  return net.problem();
}

}  // namespace

TEST_CASE("PaSE's minima of AlexNet come out of its cost model to the digit") {
  const auto least = [](double processors) {
    const Assignment found = minimise(alexnet(processors), {}, std::size_t{1} << 24);
    CHECK(found.exact());
    return found.cost;
  };
  CHECK(least(4) == Approx(148'215'719'552.0).epsilon(1e-12));
  CHECK(least(8) == Approx(97'098'296'512.0).epsilon(1e-12));
  CHECK(least(32) == Approx(53'136'349'552.0).epsilon(1e-12));
}
