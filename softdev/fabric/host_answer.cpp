// SPDX-License-Identifier: MIT
// Answers. A success is not told at once but when another queue pair's answer or the end of the
// batch comes: the last of several successes tells them all. It is told before this process sends
// anything more, for it has to overtake what a program sends on seeing what came.
#include <mutex>

#include "softdev/core/queue_pair.hpp"
#include "softdev/fabric/host_path.hpp"

namespace verbena::softdev {
namespace {

using namespace host_records;

/// Room for two answers: one that waits to be told and the longest possible.
constexpr std::uint32_t answers_room = 2 * (sizeof(answer_header) + sizeof(failure_numbers)) + 64;

fragment_header address_of(const message& what) noexcept {
  return {what.source_qpn, what.destination_qpn, what.psn, what.attempt, 0};
}

bool push_answer(peer& to, const fragment_header& address, const response& outcome) noexcept {
  const auto lock = to.lock_sends();
  const auto record = to.try_reserve(type::answer, answer_bytes(outcome));
  if (record.status != ring_status::ok) return false;
  std::span<std::byte> room = record.payload;
  put_answer(room, address, outcome);
  to.commit();
  to.announce();
  return true;
}

}  // namespace

bool host_path::room_for_answer(peer& to) noexcept {
  // Only answers use this half of the ring, and only the thread that receives answers.
  if (to.has_room(answers_room)) return true;
  const auto lock = to.lock_sends();
  return to.try_reserve(type::answer, answers_room).status == ring_status::ok;
}

void host_path::answer(peer& to, const message& what, const response& outcome) noexcept {
  if (!is_reliable(what.transport)) return;
  flush_acknowledgement();
  if (!push_answer(to, address_of(what), outcome)) count(dropped_);
}

void host_path::acknowledge(const connection& by, const message& what) noexcept {
  const fragment_header next = address_of(what);
  const std::lock_guard lock(due_lock_);
  if (due_.is_due && (due_.header.destination_qpn != next.destination_qpn ||
                      due_.header.source_qpn != next.source_qpn))
    tell_due();
  due_.header = next;
  if (due_.to != by.to) due_.to = by.to;
  due_.is_due = true;
  some_due_.store(true, std::memory_order_release);
}

void host_path::flush_acknowledgement() noexcept {
  if (!some_due_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(due_lock_);
  tell_due();
}

/// Wants the lock of what is due.
void host_path::tell_due() noexcept {
  if (!due_.is_due) return;
  due_.is_due = false;
  if (due_.to->state() == peer_state::paired && !push_answer(*due_.to, due_.header, {}))
    count(dropped_);
  some_due_.store(false, std::memory_order_release);
}

/// Drops the reference to the process of a connection that ends.
void host_path::forget_acknowledged(const connection& gone) noexcept {
  const std::lock_guard lock(due_lock_);
  if (due_.to == nullptr || due_.to != gone.to) return;
  tell_due();
  due_.to.reset();
}

}  // namespace verbena::softdev
