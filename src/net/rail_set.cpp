// SPDX-License-Identifier: MIT
#include "src/net/rail_set.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "src/base/earliest.hpp"
#include "src/base/relax.hpp"
#include "src/net/rail_checks.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

// How often the stream and the events of the devices are looked at.
constexpr std::chrono::milliseconds rail_tend_interval{1};
constexpr std::uint32_t rail_polls_per_clock_read = 64;
// Every device transfers this many bytes with one request.
constexpr std::uint32_t most_piece_bytes = 1U << 30U;

const ibv_context* context_of(const active_rail& which) {
  return which.port().domain.context().native();
}

}  // namespace

bool rail_set::is_any(bool (active_rail::*of)() const noexcept) const {
  return std::ranges::any_of(rails_, [of](const active_rail& each) { return (each.*of)(); });
}

bool rail_set::are_fenced() const noexcept {
  return std::ranges::all_of(rails_, &active_rail::is_fenced);
}

std::string rail_set::describe() const {
  std::string text;
  for (const active_rail& each : rails_) {
    if (!text.empty()) text += "; ";
    text += each.describe();
  }
  return text;
}

// An event concerns all rails of the context.
void rail_set::take(std::uint32_t rail, const async_event& event, rail_transfer* of) {
  const auto* const device = context_of(rails_[rail]);
  for (active_rail& each : rails_) {
    if (context_of(each) != device) continue;
    if (const auto why = each.take(event)) each.fail(*why, of, control_);
  }
}

void rail_set::read_events(rail_transfer* of) {
  if (with_.events) {
    with_.events->take(arrived_);
    for (const rail_event& each : arrived_) take(each.rail, each.event, of);
    arrived_.clear();
    return;
  }
  if (!with_.options.reads_async_events) return;
  for (std::uint32_t first = 0; first < size(); ++first) {
    const auto before = std::span(rails_).first(first);
    if (std::ranges::find(before, context_of(rails_[first]), context_of) != before.end()) continue;
    const auto context = rails_[first].port().domain.context();
    while (true) {
      const auto event = context.poll_event();
      if (!event || !*event) break;
      take(first, **event, of);
    }
  }
}

void rail_set::tend(clock::time_point now, rail_transfer* of) {
  next_tend_ = now + rail_tend_interval;
  read_events(of);
  // A peer that sends without a pause must not keep this thread.
  for (int count = 0; count < most_messages_in_turn; ++count) {
    const auto message = control_.poll();
    if (!message) break;
    active_rail& which = rails_[message->rail];
    if (const auto why = which.take(*message)) which.fail(*why, of, control_);
  }
  if (control_.failure() != nullptr) return;
  for (active_rail& each : rails_) each.advance(now, control_);
}

// Sleeps until a message of the peer, at most for the interval.
void rail_set::wait_for_peer(deadline until) {
  static_cast<void>(
      wait_for_fd(control_.fd(), POLLIN, verbena::detail::earliest(until, rail_tend_interval)));
  next_tend_ = {};
}

result<std::unique_ptr<rail_set>> rail_set::connect(bringup::stream control,
                                                    std::span<const rail_port> rails,
                                                    deadline until, setup with) {
  constexpr const char* call = "multi_rail_channel::connect";
  VERBENA_TRY_VOID(check_rails(call, rails));
  VERBENA_TRY_VOID(check_options(call, with.options));
  const auto count = static_cast<std::uint32_t>(rails.size());
  std::vector<active_rail> made;
  made.reserve(count);
  for (std::uint32_t each = 0; each < count; ++each) {
    VERBENA_TRY(auto rail, active_rail::create(each, rails[each], with.options));
    made.push_back(std::move(rail));
  }
  VERBENA_TRY_VOID(exchange_hellos(call, control, rail_role::active, count, until));
  auto out = std::make_unique<rail_set>(rail_control(std::move(control), count), std::move(made),
                                        std::move(with));
  VERBENA_TRY_VOID(out->become_active(until));
  return out;
}

result<void> rail_set::become_active(deadline until) {
  while (true) {
    tend(clock::now());
    if (const error* const why = failure()) return *why;
    if (!is_any(&active_rail::is_connecting) && is_any(&active_rail::is_active)) return {};
    if (until.expired()) {
      // Another rail is still being connected.
      if (is_any(&active_rail::is_active)) return {};
      return error::timed_out("multi_rail_channel::connect", control_.peer(),
                              "no rail could be connected: " + describe());
    }
    wait_for_peer(until);
  }
}

// Returns the active rail with room and the fewest bytes in flight; of equal ones, the next in
// turn.
active_rail* rail_set::choose() {
  active_rail* best = nullptr;
  std::uint32_t best_index = 0;
  for (std::uint32_t step = 0; step < rails_.size(); ++step) {
    const auto index = static_cast<std::uint32_t>((turn_ + step) % rails_.size());
    active_rail& each = rails_[index];
    if (!each.has_room()) continue;
    if (best != nullptr && best->bytes_in_flight() <= each.bytes_in_flight()) continue;
    best = &each;
    best_index = index;
  }
  if (best != nullptr) turn_ = best_index + 1;
  return best;
}

void rail_set::assign(rail_transfer& to) {
  while (to.has_more()) {
    active_rail* const on = choose();
    if (on == nullptr || !on->post(to, to.take())) return;
  }
}

// Returns whether there was a completion.
bool rail_set::poll(rail_transfer& of) {
  const std::uint64_t before = of.done_bytes();
  for (active_rail& each : rails_) {
    if (each.has_pieces_in_flight())
      if (const auto why = each.poll(&of)) each.fail(*why, &of, control_);
    if (each.has_lost_pieces() && each.is_fenced() && !of.refused()) each.repeat_lost(of);
  }
  return of.done_bytes() != before;
}

void rail_set::abandon(rail_transfer& what) {
  const auto why = failure() == nullptr ? rail_cause::deadline : rail_cause::stream;
  // All rails flush at the same time: the time for a device that does not flush passes once.
  for (active_rail& each : rails_)
    if (each.has_pieces_in_flight()) each.begin_to_flush();
  const auto flushed = deadline::after(active_rail::time_for_flush);
  for (active_rail& each : rails_)
    if (each.has_pieces_in_flight()) each.fail(why, &what, control_, flushed);
}

result<void> rail_set::check(const char* call, const rail_transfer::parts& what) const {
  const rail_memory& memory = what.local.memory();
  if (memory.rails() != size() || what.remote.rails() != size())
    return error::invalid_argument(
        call, control_.peer(),
        fmt::format("the connection has {} rails, the local memory {}, the remote region {}; "
                    "register both with the rails of the connection",
                    size(), memory.rails(), what.remote.rails()));
  for (const active_rail& each : rails_)
    if (memory.region(each.index()).native()->pd != each.port().domain.native())
      return error::invalid_argument(
          call, control_.peer(),
          fmt::format("the memory of rail {} is registered in another protection domain; pass "
                      "the same ports to rail_memory and to connect()",
                      each.index()));
  if (what.local.length() > what.remote.length())
    return error::invalid_argument(call, control_.peer(),
                                   fmt::format("{} bytes exceed the remote region of {} bytes",
                                               what.local.length(), what.remote.length()));
  return {};
}

rail_result rail_set::conclude(const char* call, const rail_transfer& what) {
  if (what.is_complete()) return {};
  const bool has_effect = what.done_bytes() != 0 || what.has_repeated() ||
                          is_any(&active_rail::has_lost_pieces) || what.may_have_effect();
  const auto how = what.direction() == rail_direction::write && has_effect ? delivery::unknown
                                                                           : delivery::not_done;
  const std::string progress =
      fmt::format("{} of {} bytes are confirmed; ", what.done_bytes(), what.bytes());
  if (what.refused()) return {how, what.refused()->error().with_diagnosis(progress + describe())};
  if (const error* const why = failure())
    return {how, error(why->kind(), why->code(), call, control_.peer(),
                       "the stream of the peer ended, so that failed rails cannot be fenced (" +
                           why->message() + "); " + progress + describe())};
  return {how, error::timed_out(call, control_.peer(), progress + describe())};
}

// Ends the use of the memory of an operation, also if an exception leaves run().
class rail_set::operation_guard {
 public:
  explicit operation_guard(std::vector<active_rail>& rails) noexcept : rails_(rails) {}
  operation_guard(const operation_guard&) = delete;
  operation_guard& operator=(const operation_guard&) = delete;
  ~operation_guard() {
    for (active_rail& each : rails_) {
      if (!has_ended_) each.disconnect();
      each.forget_lost();
    }
  }
  // No pieces are in flight.
  void end() noexcept { has_ended_ = true; }

 private:
  std::vector<active_rail>& rails_;
  bool has_ended_ = false;
};

rail_result rail_set::run(const char* call, const rail_transfer::parts& what, deadline until) {
  if (auto checked = check(call, what); !checked)
    return {delivery::not_done, std::move(checked).error()};
  // Before the first piece is posted: a port may have gone down since the last operation.
  auto begun = clock::now();
  if (begun >= next_tend_) {
    tend(begun);
    begun = clock::now();
  }
  if (begun >= until.when())
    return {delivery::not_done, error::timed_out(call, control_.peer(),
                                                 "the deadline had passed before the operation "
                                                 "began; " +
                                                     describe())};
  const std::uint64_t bytes = what.local.length();
  rail_transfer transfer(
      what,
      bytes >= with_.options.stripe_threshold
          ? std::min(with_.options.piece_bytes, most_piece_bytes)
          : static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, most_piece_bytes)),
      again_);
  operation_guard guard(rails_);
  bool has_begun = false;
  for (std::uint32_t idle = 0;;) {
    // Requests of earlier operations must not take effect after this one.
    has_begun = has_begun || are_fenced();
    if (has_begun && failure() == nullptr) assign(transfer);
    const bool is_working = poll(transfer);
    const bool is_over = transfer.is_complete() || transfer.refused();
    if (is_over && !is_any(&active_rail::has_pieces_in_flight)) break;
    if (is_working || ++idle % rail_polls_per_clock_read == 0) {
      auto now = clock::now();
      if (now >= next_tend_) {
        tend(now, &transfer);
        now = clock::now();
      }
      if (failure() != nullptr || now >= until.when()) {
        abandon(transfer);
        break;
      }
    }
    if (is_working) continue;
    if (is_any(&active_rail::has_pieces_in_flight)) {
      verbena::detail::relax();
    } else if (!is_any(&active_rail::is_active) || !has_begun) {
      wait_for_peer(until);
      idle = rail_polls_per_clock_read - 1;  // looks at the clock at once
    }
  }
  guard.end();
  return conclude(call, transfer);
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
