// SPDX-License-Identifier: MIT
// Drives operations in steps on one thread.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"

namespace verbena::test {

/// An operation in steps, and its result when it has ended.
template <class T>
class driven {
 public:
  explicit driven(steps<T>&& of) : of_(std::move(of)) {}

  /// Calls progress() once. It must not block.
  void progress() {
    if (!of_) return;
    const auto before = std::chrono::steady_clock::now();
    outcome_ = of_->progress();
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(20)) << "it blocked";
    if (outcome_) of_.reset();
  }
  /// Destroys the operation if it has not ended.
  void destroy() { of_.reset(); }
  [[nodiscard]] bool has_ended() const { return outcome_.has_value(); }
  [[nodiscard]] result<T>& outcome() { return *outcome_; }
  [[nodiscard]] T take() { return std::move(*outcome_).value(); }
  /// Returns what to wait for.
  [[nodiscard]] pollfd awaited() const {
    return of_ ? pollfd{of_->fd(), of_->events(), 0} : pollfd{-1, 0, 0};
  }

 private:
  std::optional<steps<T>> of_;
  std::optional<result<T>> outcome_;
};

/// Calls progress() of both sides once and waits for at most 2 ms.
template <class A, class B>
void step(driven<A>& a, driven<B>& b) {
  a.progress();
  b.progress();
  std::array events{a.awaited(), b.awaited()};
  if (!a.has_ended() || !b.has_ended()) ::poll(events.data(), events.size(), 2);
}

/// Calls progress() of both sides until both have ended. Returns how often.
template <class A, class B>
int drive(driven<A>& a, driven<B>& b) {
  const auto until = deadline::after(std::chrono::seconds(60));
  int count = 0;
  for (; !a.has_ended() || !b.has_ended(); ++count) {
    step(a, b);
    if (!until.expired()) continue;
    ADD_FAILURE() << "the operations did not end";
    break;
  }
  return count;
}

/// Calls progress() until the operation has ended.
template <class A>
void drive(driven<A>& a) {
  const auto until = deadline::after(std::chrono::seconds(60));
  while (!a.has_ended()) {
    a.progress();
    auto event = a.awaited();
    if (!a.has_ended()) ::poll(&event, 1, 2);
    if (!until.expired()) continue;
    ADD_FAILURE() << "the operation did not end";
    break;
  }
}

}  // namespace verbena::test
