#include "tests/property/reference_parts.hpp"

namespace tests {
namespace {

class Chain : Model {
 public:
  explicit Chain(MicroBatch& batch) : Model(batch, batch.samples), spec_(*batch.spec) {}

  void train(double* loss) {
    using models::Activation;
    const std::size_t layers = spec_.widths.size() - 1;
    const auto activation_of = [&](std::size_t l) {
      return l + 1 == layers ? Activation::identity : spec_.activation;
    };
    std::vector<Typed> x{b_.inputs}, z;
    for (std::size_t l = 0; l < layers; ++l) {
      z.push_back(linear("h." + std::to_string(l), x[l], spec_.widths[l + 1]));
      x.push_back(z.back());
      host::activate(x.back().at(), activation_of(l), x.back().size());
    }
    Typed d = x.back();                // the loss leaves the gradient where its input was
    apply_loss(d, loss);
    for (std::size_t l = layers; l-- > 0;) {
      if (activation_of(l) == Activation::gelu_tanh)
        host::gelu_gradient(d.at(), d.at(), z[l].at(), d.size());
      else
        host::activate_gradient(d.at(), x[l + 1].at(), activation_of(l), d.size());
      Typed dx(b_.activation, x[l].size());
      linear_backward("h." + std::to_string(l), d, x[l], dx, false);
      d = std::move(dx);
    }
  }

 private:
  void apply_loss(Typed& y, double* loss) {
    const host::LossFactor scale = b_.mean_of(b_.global_batch);
    if (spec_.loss == models::Loss::cross_entropy)
      cross_entropy(y, spec_.widths.back(), scale, loss);
    else
      host::squared_error(loss, y.at(), b_.targets.at(), y.size(), scale);
  }

  const models::ModelSpec& spec_;
};

}  // namespace

void train_chain(MicroBatch& batch, double* loss) { Chain(batch).train(loss); }

}  // namespace tests
