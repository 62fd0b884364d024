// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/wire_path.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "softdev/core/datagram.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/wire/socket/named_counters.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev::wire {
namespace {

/// How often the owner of the port looks for new processes while it receives continuously.
constexpr time_ns serve_interval = 1'000'000;
/// When to retry packets that wait for a lock or for room.
constexpr time_ns restless_ns = 50'000;
constexpr time_ns first_rejoin = 1'000'000;
constexpr time_ns later_rejoin = 100'000'000;
/// How long a new owner of the port keeps packets of processes that have not registered. The
/// clients of the previous owner usually register within a few milliseconds.
constexpr time_ns wait_for_clients = 100'000'000;
/// How long calls do not wait for the port, after one has waited in vain for another program.
constexpr time_ns without_wait = 10'000'000'000;
constexpr time_ns longest_exit_wait = 1'000'000'000;
constexpr time_ns exit_pause = 100'000;

const char* reason_of(authenticity what) noexcept {
  switch (what) {
    case authenticity::missing:
      return "they are not authenticated; set VERBENA_SOFTDEV_WIRE_KEY_FILE to the same key there, "
             "or unset it here";
    case authenticity::failed:
      return "their tag is wrong: that host has another key in VERBENA_SOFTDEV_WIRE_KEY_FILE, or "
             "its packets are forged";
    case authenticity::unexpected:
      return "they are authenticated; set VERBENA_SOFTDEV_WIRE_KEY_FILE to the same key here, or "
             "unset it there";
    case authenticity::genuine:
    case authenticity::replayed:
      break;  // not reported
  }
  return "";
}

}  // namespace

wire_path::wire_path(engine& home, port_share share, const wire_path_options& options)
    : home_(home),
      options_(options),
      packets_(home, options.process_slot, *this),
      share_(std::move(share)),
      intake_({options.process_slot, options.addresses}, share_, routes_, packets_) {
  if (options.faults.any()) intake_.inject(options.faults);
}

result<void> wire_path::connect(const queue_pair& which, const wire_route& route) {
  VERBENA_TRY_VOID(join());
  routes_.set(which.number(), route);
  wake();
  return {};
}

result<void> wire_path::open() {
  VERBENA_TRY_VOID(join());
  {
    const std::lock_guard lock(right_);
    intake_.listen();
  }
  wake();
  return {};
}

/// Opens the sockets. Waits for the answer of the owner of the port. After the end of an owner, its
/// clients have the socket until one of them is the new owner, so it also waits for the port. If
/// another program has the port, only one call waits, and the calls after it do not.
result<void> wire_path::join() {
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + options_.patience;
  while (true) {
    {
      const std::lock_guard lock(right_);
      auto role = open_with_right();
      if (role && *role != port_share::role::none) return {};
      const bool is_late = steady_clock::now() > end;
      if (!role && (!port_share::is_bound_elsewhere(role.error()) || !may_wait(is_late)))
        return std::move(role).error();
      if (is_late) {
        // With the right still held, because another thread may be about to get the role.
        error why = silence();
        share_.leave();  // the answer of the process would contain its socket, and keep the port
        return why;
      }
    }
    // lint: allow(sleep): there is not always an event: the owner can be between two system calls.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Returns whether a call may wait for a port that another program has. Precondition: the caller
/// holds the receive right.
bool wire_path::may_wait(bool is_late) {
  if (is_late) lost_port_.no_wait_until = home_.now() + without_wait;
  return home_.now() >= lost_port_.no_wait_until;
}

/// Precondition: the caller holds the receive right.
error wire_path::silence() const {
  const pid_t process = share_.asked_process();
  const std::string which = process != 0 ? " (pid " + std::to_string(process) + ")" : "";
  return error::from_errno(EAGAIN, "connect",
                           "UDP port " + std::to_string(share_.port()) + " of soft0",
                           "the process that owns the port" + which +
                               " does not answer: it is stopped (SIGSTOP, a debugger), or begins "
                               "or ends just now; continue or end it, or try again");
}

result<port_share::role> wire_path::open_sockets() {
  const std::lock_guard lock(right_);
  return open_with_right();
}

/// Precondition: the caller holds the receive right.
result<port_share::role> wire_path::open_with_right() {
  const wire_key* const key = options_.key ? &*options_.key : nullptr;
  if (key != nullptr && !intake_.verifies()) {
    // Done before this process can become the owner of the port: after an error it would not
    // forward.
    VERBENA_TRY(auto verifier, packet_verifier::open(*key));
    intake_.verify(std::move(verifier));
  }
  // Done before the sender is opened, because the sender binds any free port.
  VERBENA_TRY(const port_share::role role, share_port());
  if (role == port_share::role::none) return role;
  VERBENA_TRY_VOID(open_sender(key));
  due_.rejoin_at.store(never);
  lost_port_ = {};
  begun_.store(true, std::memory_order_release);
  return role;
}

/// Opens what the path needs besides its role. If this fails, gives up the role: `progress` does
/// not run, so this process would keep the port without forwarding packets to others.
result<void> wire_path::open_sender(const wire_key* key) {
  if (begun_.load(std::memory_order_relaxed)) return {};
  const auto give_up = [](port_share* which) { which->give_up(); };
  std::unique_ptr<port_share, decltype(give_up)> role(&share_, give_up);
  if (sender_ == nullptr) {
    VERBENA_TRY(sender_, packet_sender::open(share_.port(), key));
    sender_->watch(intake_.watcher());
  }
  // After the socket, because the page is empty if no descriptor is left.
  if (page_ == nullptr) page_ = std::make_unique<counter_page>();
  static_cast<void>(role.release());
  return {};
}

/// Precondition: the caller holds the receive right.
result<port_share::role> wire_path::share_port() {
  const bool had_role = share_.now() != port_share::role::none;
  VERBENA_TRY(const port_share::role role, share_.join());
  const bool had_owner = begun_.load(std::memory_order_relaxed) && !had_role;
  if (had_owner && role == port_share::role::owner)
    intake_.await_clients(home_.now() + wait_for_clients);
  return role;
}

bool wire_path::put(const queue_pair& from, const packet& what) noexcept {
  const nak_kind nak = nak_of(what);
  if (nak == nak_kind::not_ready) ++events_.rnr_naks_sent;
  if (nak == nak_kind::sequence) ++events_.sequence_naks_sent;
  const auto route = routes_.find(from.number());
  return !route || sender_->put({.source = route->own,
                                 .destination = route->peer,
                                 .interface = route->interface,
                                 .traffic_class = route->traffic_class,
                                 .reacts_to_congestion = from.transport() == transport::rc},
                                what);
}

bool wire_path::put_datagram(const datagram_route& by, const packet& what) noexcept {
  datagram_addresses ends{.source = by.source,
                          .destination = by.destination,
                          .traffic_class = by.traffic_class,
                          .hop_limit = by.hop_limit};
  // An address handle does not contain the interface.
  const bool needs_interface =
      is_link_local(by.source) || is_link_local(by.destination) || is_multicast(by.destination);
  if (needs_interface && options_.addresses != nullptr)
    ends.interface = options_.addresses->interface_of(by.source);
  return sender_->put(ends, what);
}

void wire_path::end_run(queue_pair& /*sender*/) noexcept {
  if (!begun_.load(std::memory_order_acquire)) return;  // all datagrams were for this host
  // The receiving thread flushes at the end of `progress`.
  if (right_.is_mine()) return;
  if (packets_.has_postponed()) packets_.put_postponed();  // after the requests: they join a train
  const bool all = sender_->flush();
  if (!all) due_.needs_progress.store(true, std::memory_order_relaxed);
  if (!all || packets_.wants_to_transmit()) wake();
}

void wire_path::changed(queue_pair& which, bool gone) noexcept {
  packets_.changed(which, gone);
  if (gone) flush_if_open();
  if (gone || which.state() == queue_pair_state::reset) routes_.erase(which.number());
}

time_ns wire_path::next_deadline() const noexcept {
  const time_ns soon =
      due_.needs_progress.load(std::memory_order_relaxed) ? home_.now() + restless_ns : never;
  return std::min({packets_.next_deadline(), due_.rejoin_at.load(std::memory_order_relaxed),
                   due_.serve_at.load(std::memory_order_relaxed), soon});
}

bool wire_path::progress(ack_time acks) noexcept {
  if (!begun_.load(std::memory_order_acquire)) return false;
  std::unique_lock lock(right_, std::try_to_lock);
  if (!lock) {
    // The thread in `progress` may have completed the step that has work now.
    due_.needs_progress.store(true, std::memory_order_relaxed);
    return false;
  }
  due_.needs_progress.store(false, std::memory_order_relaxed);
  const time_ns now = home_.now();  // read once, to keep polls without packets short
  const bool served = serve(now);
  if (packets_.has_postponed()) acks = ack_time::at_once;
  const bool worked = receive(now, served);
  report_key_mismatch();
  if (sender_->take_signing_failure()) warn_of_signing();
  packets_.expire(now);  // after `receive`, which may have processed the awaited ACK
  packets_.transmit(acks);
  if (!sender_->flush() || packets_.wants_to_transmit())
    due_.needs_progress.store(true, std::memory_order_relaxed);
  // A sleeping thread waits for its old deadline, which is later.
  const time_ns serve_at = share_.serve_at();
  if (serve_at < due_.serve_at.exchange(serve_at, std::memory_order_relaxed)) wake();
  const std::string warning = std::exchange(upkeep_.warning, {});
  lock.unlock();  // the log hook may use the device
  if (!warning.empty()) log(log_level::warning, warning);
  return worked;
}

void wire_path::flush_before_exit() noexcept {
  if (!begun_.load(std::memory_order_acquire)) return;
  if (right_.is_mine()) return;  // a signal handler exits in `progress`
  for (time_ns waited = 0; waited < longest_exit_wait; waited += exit_pause) {
    if (const std::unique_lock lock(right_, std::try_to_lock); lock) {
      send_last();
      return;
    }
    // lint: allow(sleep): `progress` reports its end to no other thread.
    std::this_thread::sleep_for(std::chrono::nanoseconds(exit_pause));
  }
}

/// Sends the packets that are due, and forwards those that are for other processes of the host: if
/// this process owns the port, they pass through its socket. Gives up after some attempts, because
/// another thread can hold the lock of a queue pair, and a process for which packets are kept can
/// have ended.
void wire_path::send_last() noexcept {
  constexpr int most_attempts = 20;
  for (int i = 0; i < most_attempts; ++i) {
    packets_.transmit();
    const bool sent = sender_->flush() && !packets_.wants_to_transmit();
    const bool forwards =
        (share_.clients() != 0 || intake_.keeps_packets()) && receive(home_.now(), true);
    const bool keeps = intake_.keeps_packets();
    if (sent && !forwards && !keeps) return;
    const time_ns pause = keeps ? serve_interval : exit_pause;
    // lint: allow(sleep): there is no event at the end of such a lock.
    if (!sent || keeps) std::this_thread::sleep_for(std::chrono::nanoseconds(pause));
  }
}

/// Does periodic work: shares the port with new processes, and publishes counters. Returns whether
/// it did.
bool wire_path::serve(time_ns now) noexcept {
  if (due_.rejoin_at.load(std::memory_order_relaxed) <= now) rejoin(now);
  if (now < upkeep_.serve_at) return false;
  upkeep_.serve_at = now + serve_interval;
  page_->publish(name_counters(count_all()));
  share_.serve(now);
  return true;
}

/// Shares the port again after its owner has ended: this process or another one becomes the owner.
/// A new owner can be stopped and not answer for a long time. An error can end soon, too: without
/// the socket, this process cannot bind the port before a process that has the socket is the owner.
void wire_path::rejoin(time_ns now) noexcept {
  const auto patience = static_cast<time_ns>(std::chrono::nanoseconds(options_.patience).count());
  time_ns& pause = lost_port_.pause;
  time_ns again = later_rejoin;
  lost_port_.since = std::min(lost_port_.since, now);
  try {
    const auto joined = share_port();
    if (joined && *joined != port_share::role::none) {
      due_.rejoin_at.store(never, std::memory_order_relaxed);
      lost_port_ = {};
      wake();  // a sleeping thread must wait for the new source
      return;
    }
    again = pause = std::clamp(2 * pause, first_rejoin, later_rejoin);
    if (now - lost_port_.since > patience && !std::exchange(lost_port_.warned, true))
      warn("soft0 receives no packets of other hosts: " +
           (joined ? silence() : joined.error()).message());
  } catch (const std::bad_alloc&) {
  }
  due_.rejoin_at.store(now + again, std::memory_order_relaxed);
}

/// Logs why packets are dropped, and sends a notice to their sender.
void wire_path::report_key_mismatch() noexcept {
  const auto found = intake_.take_mismatch();
  if (!found) return;
  if (!found->is_notice)
    sender_->put_message(
        {.own = found->ends.destination,
         .peer = found->ends.source,
         .interface = scope_of(found->ends.destination, found->ends.source, found->ends.interface)},
        key_mismatch_notice);
  if (!found->is_new) return;
  try {
    warn("soft0: packets of " + to_text(found->ends.source) + " are dropped, because " +
         reason_of(found->what));
  } catch (const std::bad_alloc&) {
  }
}

void wire_path::warn_of_signing() noexcept {
  try {
    warn(
        "soft0: packets to other hosts are not sent, because libcrypto.so.3 cannot compute their "
        "tags; the counter send_auth_err contains their number; check the configuration of OpenSSL "
        "and start the program again");
  } catch (const std::bad_alloc&) {
  }
}

/// Appends a text to the next warning.
void wire_path::warn(const std::string& text) {
  if (!upkeep_.warning.empty()) upkeep_.warning += "; ";
  upkeep_.warning += text;
}

/// Returns whether packets arrived.
bool wire_path::receive(time_ns now, bool at_any_rate) noexcept {
  if (!at_any_rate && !awaits_packets()) return false;
  switch (intake_.receive(now)) {
    case packet_receiver::outcome::idle:
      return false;
    case packet_receiver::outcome::worked:
      return true;
    case packet_receiver::outcome::go_on:
      due_.needs_progress.store(true, std::memory_order_relaxed);
      return true;
    case packet_receiver::outcome::ended:
      break;
  }
  share_.leave();
  armed_.store(false, std::memory_order_relaxed);
  due_.rejoin_at.store(0, std::memory_order_relaxed);
  wake();
  return true;
}

/// Precondition: the caller holds the receive right.
bool wire_path::awaits_packets() const noexcept {
  return !routes_.empty() || intake_.listens() || share_.clients() != 0;
}

void wire_path::set_armed(bool wanted) noexcept {
  if (!begun_.load(std::memory_order_acquire) || armed_.load(std::memory_order_relaxed) == wanted)
    return;
  const std::lock_guard lock(right_);
  // Packets that `progress` does not receive must not end a sleep.
  share_.arm(wanted && awaits_packets());
  armed_.store(wanted, std::memory_order_relaxed);
}

wire_counters wire_path::counters() noexcept {
  const std::lock_guard lock(right_);
  return count_all();
}

/// Precondition: the caller holds the receive right.
wire_counters wire_path::count_all() noexcept {
  const auto of = [this](packet_event what) { return events_.of(what).load(); };
  wire_counters out{.intake = intake_.counters(),
                    .output = {},
                    .events = {.retransmitted = of(packet_event::retransmitted),
                               .timed_out = of(packet_event::timed_out),
                               .retries_exceeded = of(packet_event::retries_exceeded),
                               .rnr_naks_sent = events_.rnr_naks_sent.load(),
                               .sequence_naks_sent = events_.sequence_naks_sent.load(),
                               .cnps_sent = of(packet_event::notification_sent),
                               .cnps_handled = of(packet_event::notification_handled),
                               .cnps_ignored = of(packet_event::notification_ignored),
                               .selective_acks_sent = of(packet_event::selective_ack_sent),
                               .selective_acks_received = of(packet_event::selective_ack_received)},
                    .bad_pkeys = home_.port().bad_pkeys(),
                    .bad_qkeys = home_.port().bad_qkeys()};
  if (sender_ != nullptr) out.output = sender_->counters();
  return out;
}

/// Publishes the counters before a sleep, because `progress` does not run during the sleep.
void wire_path::publish_counters() noexcept {
  if (!begun_.load(std::memory_order_acquire)) return;
  const std::unique_lock lock(right_, std::try_to_lock);
  if (lock) page_->publish(name_counters(count_all()));
}

port_share::role wire_path::role() noexcept {
  const std::lock_guard lock(right_);
  return share_.now();
}

void wire_path::abandon_after_fork() noexcept {
  share_.close_own();
  if (sender_ != nullptr) sender_->close();
  if (page_ != nullptr) page_->close();
  if (right_.held_for_fork()) share_.close_clients();
  continue_after_fork();
}

}  // namespace verbena::softdev::wire
