// SPDX-License-Identifier: MIT
// Opening and closing a link, its peers' table, receiving and sleeping. Pairing and everything else
// that sockets bring is in link_service.cpp and link_pairing.cpp.
#include "softdev/peers/link.hpp"

#include <pthread.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "softdev/peers/link_service.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/random.hpp"

namespace verbena::softdev {

namespace {
/// The open links of the process, for the handler that runs in a child of fork. A process has one;
/// programs that open more than fit lose only that their children keep descriptors open.
std::array<std::atomic<link*>, 16> open_links;

void leave_links_in_child() {
  for (auto& each : open_links) {
    if (link* left = each.load(std::memory_order_relaxed)) left->abandon_after_fork();
  }
}

void remember(link& opened) {
  static const int installed = ::pthread_atfork(nullptr, nullptr, leave_links_in_child);
  static_cast<void>(installed);
  for (auto& place : open_links) {
    link* empty = nullptr;
    if (place.compare_exchange_strong(empty, &opened)) return;
  }
}

void forget(link& closed) {
  for (auto& place : open_links) {
    link* here = &closed;
    if (place.compare_exchange_strong(here, nullptr)) return;
  }
}
}  // namespace

result<std::unique_ptr<link>> link::open(const link_options& options) {
  const bool sound = std::has_single_bit(options.ring_bytes) &&
                     options.ring_bytes >= min_ring_bytes && options.ring_bytes <= max_ring_bytes;
  if (!sound) {
    return error::invalid_argument("link::open", "soft0",
                                   "the ring's size is a power of two from 16 KiB to 16 MiB");
  }
  VERBENA_TRY(slot_claim claim, slot_claim::take());
  std::unique_ptr<link> opened(new link(options, std::move(claim)));
  VERBENA_TRY_VOID(opened->set_up());
  return opened;
}

link::link(const link_options& options, slot_claim claim)
    : options_(options), claim_(std::move(claim)), generation_(random_u64()) {
  probe_words_[0] = random_u64();
  receiving_.reserve(slot_count);
}

result<void> link::set_up() {
  VERBENA_TRY(segment_, public_segment::create(slot(), generation_));
  VERBENA_TRY(doorbell_, create_sealed("verbena-doorbell", segment_page, sealed_for::everybody));
  VERBENA_TRY(wake_, wake_receiver::create());
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return error::from_errno(errno, "epoll_create1");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag_of(event_source::listener, 0);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, claim_.fd(), &event) != 0) {
    return error::from_errno(errno, "epoll_ctl");
  }
  remember(*this);
  return {};
}

link::~link() {
  VERBENA_ASSERT(usable(), "a link is destroyed by the process that opened it");
  forget(*this);
  claim_.close();
  for (const auto& each : all_peers()) each->die(peer_end::exited);
}

void link::abandon_after_fork() noexcept {
  // Only this thread exists now. Mutexes may be held by threads that do not; nothing is locked,
  // freed or unmapped (shared mappings were not inherited).
  claim_.close();
  epoll_.reset();
  wake_->close_all();
  doorbell_.fd.reset();
  groups_name_.reset();
  for (const auto& each : table_) {
    if (!each) continue;
    each->socket_.reset();
    each->wake_.reset();
    each->own_wake_.reset();
    each->watch_ = process_watch();
    each->own_pair_fd_.reset();
  }
}

std::shared_ptr<peer> link::connect(std::uint32_t slot) {
  VERBENA_ASSERT(slot < slot_count, "a slot is less than 1024");
  if (slot == this->slot()) {
    auto myself = make_peer(slot);
    myself->die(peer_end::nobody_there);
    return myself;
  }
  const std::lock_guard lock(table_mutex_);
  table_entry entry = find_or_make(slot);
  if (entry.is_new) {
    to_connect_.push_back(entry.of);
    request_service();
  }
  return std::move(entry.of);
}

std::shared_ptr<peer> link::make_peer(std::uint32_t other) const {
  return std::shared_ptr<peer>(new peer(other, slot(), options_.route));
}

link::table_entry link::find_or_make(std::uint32_t other) {
  auto& place = table_[other];
  if (place && place->state() != peer_state::dead) return {place, false};
  if (place) {
    ignore_wakes(*place);
    departed_.push_back(std::move(place));
  }
  place = make_peer(other);
  return {place, true};
}

std::shared_ptr<peer> link::find(std::uint32_t slot) const {
  if (slot >= slot_count) return nullptr;
  const std::lock_guard lock(table_mutex_);
  const auto& place = table_[slot];
  return place && place->state() != peer_state::dead ? place : nullptr;
}

std::vector<std::shared_ptr<peer>> link::all_peers() const {
  const std::lock_guard lock(table_mutex_);
  std::vector<std::shared_ptr<peer>> all;
  for (const auto& each : table_) {
    if (each) all.push_back(each);
  }
  all.insert(all.end(), departed_.begin(), departed_.end());
  return all;
}

void link::end_batch(peer& from) {
  if (!from.consumer_.publish_position()) return;
  if (from.their_pair().wants_space.load(std::memory_order_seq_cst) == 0) return;
  if ((from.segment_.header().sleeping.load(std::memory_order_seq_cst) & 1U) != 0) {
    signal_wake_socket(from.wake_.get());
  }
}

void link::collect_doorbells() {
  auto& bells = *doorbell_.map.at<doorbell_page>(0);
  std::uint64_t words = bells.summary.load(std::memory_order_relaxed);
  if (words == 0) return;
  words = bells.summary.exchange(0, std::memory_order_seq_cst);
  for (; words != 0; words &= words - 1) {
    const auto word = static_cast<std::size_t>(std::countr_zero(words));
    if (word >= ready_.size()) return;
    ready_[word] |= bells.words[word].exchange(0, std::memory_order_seq_cst);
  }
}

void link::break_off(peer& from, std::atomic<std::uint64_t>& counter) {
  counter.fetch_add(1, std::memory_order_relaxed);
  from.die(peer_end::broken_protocol);
  some_died_.store(true, std::memory_order_release);
  request_service();
}

std::size_t link::lose_peers(std::optional<pid_t> pid) {
  std::size_t lost = 0;
  for (const auto& each : all_peers()) {
    if (each->state() != peer_state::paired || (pid && each->pid() != *pid)) continue;
    each->die(peer_end::exited);
    ++lost;
  }
  if (lost > 0) {
    some_died_.store(true, std::memory_order_release);
    request_service();
  }
  return lost;
}

bool link::published_by(peer& from) {
  if (from.state() != peer_state::paired) return false;
  if (from.full_at_.load(std::memory_order_acquire) != peer::no_position) {
    const std::uint64_t seen = from.their_pair().consumed_bytes.load(std::memory_order_seq_cst);
    if (seen != from.full_at_.load(std::memory_order_acquire) && seen != from.room_reported_) {
      from.room_reported_ = seen;  // once: whoever waited for room may be gone
      return true;
    }
  }
  const ring_status status = from.consumer_.check_announced();
  if (status == ring_status::corrupt) break_off(from, broken_records_);
  return status == ring_status::ok && from.consumer_.announced() > from.kept();
}

void link::forbid_in_handler() const {
  VERBENA_ASSERT(receiver_.load(std::memory_order_relaxed) != ::pthread_self(),
                 "a receive handler must not call service(), fence() or anything_published()");
}

bool link::anything_published() {
  forbid_in_handler();
  const std::lock_guard lock(receive_lock_);
  bool found = false;
  for (const auto& each : receiving_) found = published_by(*each) || found;
  if (found) scan_all_.store(true, std::memory_order_relaxed);
  return found;
}

void link::announce_sleep_unseen() noexcept {
  shared_u32& word = segment_->header().sleeping;
  word.store(word.load(std::memory_order_relaxed) | 1U, std::memory_order_seq_cst);
}

bool link::announce_sleep() {
  announce_sleep_unseen();
  if (!anything_published()) return true;
  announce_awake();
  return false;
}

void link::announce_awake() noexcept {
  shared_u32& word = segment_->header().sleeping;
  word.store((word.load(std::memory_order_relaxed) | 1U) + 1, std::memory_order_seq_cst);
}

void link::start_receiving(const std::shared_ptr<peer>& from) {
  const std::lock_guard lock(receive_lock_);
  receiving_.push_back(from);
  receiving_by_slot_[from->slot()] = from.get();
  ready_[from->slot() / 64] |= std::uint64_t{1} << (from->slot() % 64);
  if (receiving_.size() > options_.scan_limit) {
    // Who published before it could see this is found by one look at all.
    segment_->header().doorbells.store(1, std::memory_order_seq_cst);
    scan_all_.store(true, std::memory_order_relaxed);
  }
}

void link::stop_receiving(const std::shared_ptr<peer>& from) {
  const std::lock_guard lock(receive_lock_);
  if (std::erase(receiving_, from) == 0) return;
  peer*& place = receiving_by_slot_[from->slot()];
  if (place == from.get()) place = nullptr;  // it may be a successor's already
  first_ = 0;
  if (receiving_.size() <= options_.scan_limit) {
    segment_->header().doorbells.store(0, std::memory_order_seq_cst);
  }
}

link_counters link::counters() const noexcept {
  return {.broken_records = broken_records_.load(std::memory_order_relaxed),
          .broken_messages = broken_messages_.load(std::memory_order_relaxed),
          .refused_connections = refused_connections_.load(std::memory_order_relaxed),
          .peers_lost = peers_lost_.load(std::memory_order_relaxed)};
}

}  // namespace verbena::softdev
