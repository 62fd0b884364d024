// SPDX-License-Identifier: MIT
// The scheduler of an engine.
#pragma once

#include <utility>

#include "verbena/async/detail/engine_state.hpp"
#include "verbena/async/execution.hpp"

namespace verbena::inline VERBENA_ABI::async::detail {

class schedule_sender;

/// See async::engine::get_scheduler(). Threads: thread-safe value.
class engine_scheduler {
 public:
  using scheduler_concept = execution::scheduler_t;

  explicit engine_scheduler(engine_state& of) noexcept : of_(&of) {}
  /// Returns a sender that completes on the thread of the engine.
  [[nodiscard]] schedule_sender schedule() const noexcept;
  friend bool operator==(engine_scheduler, engine_scheduler) noexcept = default;

 private:
  friend class schedule_sender;
  engine_state* of_;
};

/// The environment of senders that complete on the thread of an engine. Threads: immutable value.
class engine_env {
 public:
  explicit engine_env(engine_state& of) noexcept : on_(of) {}
  [[nodiscard]] engine_scheduler query(
      execution::get_completion_scheduler_t<execution::set_value_t> /*which*/) const noexcept {
    return on_;
  }
  [[nodiscard]] engine_scheduler query(
      execution::get_completion_scheduler_t<execution::set_stopped_t> /*which*/) const noexcept {
    return on_;
  }
  /// Returns the scheduler for work that a receiver with this environment starts.
  [[nodiscard]] engine_scheduler query(execution::get_scheduler_t /*which*/) const noexcept {
    return on_;
  }

 private:
  engine_scheduler on_;
};

/// The operation state of schedule(). Threads: thread-bound to the engine, except start().
template <class Receiver>
class schedule_state : private entry {
 public:
  using operation_state_concept = execution::operation_state_t;

  schedule_state(engine_state& on, Receiver to) noexcept : on_(on), to_(std::move(to)) {}
  schedule_state(const schedule_state&) = delete;
  schedule_state& operator=(const schedule_state&) = delete;
  ~schedule_state() {
    if (is_entered_) on_.leave(*this);
  }

  void start() noexcept {
    resume = [](entry& self) noexcept {
      auto& mine = static_cast<schedule_state&>(self);
      mine.is_entered_ = false;
      if (execution::get_stop_token(execution::get_env(mine.to_)).stop_requested())
        execution::set_stopped(std::move(mine.to_));
      else
        execution::set_value(std::move(mine.to_));
    };
    is_entered_ = true;
    on_.enter(*this);
  }

 private:
  engine_state& on_;
  Receiver to_;
  bool is_entered_ = false;
};

/// See async::engine::get_scheduler(). Threads: immutable value.
class schedule_sender {
 public:
  using sender_concept = execution::sender_t;
  using completion_signatures =
      execution::completion_signatures<execution::set_value_t(), execution::set_stopped_t()>;

  explicit schedule_sender(engine_state& on) noexcept : on_(&on) {}
  [[nodiscard]] engine_env get_env() const noexcept { return engine_env(*on_); }
  template <execution::receiver_of<completion_signatures> Receiver>
  [[nodiscard]] schedule_state<Receiver> connect(Receiver to) const noexcept {
    return {*on_, std::move(to)};
  }

 private:
  engine_state* on_;
};

inline schedule_sender engine_scheduler::schedule() const noexcept { return schedule_sender(*of_); }

}  // namespace verbena::inline VERBENA_ABI::async::detail
