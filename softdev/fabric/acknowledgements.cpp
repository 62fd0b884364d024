// SPDX-License-Identifier: MIT
#include "softdev/fabric/acknowledgements.hpp"

#include <mutex>

#include "softdev/fabric/connection.hpp"

namespace verbena::softdev {
namespace {

using namespace records;

fragment_header address_of(const message& what) noexcept {
  return {what.source_qpn, what.destination_qpn, what.psn, what.attempt, 0};
}

/// Puts an answer into the ring. The caller holds the lock of the sends and announces it.
bool put_record(peer& to, const fragment_header& address, const response& outcome) noexcept {
  const auto record = to.try_reserve(type::answer, answer_bytes(outcome));
  if (record.status != ring_status::ok) return false;
  std::span<std::byte> room = record.payload;
  put_answer(room, address, outcome);
  to.commit();
  return true;
}

/// Signals the completion channel of the queue pair `requester`, once per arming, if its send
/// completion queue is armed. Its acknowledgement, which ends at `end` in the ring, was announced
/// before. Returns false if the progress thread of the peer must be woken instead.
bool signal_requester(peer& to, std::uint32_t requester, std::uint64_t end) noexcept {
  const completion_queue_line* const line = to.segment().send_queue_of(requester);
  if (line == nullptr) return true;  // no thread sleeps until there is a completion
  const std::uint32_t word = line->arm.load(std::memory_order_seq_cst);
  if (arm_state_of(word) != arm_state::any) return true;
  const std::uint64_t mark = mark_of(*line, word);
  // If the peer has handled the earlier acknowledgement, it took its signal in vain.
  if (to.signalled_by_answer.load(std::memory_order_relaxed) == mark &&
      !to.has_handled(to.signalled_answer_end.load(std::memory_order_relaxed)))
    return true;
  const std::uint32_t channel = line->channel.load(std::memory_order_relaxed);
  if (channel == 0 || !to.signal_channel(channel)) return false;
  to.signalled_answer_end.store(end, std::memory_order_relaxed);
  to.signalled_by_answer.store(mark, std::memory_order_release);
  return true;
}

}  // namespace

bool send_answer(peer& to, const message& what, const response& outcome) noexcept {
  const auto lock = to.lock_sends();
  const bool sent = put_record(to, address_of(what), outcome);
  to.announce();
  return sent;
}

void acknowledgements::add(const std::shared_ptr<peer>& from, const message& what) noexcept {
  const std::lock_guard lock(lock_);
  const bool same_queue_pair =
      header_.destination_qpn == what.source_qpn && header_.source_qpn == what.destination_qpn;
  if (!same_queue_pair && is_due_.load(std::memory_order_relaxed)) {
    // If the new acknowledgement is for the same process, one announcement covers both.
    if (to_ == from)
      put_unannounced();
    else
      send();
  }
  if (!same_queue_pair) signaled_ = false;
  signaled_ |= what.signaled;
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
  if (to_->state() == peer_state::paired) send_to_paired(*to_);
  signaled_ = false;
  others_signaled_ = false;
  is_due_.store(false, std::memory_order_release);
}

/// Puts the acknowledgement that is due into the ring. send() announces it. The lock is held.
void acknowledgements::put_unannounced() noexcept {
  if (to_->state() != peer_state::paired) return;
  others_signaled_ |= signaled_;
  const auto lock = to_->lock_sends();
  count_lost(put_record(*to_, header_, {}));
}

/// Wakes the peer only if one of its threads may wait for the acknowledgement.
void acknowledgements::send_to_paired(peer& to) noexcept {
  auto lock = to.lock_sends();
  count_lost(put_record(to, header_, {}));
  if (others_signaled_) {
    to.announce();
    return;
  }
  if (to.announce(attention::at_check) || !signaled_) return;
  const std::uint64_t end = to.position();
  lock.unlock();
  if (signal_requester(to, header_.destination_qpn, end)) return;
  lock.lock();
  to.announce();
}

void acknowledgements::count_lost(bool sent) noexcept {
  if (!sent) lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace verbena::softdev
