// SPDX-License-Identifier: MIT
#include "src/net/responder_thread.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "src/base/call_or_else.hpp"
#include "src/base/quiet_thread.hpp"
#include "src/net/rail_checks.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

// How often the ports are queried: the program may have read the events.
constexpr int port_query_interval_ms = 100;

// Without an allocation. The end of the stream, with this object, ends the connection.
void log_exception() noexcept {
  log(log_level::warning,
      "an exception, for example of an allocation, ended a connection over rails");
}

}  // namespace

responder_thread::~responder_thread() {
  if (!is_started_) return;
  is_stopping_.store(true);
  static_cast<void>(::eventfd_write(parts_.wake.get(), 1));
  ::pthread_join(thread_, nullptr);
}

result<void> responder_thread::start() {
  const auto body = [](void* self) -> void* {
    static_cast<responder_thread*>(self)->run();
    return nullptr;
  };
  if (const int code = verbena::detail::start_quiet_thread(thread_, body, this, "verbena-rails");
      code != 0)
    return error::from_errno(code, "pthread_create", "rails");
  is_started_ = true;
  return {};
}

void responder_thread::add(std::unique_ptr<served_rails> peer) {
  {
    const std::lock_guard lock(mutex_);
    added_.push_back(std::move(peer));
  }
  static_cast<void>(::eventfd_write(parts_.wake.get(), 1));
}

void responder_thread::run() {
  serve_until_the_end();
  const std::lock_guard lock(mutex_);
  for (const auto& each : added_) each->end();
}

void responder_thread::serve_until_the_end() {
  while (true) {
    if (take_added() && served_.empty() && parts_.ends_with_peers) return;
    wait();
    if (is_stopping_.load()) return;
    read_events();
    serve_peers();
  }
}

// If an allocation fails, returns false, and the next round serves the rest.
bool responder_thread::take_added() {
  bool has_all = false;
  const auto take = [&] {
    const std::lock_guard lock(mutex_);
    for (; taken_ < added_.size(); ++taken_) served_.push_back(added_[taken_].get());
    has_all = true;
  };
  verbena::detail::call_or_else(take, [] {});
  return has_all;
}

void responder_thread::list_descriptors() {
  polled_.assign(1, {.fd = parts_.wake.get(), .events = POLLIN, .revents = 0});
  event_fds_.clear();
  if (parts_.events) parts_.events->append_fds(event_fds_);
  for (const int each : event_fds_) polled_.push_back({.fd = each, .events = POLLIN, .revents = 0});
  for (const auto* const each : served_)
    polled_.push_back({.fd = each->fd(), .events = POLLIN, .revents = 0});
}

// If an allocation fails, the list is not complete. The wait then ends after the interval, and the
// round serves all peers nevertheless.
void responder_thread::wait() {
  verbena::detail::call_or_else([this] { list_descriptors(); }, [] {});
  static_cast<void>(::poll(polled_.data(), polled_.size(), port_query_interval_ms));
  eventfd_t count = 0;
  if (!polled_.empty() && polled_.front().revents != 0 && !is_stopping_.load())
    static_cast<void>(::eventfd_read(parts_.wake.get(), &count));
}

// If an event cannot be copied, it is lost. The next query of the port, or a failed request, has
// the same effect.
void responder_thread::read_events() {
  if (parts_.events) verbena::detail::call_or_else([this] { parts_.events->read(); }, [] {});
}

// If the description of a failure cannot be allocated, the state of the port is the earlier one.
void responder_thread::query_ports() {
  const auto query = [this] {
    for (std::uint32_t rail = 0; rail < parts_.rails.size(); ++rail)
      active_[rail] = is_port_active(parts_.rails[rail]);
  };
  verbena::detail::call_or_else(query, [] {});
}

// Reports the present states of the ports: an event is only the occasion.
void responder_thread::serve_peers() {
  query_ports();
  for (auto* const each : served_) {
    const auto serve = [&] {
      each->report(active_);
      each->serve();
      if (const error* const why = each->failure()) {
        log(log_level::info, "a connection over rails ended: " + why->message());
        each->end();
      }
    };
    const auto end = [each] {
      log_exception();
      each->end();
    };
    verbena::detail::call_or_else(serve, end);
  }
  // A queue pair that cannot be ended stays, but its stream has ended.
  std::erase_if(served_, [](const served_rails* each) { return each->has_ended(); });
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
