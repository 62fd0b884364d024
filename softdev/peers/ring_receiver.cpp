// SPDX-License-Identifier: MIT
#include "softdev/peers/ring_receiver.hpp"

namespace verbena::softdev {

using namespace std::chrono_literals;

namespace {
constexpr auto look_interval = 10ms;
}  // namespace

ring_receiver::ring_receiver(const options& how) : how_(how) { peers_.reserve(slot_count); }

void ring_receiver::collect_doorbells() {
  std::uint64_t words = how_.bells.summary.load(std::memory_order_seq_cst);
  if (words == 0) return;
  words = how_.bells.summary.exchange(0, std::memory_order_seq_cst);
  for (; words != 0; words &= words - 1) {
    const auto word = static_cast<std::size_t>(std::countr_zero(words));
    if (word >= ready_.size()) return;
    ready_[word] |= how_.bells.words[word].exchange(0, std::memory_order_seq_cst);
  }
}

bool ring_receiver::published_by(peer& from) {
  if (from.state() != peer_state::paired) return false;
  if (from.parts().sends.take_returned_room()) return true;
  const ring_status status = from.parts().receives.check_announced();
  if (status == ring_status::corrupt) how_.ends.end_for_record(from);
  return status == ring_status::ok;
}

void ring_receiver::forbid_in_handler() const {
  VERBENA_ASSERT(receiving_thread_.load(std::memory_order_relaxed) != ::pthread_self(),
                 "a receive handler must not call service(), fence() or announce_sleep()");
}

bool ring_receiver::published_by_any() {
  bool found = false;
  for (const auto& each : peers_) found = published_by(*each) || found;
  if (found) look_at_all();
  return found;
}

bool ring_receiver::anything_published(time_point now) {
  forbid_in_handler();
  const std::lock_guard held(lock_);
  if (!uses_doorbells() || now >= next_look_ || look_at_all_.load(std::memory_order_relaxed)) {
    next_look_ = now + look_interval;
    look_is_due_ = false;
    return published_by_any();
  }
  look_is_due_ = true;
  return published_by_some() || room_came_back();
}

/// Checks the peers that rang. Does not clear their bits in `ready_`.
bool ring_receiver::published_by_some() {
  collect_doorbells();
  bool found = false;
  for (std::size_t word = 0; word < ready_.size(); ++word) {
    for (std::uint64_t left = ready_[word]; left != 0; left &= left - 1) {
      peer* const from = by_slot_[word * 64 + static_cast<std::size_t>(std::countr_zero(left))];
      found = (from != nullptr && published_by(*from)) || found;
    }
  }
  return found;
}

bool ring_receiver::room_came_back() {
  bool found = false;
  how_.full_rings.drain([&](std::uint32_t slot) {
    peer* const to = by_slot_[slot];
    if (to == nullptr || !to->parts().sends.is_full()) return;
    how_.full_rings.insert(slot);
    found = published_by(*to) || found;
  });
  return found;
}

bool ring_receiver::is_drained(peer& from) {
  const std::lock_guard held(lock_);
  ring_record ignored;
  return from.parts().receives.peek(ignored) != ring_status::ok;
}

void ring_receiver::start(const std::shared_ptr<peer>& from) {
  const std::lock_guard held(lock_);
  peers_.push_back(from);
  by_slot_[from->slot()] = from.get();
  ready_[from->slot() / 64] |= std::uint64_t{1} << (from->slot() % 64);
  if (uses_doorbells()) {
    // A peer may publish before it sees this word: one look at all rings finds its records.
    how_.header.doorbells.store(1, std::memory_order_seq_cst);
    look_at_all();
  }
}

void ring_receiver::stop(const std::shared_ptr<peer>& from) {
  const std::lock_guard held(lock_);
  if (std::erase(peers_, from) == 0) return;
  peer*& place = by_slot_[from->slot()];
  if (place == from.get()) place = nullptr;  // a successor may have it already
  first_ = 0;
  if (!uses_doorbells()) how_.header.doorbells.store(0, std::memory_order_seq_cst);
}

}  // namespace verbena::softdev
