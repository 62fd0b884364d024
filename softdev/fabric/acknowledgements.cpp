// SPDX-License-Identifier: MIT
#include "softdev/fabric/acknowledgements.hpp"

#include <mutex>

namespace verbena::softdev {
namespace {

using namespace records;

fragment_header address_of(const message& what) noexcept {
  return {what.source_qpn, what.destination_qpn, what.psn, what.attempt, 0};
}

enum class announcement : std::uint8_t { now, later };

bool send_record(peer& to, const fragment_header& address, const response& outcome,
                 announcement when = announcement::now) noexcept {
  const auto lock = to.lock_sends();
  const auto record = to.try_reserve(type::answer, answer_bytes(outcome));
  const bool fits = record.status == ring_status::ok;
  if (fits) {
    std::span<std::byte> room = record.payload;
    put_answer(room, address, outcome);
    to.commit();
  }
  if (when == announcement::now) to.announce();
  return fits;
}

/// Sends an acknowledgement that is due. The lock of the acknowledgements is held.
bool send_due(peer& to, const fragment_header& address, announcement when) noexcept {
  return to.state() != peer_state::paired || send_record(to, address, {}, when);
}

}  // namespace

bool send_answer(peer& to, const message& what, const response& outcome) noexcept {
  return send_record(to, address_of(what), outcome);
}

void acknowledgements::add(const std::shared_ptr<peer>& from, const message& what) noexcept {
  const std::lock_guard lock(lock_);
  const bool same_queue_pair =
      header_.destination_qpn == what.source_qpn && header_.source_qpn == what.destination_qpn;
  if (!same_queue_pair && is_due_.load(std::memory_order_relaxed)) {
    // If the new acknowledgement is for the same process, one announcement covers both.
    count_lost(send_due(*to_, header_, to_ == from ? announcement::later : announcement::now));
  }
  header_.destination_qpn = what.source_qpn;
  header_.source_qpn = what.destination_qpn;
  header_.psn = what.psn;
  header_.attempt = what.attempt;
  if (to_ != from) to_ = from;
  is_due_.store(true, std::memory_order_release);
}

void acknowledgements::flush_due() noexcept {
  const std::lock_guard lock(lock_);
  send();
}

void acknowledgements::forget(const std::shared_ptr<peer>& gone) noexcept {
  const std::lock_guard lock(lock_);
  if (to_ == nullptr || to_ != gone) return;
  send();
  to_.reset();
}

/// Sends the acknowledgement that is due, if any. The lock is held.
void acknowledgements::send() noexcept {
  if (!is_due_.load(std::memory_order_relaxed)) return;
  count_lost(send_due(*to_, header_, announcement::now));
  is_due_.store(false, std::memory_order_release);
}

void acknowledgements::count_lost(bool sent) noexcept {
  if (!sent) lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace verbena::softdev
