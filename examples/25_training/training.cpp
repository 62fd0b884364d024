// SPDX-License-Identifier: MIT
// Data-parallel training: each rank has a part of the data, computes the gradient of a linear
// model, and all ranks sum their gradients. The model of all ranks stays equal, bit by bit.
//   training [RANKS]                 starts 8 processes on this host, or RANKS
//   verbena launch -n 4 -- training  starts 4
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "examples/ranks.hpp"

namespace {

using clock_type = std::chrono::steady_clock;
namespace net = verbena::net;

constexpr std::size_t features = 256;
constexpr std::size_t samples_per_rank = 512;
constexpr int steps = 60;
constexpr double rate = 0.5;

/// The part of the data that a rank has: y = x * truth + noise.
struct shard {
  explicit shard(std::uint32_t rank) {
    std::mt19937_64 random(rank + 1);
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < samples_per_rank; ++i) {
      double y = 0.01 * normal(random);
      for (std::size_t k = 0; k < features; ++k) {
        inputs.push_back(normal(random));
        y += inputs.back() * truth(k);
      }
      outputs.push_back(y);
    }
  }
  static double truth(std::size_t k) { return std::sin(static_cast<double>(k)); }

  /// Adds the gradient of the squared error to `gradient`; returns the error.
  double error_of(std::span<const double> model, std::span<double> gradient) const {
    double sum = 0;
    for (std::size_t i = 0; i < samples_per_rank; ++i) {
      const double* const x = inputs.data() + i * features;
      double difference = -outputs[i];
      for (std::size_t k = 0; k < features; ++k) difference += x[k] * model[k];
      for (std::size_t k = 0; k < features; ++k) gradient[k] += difference * x[k];
      sum += difference * difference;
    }
    return sum;
  }

  std::vector<double> inputs;
  std::vector<double> outputs;
};

int run_rank() {
  auto self = examples::joined::from_environment();
  auto& group = self.group;
  const shard data(group.rank());
  // The gradient, and the error behind it.
  auto memory =
      self.pd.allocate((features + 1) * sizeof(double), verbena::access::local_write).value();
  auto* const values = reinterpret_cast<double*>(memory.bytes().data());
  const std::span gradient(values, features);
  std::vector<double> model(features);
  std::chrono::duration<double> in_sum{};
  const auto began = clock_type::now();
  double error = 0;
  for (int step = 0; step < steps; ++step) {
    std::ranges::fill(gradient, 0.0);
    values[features] = data.error_of(model, gradient);
    const auto before = clock_type::now();
    // [all_reduce]
    group.all_reduce<double>(verbena::sink(memory), std::plus<>(), examples::time_limit()).value();
    // [/all_reduce]
    in_sum += clock_type::now() - before;
    const auto count = static_cast<double>(group.size() * samples_per_rank);
    for (std::size_t k = 0; k < features; ++k) model[k] -= rate * gradient[k] / count;
    error = values[features] / count;
    if (group.rank() == 0 && step % 10 == 0) std::printf("step %2d: error %10.6f\n", step, error);
  }
  const std::chrono::duration<double> took = clock_type::now() - began;

  // All models are equal: the largest and the smallest value of each weight are the same.
  auto largest = self.pd.allocate(features * sizeof(double), verbena::access::local_write).value();
  auto* const most = reinterpret_cast<double*>(largest.bytes().data());
  std::ranges::copy(model, most);
  group.all_reduce<double>(verbena::sink(largest), net::maximum(), examples::time_limit()).value();
  const bool is_equal = std::ranges::equal(model, std::span(most, features));
  double distance = 0;
  for (std::size_t k = 0; k < features; ++k)
    distance = std::max(distance, std::abs(model[k] - shard::truth(k)));
  if (group.rank() == 0)
    std::printf(
        "step %2d: error %10.6f\n%d steps on %u ranks in %.1f ms, %.0f %% of it in sums of "
        "%zu bytes; weights differ from the true ones by at most %.4f\n",
        steps - 1, error, steps, group.size(), 1000 * took.count(),
        100 * in_sum.count() / took.count(), memory.bytes().size(), distance);
  group.barrier(examples::time_limit()).value();
  return is_equal && distance < 0.01 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return examples::run_ranks(argc, argv, run_rank); }
