// SPDX-License-Identifier: MIT
#include "src/net/active_rail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "src/net/channel_access.hpp"
#include "src/net/rail_checks.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

// How often the port of a rail that is not active is queried: the program may have read the event.
constexpr std::chrono::milliseconds query_interval{20};
// The least pause after a failure.
constexpr std::chrono::milliseconds shortest_pause{5};

channel_options options_of(const rail_port& port, const rail_options& options) {
  return {.queues = {.max_send_wr = options.pieces_in_flight, .max_recv_wr = 1},
          .route = port.route,
          .reliability = options.reliability};
}

// Returns whether the failure belongs to the operation, not to the rail: another rail would fail as
// well.
bool is_of_operation(const operation_result& failed) noexcept {
  using status = completion_status;
  if (failed.completion() == nullptr) return false;
  switch (failed.completion()->status()) {
    case status::remote_invalid_request:
    case status::remote_access_error:
    case status::remote_operation_error:
    case status::local_length_error:
    case status::local_protection_error:
    case status::local_access_error:
      return true;
    default:
      return false;
  }
}

}  // namespace

active_rail::active_rail(std::uint32_t index, const rail_port& port, const rail_options& options,
                         completion_hub hub)
    : index_(index),
      port_(port),
      options_(options),
      hub_(std::move(hub)),
      slots_(options.pieces_in_flight) {
  for (std::uint32_t tag = options.pieces_in_flight; tag-- > 0;) free_.push_back(tag);
  lost_.reserve(options.pieces_in_flight);
  status_.state = rail_state::held_down;
  health_.own_port = is_port_active(port);
  health_.next_query = clock::now() + query_interval;
}

result<active_rail> active_rail::create(std::uint32_t index, const rail_port& port,
                                        const rail_options& options) {
  VERBENA_TRY(auto hub,
              completion_hub::create(port.domain.context(), options.pieces_in_flight + 1));
  return active_rail(index, port, options, std::move(hub));
}

bool active_rail::post(rail_transfer& of, const rail_piece& piece) {
  const std::uint32_t tag = free_.back();
  const remote_region remote = of.remote(index_, piece);
  std::optional<operation_result> refused;
  if (of.direction() == rail_direction::write) {
    refused = channel_->start_write(tag, of.local_source(index_, piece), remote);
  } else {
    const sink into = of.local_sink(index_, piece);
    refused = channel_->start_read(tag, std::span(&into, 1), remote);
  }
  if (refused) {
    of.refuse(*refused);
    return false;
  }
  free_.pop_back();
  slots_[tag] = piece;
  bytes_in_flight_ += piece.bytes;
  return true;
}

// `of` is nullptr if no operation is in progress. Returns whether the rail must fail.
std::optional<rail_cause> active_rail::settle(const completed_operation& ended, rail_transfer* of) {
  const auto tag = static_cast<std::uint32_t>(ended.tag);
  const rail_piece piece = slots_[tag];
  free_.push_back(tag);
  bytes_in_flight_ -= piece.bytes;
  if (ended.result.has_value()) {
    ++status_.counters.pieces;
    (of->direction() == rail_direction::write ? status_.counters.bytes_written
                                              : status_.counters.bytes_read) += piece.bytes;
    of->succeed(piece);
    health_.has_carried = true;
    return std::nullopt;
  }
  if (is_of_operation(ended.result)) {
    has_refused_ = true;
    last_error_ = ended.result.error();
    of->refuse(ended.result);
    return rail_cause::operation;
  }
  ++status_.counters.lost_pieces;
  lost_.push_back(piece);
  const auto* const done = ended.result.completion();
  if (done == nullptr || done->status() != completion_status::flushed)
    last_error_ = ended.result.error();
  // An operation without a completion ended because the completion queue cannot be polled.
  return done == nullptr ? rail_cause::device : rail_cause::operation;
}

std::optional<rail_cause> active_rail::poll(rail_transfer* of) {
  std::array<completed_operation, 16> ended;
  std::optional<rail_cause> failed;
  while (has_pieces_in_flight()) {
    const auto count = hub_.next_completed(ended);
    if (!count) {
      last_error_ = count.error();
      return rail_cause::device;
    }
    for (const auto& each : std::span(ended).first(*count))
      if (const auto why = settle(each, of)) failed = why;
    if (*count < ended.size()) break;
  }
  // The completions before the failure of the queue were successes. The failure destroyed the queue
  // pair.
  if (channel_ && channel_->qp() == nullptr) return rail_cause::device;
  return failed;
}

std::chrono::nanoseconds active_rail::pause() const noexcept {
  return std::max<std::chrono::nanoseconds>(options_.hold_down, shortest_pause);
}

void active_rail::rest(std::chrono::nanoseconds hold_down) noexcept {
  const bool has_ports = health_.own_port && health_.peer_port;
  status_.state = has_ports ? rail_state::held_down : rail_state::down;
  health_.since = clock::now();
  health_.next_query = health_.since;
  health_.hold_down = hold_down;
}

void active_rail::begin_to_flush() noexcept {
  if (channel_) channel_access::core_of(*channel_).begin_abort();
}

void active_rail::fail(rail_cause why, rail_transfer* of, rail_control& peer, deadline flushed) {
  const bool was_active = is_active();
  status_.cause = health_.own_port || why == rail_cause::device ? why : rail_cause::port_error;
  prepared_.reset();
  if (channel_) {
    // Afterwards all pieces have results. Those of flushed pieces are not the cause.
    const auto cause = last_error_;
    channel_access::core_of(*channel_).flush(flushed);
    static_cast<void>(poll(of));
    if (why != rail_cause::device) last_error_ = cause;
    channel_.reset();
  }
  // A failure of the operation says nothing about the rail, nor does a deadline if the rail works.
  const bool is_healthy = (why == rail_cause::deadline && health_.has_carried) ||
                          (has_refused_ && why == rail_cause::operation);
  rest(is_healthy ? std::chrono::nanoseconds(0) : pause());
  if (!was_active) return;
  require_fence();
  ask_for_fence(peer);
}

void active_rail::require_fence() noexcept {
  ++status_.counters.failures;
  health_.fenced = false;
  health_.must_ask = true;
}

// If an allocation fails, advance() asks again.
void active_rail::ask_for_fence(rail_control& peer) {
  if (!health_.must_ask) return;
  peer.send({.kind = rail_message_kind::fence, .rail = index_, .generation = health_.generation});
  health_.must_ask = false;
}

void active_rail::disconnect() noexcept {
  if (!channel_) return;
  channel_.reset();
  status_.counters.lost_pieces += slots_.size() - free_.size();
  free_.clear();
  for (std::uint32_t tag = options_.pieces_in_flight; tag-- > 0;) free_.push_back(tag);
  bytes_in_flight_ = 0;
  has_failed_queue_ = true;  // it may have results of the operation
  status_.cause = rail_cause::operation;
  last_error_ = error(error_kind::os, ENOMEM, "multi_rail_channel", {},
                      "an exception, for example of an allocation, ended an operation");
  rest(std::chrono::nanoseconds(0));
  require_fence();
}

void active_rail::repeat_lost(rail_transfer& of) {
  for (const rail_piece& each : lost_) of.repeat(each);
  lost_.clear();
}

std::optional<rail_cause> active_rail::note_port(bool& which, bool up, rail_cause why) {
  if (which == up) return std::nullopt;
  which = up;
  if (!up) ++status_.counters.port_errors;
  if (is_active() || is_connecting()) {
    if (up) return std::nullopt;
    return why;
  }
  // A port that has just become active begins the hold-down.
  rest(options_.hold_down);
  if (!up && status_.cause != rail_cause::port_error) status_.cause = why;
  return std::nullopt;
}

std::optional<rail_cause> active_rail::take(const async_event& event) {
  if (event.kind() == async_event_kind::device_fatal) {
    static_cast<void>(note_port(health_.own_port, false, rail_cause::device));
    return rail_cause::device;
  }
  if (event.concerns(hub_.cq())) {  // IBV_EVENT_CQ_ERR
    has_failed_queue_ = true;
    return rail_cause::device;
  }
  if (event.port() != port_.route.port) return std::nullopt;
  if (event.kind() == async_event_kind::port_error)
    return note_port(health_.own_port, false, rail_cause::port_error);
  if (event.kind() == async_event_kind::port_active)
    return note_port(health_.own_port, true, rail_cause::port_error);
  return std::nullopt;
}

std::optional<rail_cause> active_rail::take(const rail_message& message) {
  if (message.kind == rail_message_kind::port)
    return note_port(health_.peer_port, message.generation != 0, rail_cause::peer_port_error);
  // Answers to earlier connections are late.
  if (message.generation != health_.generation) return std::nullopt;
  switch (message.kind) {
    case rail_message_kind::fenced:
      health_.fenced = true;
      break;
    case rail_message_kind::refused:
      if (is_connecting())
        miss(error::unavailable(0, "multi_rail_channel::connect", {}, message.reason));
      break;
    case rail_message_kind::connected:
      if (is_connecting()) finish_to_connect(message);
      break;
    default:
      break;  // those of the active side
  }
  return std::nullopt;
}

void active_rail::advance(clock::time_point now, rail_control& peer) {
  ask_for_fence(peer);
  if (is_active() || is_connecting()) return;
  if (now >= health_.next_query) {
    static_cast<void>(note_port(health_.own_port, is_port_active(port_), rail_cause::port_error));
    health_.next_query = now + query_interval;
  }
  if (status_.state == rail_state::held_down && health_.fenced &&
      now - health_.since >= health_.hold_down)
    begin_to_connect(peer);
}

// Replaces the completion queue if it cannot be polled.
result<prepared_channel> active_rail::prepare_channel() {
  if (has_failed_queue_ || !hub_.progress()) {
    VERBENA_TRY(hub_,
                completion_hub::create(port_.domain.context(), options_.pieces_in_flight + 1));
    has_failed_queue_ = false;
  }
  return port_.domain.create_channel(hub_, options_of(port_, options_));
}

void active_rail::begin_to_connect(rail_control& peer) {
  ++health_.generation;
  auto made = prepare_channel();
  if (!made) return miss(std::move(made).error());
  peer.send({.kind = rail_message_kind::connect,
             .rail = index_,
             .generation = health_.generation,
             .endpoint = made->endpoint()});
  prepared_.emplace(*std::move(made));
  status_.state = rail_state::connecting;  // last: an allocation may fail before
}

void active_rail::finish_to_connect(const rail_message& answer) {
  rest(pause());  // the state if an allocation fails
  auto connected = std::move(*prepared_).handshake(*answer.endpoint);
  prepared_.reset();
  if (!connected) return miss(std::move(connected).error());
  channel_.emplace(*std::move(connected));
  status_.state = rail_state::active;
  health_.has_carried = false;
  has_refused_ = false;
  last_error_.reset();
  ++status_.counters.connections;
}

// The queue pairs could not be connected.
void active_rail::miss(error why) {
  prepared_.reset();
  status_.cause = rail_cause::connection;
  last_error_ = std::move(why);
  rest(pause());
}

std::string active_rail::describe() const {
  std::string text = fmt::format("rail {} (port {} of {}): {}, {}", index_,
                                 port_.route.port.value(), port_.domain.context().name(),
                                 to_string(status_.state), to_string(status_.cause));
  const bool has_reason = status_.cause == rail_cause::operation ||
                          status_.cause == rail_cause::connection ||
                          status_.cause == rail_cause::device;
  if (has_reason && last_error_) text += " (" + last_error_->message() + ")";
  return text;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
