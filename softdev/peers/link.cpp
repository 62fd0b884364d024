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
    : options_(options),
      claim_(std::move(claim)),
      generation_(random_u64()),
      peers_({.make = [this](std::uint32_t other) { return make_peer(other); },
              .forget = [this](const peer& dead) { ignore_wakes(dead); }}) {
  probe_words_[0] = random_u64();
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
  receiver_ = std::make_unique<ring_receiver>(
      ring_receiver::options{.scan_limit = options_.scan_limit,
                             .header = segment_->header(),
                             .bells = *doorbell_.map.at<doorbell_page>(0),
                             .ends = requests_});
  fence_ = std::make_unique<section_fence>(
      section_fence::options{.peers = peers_,
                             .segment = *segment_,
                             .arenas = arenas_,
                             .requests = requests_,
                             .section_timeout = options_.section_timeout,
                             .finish_hellos = [this] { finish_hellos(); }});
  remember(*this);
  return {};
}

link::~link() {
  VERBENA_ASSERT(usable(), "a link is destroyed by the process that opened it");
  forget(*this);
  claim_.close();
  for (const auto& each : peers_.all()) each->die(peer_end::exited);
}

void link::abandon_after_fork() noexcept {
  // Only this thread exists now. Mutexes may be held by threads that do not; nothing is locked,
  // freed or unmapped (shared mappings were not inherited).
  claim_.close();
  epoll_.reset();
  wake_->close_all();
  doorbell_.fd.reset();
  groups_name_.reset();
  peers_.close_all();
}

std::shared_ptr<peer> link::connect(std::uint32_t slot) {
  VERBENA_ASSERT(slot < slot_count, "a slot is less than 1024");
  if (slot == this->slot()) {
    auto myself = make_peer(slot);
    myself->die(peer_end::nobody_there);
    return myself;
  }
  peer_table::entry found = peers_.connect(slot);
  if (found.is_new) request_service();
  return std::move(found.of);
}

std::shared_ptr<peer> link::make_peer(std::uint32_t other) const {
  return std::shared_ptr<peer>(new peer(other, slot(), options_.route));
}

std::size_t link::lose_peers(std::optional<pid_t> pid) {
  std::size_t lost = 0;
  for (const auto& each : peers_.all()) {
    if (each->state() != peer_state::paired || (pid && each->pid() != *pid)) continue;
    each->die(peer_end::exited);
    ++lost;
  }
  if (lost > 0) requests_.request_burial();
  return lost;
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

}  // namespace verbena::softdev
