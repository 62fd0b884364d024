// SPDX-License-Identifier: MIT
// Training whose batches consist of samples of all ranks. A rank finds the samples of the others by
// name and reads them by RDMA. While the gradients of a step are summed, the reads of the next
// batch are in flight: two coroutines on the one thread of each process. The program first trains
// without this overlap, and compares.
//   batches [RANKS]                 starts 8 processes on this host, or RANKS
//   verbena launch -n 4 -- batches  starts 4
#include <verbena/async.hpp>

#include <algorithm>
#include <array>
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
using seconds = std::chrono::duration<double>;
namespace async = verbena::async;
namespace net = verbena::net;

constexpr std::size_t features = 128;
constexpr std::size_t samples_per_rank = 512;
constexpr std::size_t samples_per_batch = 32;  // of each rank
constexpr int steps = 60;
constexpr double rate = 0.2;

/// A sample: y = x * truth + noise.
struct sample {
  std::array<double, features> x;
  double y;
};

double truth(std::size_t k) { return std::sin(static_cast<double>(k)); }

/// The samples of this rank, in memory that others read, and two batches of samples of all ranks.
class loader {
 public:
  explicit loader(examples::joined& on)
      : group_(on.group),
        memory_(on.pd
                    .allocate(samples_per_rank * sizeof(sample),
                              verbena::access::local_write | verbena::access::remote_read)
                    .value()),
        batches_(
            on.pd.allocate(2 * samples_per_batch * sizeof(sample), verbena::access::local_write)
                .value()) {
    std::mt19937_64 random(group_.rank() + 1);
    std::normal_distribution<double> normal;
    for (sample& each : in(memory_, 0, samples_per_rank)) {
      each.y = 0.01 * normal(random);
      for (std::size_t k = 0; k < features; ++k) each.y += (each.x[k] = normal(random)) * truth(k);
    }
    // [publish]
    group_.publish("samples", memory_.remote(), examples::time_limit()).value();
    // [/publish]
  }

  /// Begins to read the batch of a step. It is complete when the steps have ended.
  verbena::steps<void> read(int step) {
    std::mt19937_64 random(static_cast<std::uint64_t>(step) * group_.size() + group_.rank());
    reads_.clear();
    for (std::size_t i = 0; i < samples_per_batch; ++i) {
      const auto rank = static_cast<std::uint32_t>(random() % group_.size());
      const std::size_t offset = random() % samples_per_rank * sizeof(sample);
      reads_.push_back({.from = samples_of(rank).slice(offset, sizeof(sample)),
                        .into = verbena::sink(batches_, place(step, i), sizeof(sample))});
    }
    return group_.channels().in_steps().gather(reads_);
  }
  [[nodiscard]] std::span<const sample> batch(int step) {
    return in(batches_, place(step, 0), samples_per_batch);
  }

 private:
  static std::size_t place(int step, std::size_t index) {
    return (static_cast<std::size_t>(step) % 2 * samples_per_batch + index) * sizeof(sample);
  }
  static std::span<sample> in(verbena::memory_region& of, std::size_t offset, std::size_t count) {
    return {reinterpret_cast<sample*>(of.bytes().data() + offset), count};
  }
  // [find]
  /// Returns the samples of a rank, which are found when they are first needed.
  const net::peer_region& samples_of(std::uint32_t rank) {
    if (found_.size() < group_.size()) found_.resize(group_.size());
    auto& theirs = found_[rank];
    if (theirs.region.length() == 0)
      theirs = group_.find_region(rank, "samples", examples::time_limit()).value();
    return theirs;
  }
  // [/find]

  net::group& group_;
  verbena::memory_region memory_;
  verbena::memory_region batches_;
  std::vector<net::peer_region> found_;
  std::vector<net::peer_read> reads_;
};

/// A linear model, which is equal on all ranks.
class trainer {
 public:
  explicit trainer(examples::joined& on)
      : group_(on.group),
        memory_(
            on.pd.allocate((features + 1) * sizeof(double), verbena::access::local_write).value()),
        weights_(features) {}

  /// Sets the gradient and the squared error of a batch.
  void compute(std::span<const sample> batch) {
    std::ranges::fill(gradient(), 0.0);
    for (const sample& each : batch) {
      double difference = -each.y;
      for (std::size_t k = 0; k < features; ++k) difference += each.x[k] * weights_[k];
      for (std::size_t k = 0; k < features; ++k) gradient()[k] += difference * each.x[k];
      gradient()[features] += difference * difference;
    }
  }
  /// Begins to sum the gradients and errors of all ranks.
  verbena::steps<void> sum() {
    return group_.in_steps().all_reduce<double>(verbena::sink(memory_), std::plus<>(),
                                                examples::time_limit());
  }
  void update() {
    const auto count = static_cast<double>(group_.size() * samples_per_batch);
    for (std::size_t k = 0; k < features; ++k) weights_[k] -= rate * gradient()[k] / count;
    error_ = gradient()[features] / count;
  }

  [[nodiscard]] double error() const { return error_; }
  [[nodiscard]] const std::vector<double>& weights() const { return weights_; }

 private:
  std::span<double> gradient() {
    return {reinterpret_cast<double*>(memory_.bytes().data()), features + 1};
  }

  net::group& group_;
  verbena::memory_region memory_;  // the gradient, and the error behind it
  std::vector<double> weights_;
  double error_ = 0;
};

struct durations {
  seconds reads{};
  seconds sums{};
  seconds waits{};  // for both
  seconds all{};
};

/// Begins an operation, awaits it, and adds its duration.
template <class Begin>
async::task<void> timed(async::engine& engine, Begin begin, seconds& total) {
  const auto began = clock_type::now();
  const auto done = co_await engine.complete(begin());
  done.value();
  total += clock_type::now() - began;
}

async::task<void> train_in_turn(async::engine& engine, loader& from, trainer& model,
                                durations& took) {
  for (int step = 0; step < steps; ++step) {
    co_await timed(engine, [&] { return from.read(step); }, took.reads);
    model.compute(from.batch(step));
    co_await timed(engine, [&] { return model.sum(); }, took.sums);
    model.update();
  }
  took.waits = took.reads + took.sums;
}

// [overlap]
/// Reads the next batch while the gradients of this one are summed.
async::task<void> train_with_overlap(async::engine& engine, loader& from, trainer& model,
                                     durations& took) {
  co_await timed(engine, [&] { return from.read(0); }, took.reads);
  took.waits = took.reads;
  for (int step = 0; step < steps; ++step) {
    model.compute(from.batch(step));
    const auto began = clock_type::now();
    async::scope both;
    both.spawn(timed(engine, [&] { return model.sum(); }, took.sums));
    if (step + 1 < steps)
      both.spawn(timed(engine, [&] { return from.read(step + 1); }, took.reads));
    co_await both.join();
    took.waits += clock_type::now() - began;
    model.update();
  }
}
// [/overlap]

void print(const char* how, const durations& took) {
  const auto overlapped = std::max(took.reads + took.sums - took.waits, seconds(0));
  std::printf(
      "%s: %d steps in %5.1f ms; reads %5.1f ms + sums %5.1f ms, %5.1f ms (%2.0f %%) of them at "
      "the same time\n",
      how, steps, 1000 * took.all.count(), 1000 * took.reads.count(), 1000 * took.sums.count(),
      1000 * overlapped.count(),
      100 * overlapped.count() / std::min(took.reads.count(), took.sums.count()));
}

int run_rank() {
  auto self = examples::joined::from_environment({.hub = {.events = true}});
  auto& group = self.group;
  auto engine = async::engine::create(self.device).value();
  loader samples(self);
  std::vector<std::vector<double>> weights;
  double error = 0;
  const auto train = [&](const char* how, auto with) {
    trainer model(self);
    durations took;
    group.barrier(examples::time_limit()).value();
    const auto began = clock_type::now();
    engine.run(with(engine, samples, model, took));
    took.all = clock_type::now() - began;
    if (group.rank() == 0) print(how, took);
    weights.push_back(model.weights());
    error = model.error();
  };
  train("in turn     ", train_in_turn);
  train("with overlap", train_with_overlap);
  double distance = 0;
  for (std::size_t k = 0; k < features; ++k)
    distance = std::max(distance, std::abs(weights[1][k] - truth(k)));
  const bool is_equal = weights[0] == weights[1];
  if (group.rank() == 0)
    std::printf(
        "%u ranks, error %.6f; weights differ from the true ones by at most %.4f, and are "
        "%s in both runs\n",
        group.size(), error, distance, is_equal ? "equal" : "not equal");
  group.barrier(examples::time_limit()).value();  // others read the samples of this rank
  return is_equal && distance < 0.05 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return examples::run_ranks(argc, argv, run_rank); }
