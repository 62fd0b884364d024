// SPDX-License-Identifier: MIT
// One attempt to connect or to find a datagram service: the calls of both programs, and the oracle
// that checks their events.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "softdev/cm/event.hpp"
#include "softdev/cm/manager_options.hpp"
#include "tests/unit/softdev/cm/simulation/host.hpp"
#include "tests/unit/softdev/random_source.hpp"

namespace verbena::softdev::cm::simulation {

using std::chrono::milliseconds;

/// The reaction of a program to a request or a reply.
enum class reaction : std::uint8_t { accept, reject, destroy, ignore };

/// The steps of both programs.
enum class step : std::uint8_t {
  start,        ///< active: connect
  answer,       ///< passive: react to the request
  confirm,      ///< active: react to the reply
  give_up,      ///< active: destroy the endpoint
  end_active,   ///< disconnect or destroy
  end_passive,  ///< disconnect or destroy
};

/// The reactions and the times of both programs. Threads: value.
struct attempt_plan {
  std::size_t from = 0;  ///< the active host
  bool is_sidr = false;
  time_point start_at;
  reaction to_request = reaction::accept;
  reaction to_reply = reaction::accept;
  milliseconds answer_after{};
  milliseconds confirm_after{};
  milliseconds give_up_after = milliseconds::max();  ///< after the start; max(): never
  /// After the confirmation; max(): never.
  std::array<milliseconds, 2> end_after{milliseconds::max(), milliseconds::max()};
  std::array<bool, 2> destroys{};  ///< whether the side destroys its endpoint instead
};

/// The queue pair numbers of a host. A number is used again when no message with it can be in
/// flight. Threads: one thread at a time.
class queue_pair_numbers {
 public:
  [[nodiscard]] std::uint32_t take() {
    std::uint32_t number = 2;
    while (free_at_[number] > now) ++number;
    free_at_[number] = time_point::max();
    return number;
  }
  void give_back(std::uint32_t number) { free_at_[number] = now + longest_flight; }

 private:
  static constexpr std::chrono::seconds longest_flight{3};

  std::map<std::uint32_t, time_point> free_at_;
};

/// The host of one side of an attempt. Threads: value.
struct place {
  host* at = nullptr;
  queue_pair_numbers* numbers = nullptr;
};

/// Returns a plan that begins at most two seconds after `now`.
[[nodiscard]] attempt_plan choose_plan(random_source& random);

/// Threads: one thread at a time.
class attempt {
 public:
  /// `is_reliable`: each message arrives if it is repeated.
  attempt(std::uint32_t number, const attempt_plan& plan, const std::array<place, 2>& hosts,
          bool is_reliable) noexcept
      : number_(number), plan_(plan), hosts_(hosts), is_reliable_(is_reliable) {}

  [[nodiscard]] const attempt_plan& plan() const noexcept { return plan_; }
  /// Performs a step of a program. A step that is no longer possible has no effect.
  void perform(step what);
  /// Returns whether an endpoint belongs to this attempt.
  [[nodiscard]] bool has(const endpoint_ptr& which) const noexcept {
    return which != nullptr && (which == ends_[0].self || which == ends_[1].self);
  }
  /// Checks a connect_request event, and takes its endpoint.
  void request_arrived(const event& what);
  /// Checks any other event about an endpoint of this attempt.
  void judge(const event& what);
  /// Checks that nothing is missing, and destroys the endpoints. Call it at the end.
  void judge_end();
  /// Returns the first violation, or an empty string.
  [[nodiscard]] const std::string& violation() const noexcept { return violation_; }
  [[nodiscard]] bool was_established() const noexcept { return ends_[1].established; }

  /// Returns the number of the attempt that sent a request.
  [[nodiscard]] static std::uint32_t number_in(const private_data& data) noexcept;

 private:
  static constexpr std::size_t active = 0;
  static constexpr std::size_t passive = 1;

  struct side_state {
    endpoint_ptr self;
    std::uint32_t queue_pair = 0;
    bool responded = false;    ///< active: has the reply; passive: has answered
    bool established = false;  ///< active: has confirmed; passive: has the event
    bool disconnected = false;
    bool left_timewait = false;
    bool ended = false;      ///< rejected, unreachable, or complete
    bool stale = false;      ///< rejected: the peer has an older connection of the queue pair
    bool leaves = false;     ///< has called disconnect()
    bool destroyed = false;  ///< has destroyed its endpoint
  };

  [[nodiscard]] const place& place_of(std::size_t side) const noexcept {
    return hosts_.at(side == active ? plan_.from : 1 - plan_.from);
  }
  [[nodiscard]] manager& manager_of(std::size_t side) const noexcept {
    return place_of(side).at->all();
  }
  [[nodiscard]] private_data data_of(frame_kind kind) const noexcept;
  [[nodiscard]] bool carries(const event& what, frame_kind kind) const noexcept;
  [[nodiscard]] side create_queue_pair(std::size_t side);
  void finish(std::size_t side);
  void start();
  void answer();
  void confirm();
  void end(std::size_t side);
  void destroy(std::size_t side);
  void judge_active(const event& what);
  void judge_passive(const event& what);
  void judge_both(const event& what, std::size_t side);
  [[nodiscard]] bool may_be_rejected(std::size_t side) const noexcept;
  void require(bool condition, const char* what);

  const std::uint32_t number_;
  const attempt_plan plan_;
  const std::array<place, 2> hosts_;
  const bool is_reliable_;
  std::array<side_state, 2> ends_;
  std::string violation_;
};

}  // namespace verbena::softdev::cm::simulation
