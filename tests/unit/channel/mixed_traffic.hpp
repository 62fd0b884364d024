// SPDX-License-Identifier: MIT
// Operations of all types and levels, over a channel whose peer does the same.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "tests/unit/channel/channel_side.hpp"

namespace verbena::test {

/// Each side posts receives before it sends, so that neither waits without a limit.
class mixed_traffic {
 public:
  mixed_traffic(channel_side& between, std::uint32_t seed) : between_(between), random_(seed) {}

  /// The time limit of one operation.
  static deadline bound() { return deadline::after(std::chrono::seconds(5)); }

  /// Executes some operations; returns the first failure, if any.
  [[nodiscard]] std::optional<operation_result> step() {
    if (auto failed = take_messages()) return failed;
    channel& over = between_.over;
    const std::size_t at = 4096 + random_() % 64 * 8;
    const auto there = between_.theirs.slice(random_() % 64 * 8, 8);
    const memory_region& mine = between_.region;
    switch (random_() % 7) {
      case 0:
        return failure(over.write(source(mine, at, 8), there, abort_at(bound())));
      case 1:
        return failure(over.read(sink(mine, at, 8), there, abort_at(bound())));
      case 2:
        return failure(over.fetch_and_add(sink(mine, at, 8), there, 1, abort_at(bound())));
      case 3:
        return failure(over.send(source(mine, at, 8), abort_at(bound())));
      case 4:
        return in_a_scope(at, there);
      case 5:
        return keep(over.post_send(memory(), {.length = 8}));
      default: {
        auto dropped = over.post_write(memory(), there, {.length = 8});
        over.progress();
        if (over.first_unseen_failure() == nullptr) return std::nullopt;
        return *over.first_unseen_failure();
      }
    }
  }
  /// Destroys all handles.
  void end() {
    receives_.clear();
    sends_.clear();
  }

 private:
  static constexpr std::size_t receives_at_once = 4;
  static constexpr std::size_t sends_at_once = 4;

  static std::optional<operation_result> failure(const operation_result& of) {
    return of.has_value() ? std::nullopt : std::optional(of);
  }
  [[nodiscard]] buffer memory() const { return std::move(*between_.pool.take(256)); }

  [[nodiscard]] std::optional<operation_result> take_messages() {
    for (auto& each : receives_) {
      const operation_result* const came = each.poll();
      if (came == nullptr) continue;
      if (!came->has_value()) return *came;
      each = between_.over.post_receive(each.take_buffer());
    }
    while (receives_.size() < receives_at_once)
      receives_.push_back(between_.over.post_receive(memory()));
    return std::nullopt;
  }
  [[nodiscard]] std::optional<operation_result> keep(pending_operation sent) {
    sends_.push_back(std::move(sent));
    if (sends_.size() < sends_at_once) return std::nullopt;
    for (auto& each : sends_) {
      const operation_result* const done = each.wait(bound());
      if (done == nullptr) continue;
      if (!done->has_value()) return *done;
    }
    sends_.clear();
    return std::nullopt;
  }
  [[nodiscard]] std::optional<operation_result> in_a_scope(std::size_t at,
                                                           const remote_region& there) {
    const memory_region& mine = between_.region;
    const auto outcome = between_.over.scope(abort_at(bound()), [&](operation_scope& scope) {
      (void)scope.write(source(mine, at, 8), there);
      auto read = scope.read(sink(mine, at + 8, 8), there);
      (void)scope.compare_and_swap(sink(mine, at + 16, 8), there, {.expected = 0, .desired = 1});
      return read.wait();
    });
    if (!outcome.drained().empty()) return outcome.drained().front();
    return failure(*outcome.body());
  }

  channel_side& between_;
  std::mt19937 random_;
  std::vector<pending_operation> receives_;
  std::vector<pending_operation> sends_;
};

}  // namespace verbena::test
