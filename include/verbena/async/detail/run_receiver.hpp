// SPDX-License-Identifier: MIT
// The receiver of async::engine::run().
#pragma once

#include <atomic>
#include <exception>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "verbena/async/detail/engine_scheduler.hpp"
#include "verbena/async/execution.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI::async::detail {

/// The result of a sender that engine::run() runs. Threads: one thread at a time, the thread of the
/// engine; the receiver is called by any thread.
template <class Sender>
class run_outcome {
  using values = execution::single_value_t<execution::detail::decayed_tuple, Sender, engine_env>;

 public:
  explicit run_outcome(engine_state& on) noexcept : on_(on) {}

  class receiver_type {
   public:
    using receiver_concept = execution::receiver_t;

    explicit receiver_type(run_outcome& of) noexcept : of_(&of) {}
    [[nodiscard]] engine_env get_env() const noexcept { return engine_env(of_->on_); }
    template <class... Values>
      requires std::is_constructible_v<values, Values...>
    void set_value(Values&&... each) && noexcept {
      // The copy of a value may throw.
      of_->exception_ = execution::detail::exception_of(
          [&] { of_->values_.emplace(std::forward<Values>(each)...); });
      of_->end();
    }
    void set_error(std::exception_ptr why) && noexcept {
      of_->exception_ = std::move(why);
      of_->end();
    }
    void set_stopped() && noexcept { of_->end(); }

   private:
    run_outcome* of_;
  };
  [[nodiscard]] receiver_type receiver() noexcept { return receiver_type(*this); }
  [[nodiscard]] const std::atomic<bool>& has_ended() const noexcept { return ended_; }
  [[nodiscard]] std::optional<values> take() && {
#ifndef VERBENA_NO_EXCEPTIONS
    if (exception_) std::rethrow_exception(std::move(exception_));
#endif
    return std::move(values_);
  }

 private:
  // The object may be destroyed before this function returns.
  void end() noexcept { on_.end_run(ended_); }

  engine_state& on_;
  std::optional<values> values_;
  std::exception_ptr exception_;
  std::atomic<bool> ended_ = false;
};

}  // namespace verbena::inline VERBENA_ABI::async::detail
