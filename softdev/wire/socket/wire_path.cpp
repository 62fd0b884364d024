// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/wire_path.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "softdev/core/datagram.hpp"
#include "softdev/core/queue_pair.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev::wire {
namespace {

/// How often the owner of the port looks for new processes while it receives all the time.
constexpr time_ns serve_interval = 1'000'000;
/// When to try again what waited for a lock or for room.
constexpr time_ns restless_ns = 50'000;
constexpr time_ns first_rejoin = 1'000'000;
constexpr time_ns later_rejoin = 100'000'000;

}  // namespace

wire_path::wire_path(engine& home, port_share share, const wire_path_options& options)
    : home_(home),
      observer_(options.observer),
      packets_(home, options.process_slot, *this),
      share_(std::move(share)),
      intake_({options.process_slot, options.addresses}, share_, routes_, packets_) {}

result<void> wire_path::connect(const queue_pair& which, const wire_route& route) {
  for (int attempt = 0;; ++attempt) {
    VERBENA_TRY(const port_share::role role, begin());
    if (role != port_share::role::none) break;
    constexpr int most = 100;
    if (attempt == most)
      return error::from_errno(
          EAGAIN, "connect", "UDP port " + std::to_string(share_.port()),
          "the process that owns the port of soft0 does not answer; end it, or "
          "try again");
    // lint: allow(sleep): there is no event: the owner is between two of its system calls.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  routes_.set(which.number(), route);
  wake();
  return {};
}

/// Opens the sockets.
result<port_share::role> wire_path::begin() {
  const std::lock_guard lock(receive_mutex_);
  // First, because the sender gets any port that is free.
  VERBENA_TRY(const port_share::role role, share_.join());
  if (role == port_share::role::none) return role;
  if (sender_ == nullptr) {
    VERBENA_TRY(sender_, packet_sender::open(share_.port()));
  }
  rejoin_at_.store(never);
  begun_.store(true, std::memory_order_release);
  return role;
}

void wire_path::put(const queue_pair& from, const packet& what) noexcept {
  if (const auto route = routes_.find(from.number())) sender_->put(route->own, route->peer, what);
}

void wire_path::put_datagram(const datagram_route& by, const packet& what) noexcept {
  sender_->put(by.source, by.destination, what);
}

void wire_path::end_run(queue_pair& /*sender*/) noexcept {
  if (!begun_.load(std::memory_order_acquire)) return;  // datagrams to this host
  // Whoever receives sends everything at the end.
  if (pthread_equal(receiving_.load(std::memory_order_relaxed), ::pthread_self()) != 0) return;
  const bool all = sender_->flush();
  if (!all) restless_.store(true, std::memory_order_relaxed);
  if (!all || packets_.wants_to_transmit()) wake();
}

void wire_path::changed(queue_pair& which, bool gone) noexcept {
  packets_.changed(which, gone);
  if (gone || which.state() == queue_pair_state::reset) routes_.erase(which.number());
}

time_ns wire_path::next_deadline() const noexcept {
  const time_ns soon =
      restless_.load(std::memory_order_relaxed) ? home_.now() + restless_ns : never;
  return std::min({packets_.next_deadline(), rejoin_at_.load(std::memory_order_relaxed), soon});
}

bool wire_path::progress() noexcept {
  if (!begun_.load(std::memory_order_acquire)) return false;
  std::unique_lock lock(receive_mutex_, std::try_to_lock);
  if (!lock) {
    // Who is inside may have passed what the caller came for.
    restless_.store(true, std::memory_order_relaxed);
    return false;
  }
  restless_.store(false, std::memory_order_relaxed);
  const bool served = serve();
  receiving_.store(::pthread_self(), std::memory_order_relaxed);
  const bool worked = receive(served);
  packets_.expire();  // afterwards: the acknowledgement may have been there
  packets_.transmit();
  receiving_.store(pthread_t{}, std::memory_order_relaxed);
  if (!sender_->flush() || packets_.wants_to_transmit())
    restless_.store(true, std::memory_order_relaxed);
  const std::string warning = std::exchange(lost_port_.warning, {});
  lock.unlock();  // the hook may use the device
  if (!warning.empty()) log(log_level::warning, warning);
  return worked;
}

/// What has to be done once in a while: processes that come and go.
bool wire_path::serve() noexcept {
  const time_ns now = home_.now();
  if (rejoin_at_.load(std::memory_order_relaxed) <= now) rejoin();
  if (now < serve_at_) return false;
  serve_at_ = now + serve_interval;
  share_.serve();
  return true;
}

/// The owner of the port ended: this process or another one becomes the owner.
void wire_path::rejoin() noexcept {
  time_ns again = later_rejoin;
  try {
    const auto joined = share_.join();
    if (!joined) {
      if (!std::exchange(lost_port_.told, true)) lost_port_.warning = joined.error().message();
    } else if (*joined != port_share::role::none) {
      rejoin_at_.store(never, std::memory_order_relaxed);
      lost_port_.told = false;
      wake();  // a sleep is to wait for the new source
      return;
    } else {
      again = first_rejoin;
    }
  } catch (const std::bad_alloc&) {
  }
  rejoin_at_.store(home_.now() + again, std::memory_order_relaxed);
}

/// Returns whether something came.
bool wire_path::receive(bool at_any_rate) noexcept {
  if (!at_any_rate && routes_.empty() && share_.clients() == 0) return false;
  switch (intake_.receive(home_.now())) {
    case packet_intake::outcome::idle:
      return false;
    case packet_intake::outcome::worked:
      return true;
    case packet_intake::outcome::go_on:
      restless_.store(true, std::memory_order_relaxed);
      return true;
    case packet_intake::outcome::ended:
      break;
  }
  share_.leave();
  armed_.store(false, std::memory_order_relaxed);
  rejoin_at_.store(0, std::memory_order_relaxed);
  wake();
  return true;
}

void wire_path::set_armed(bool wanted) noexcept {
  if (!begun_.load(std::memory_order_acquire) || armed_.load(std::memory_order_relaxed) == wanted)
    return;
  const std::lock_guard lock(receive_mutex_);
  share_.arm(wanted);
  armed_.store(wanted, std::memory_order_relaxed);
}

wire_counters wire_path::counters() noexcept {
  const std::lock_guard lock(receive_mutex_);
  wire_counters out{.intake = intake_.counters(), .output = {}};
  if (sender_ != nullptr) out.output = sender_->counters();
  return out;
}

port_share::role wire_path::role() noexcept {
  const std::lock_guard lock(receive_mutex_);
  return share_.now();
}

void wire_path::abandon_after_fork() noexcept {
  share_.close_all();
  if (sender_ != nullptr) sender_->close();
}

}  // namespace verbena::softdev::wire
