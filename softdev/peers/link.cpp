// SPDX-License-Identifier: MIT
#include "softdev/peers/link.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <utility>

#include "verbena/base/assert.hpp"

namespace verbena::softdev {

namespace {
/// The open links of the process, for the handler that runs in a child of fork. A process usually
/// has one. If it opens more than fit here, its children keep the descriptors of the others open.
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
  VERBENA_TRY(auto own, own_side::open(options));
  std::unique_ptr<link> opened(new link(std::move(own)));
  VERBENA_TRY_VOID(opened->service_.open());
  remember(*opened);
  return opened;
}

link::link(std::unique_ptr<own_side> own)
    : own_(std::move(own)),
      groups_(own_->claim),
      peers_(*own_),
      receiver_({.scan_limit = own_->options.scan_limit,
                 .header = own_->segment->header(),
                 .bells = *own_->doorbell.map.at<doorbell_page>(0),
                 .full_rings = own_->marks->full_rings,
                 .ends = requests_}),
      sleeper_(own_->segment->header(), *own_->wakes, receiver_),
      service_({.own = *own_, .peers = peers_, .receiver = receiver_, .requests = requests_}),
      fence_({.peers = peers_,
              .segment = *own_->segment,
              .arenas = own_->arenas,
              .requests = requests_,
              .section_timeout = own_->options.section_timeout,
              .service = service_}) {}

link::~link() {
  VERBENA_ASSERT(usable(), "a link is destroyed by the process that opened it");
  forget(*this);
  own_->claim.close();
  for (const auto& each : peers_.all()) each->mark_ended(peer_end::exited);
}

void link::abandon_after_fork() noexcept {
  // Only this thread exists in the child. Threads that no longer exist may hold mutexes, so nothing
  // is locked, freed or unmapped (shared mappings were not inherited).
  own_->close_all();
  const bool idle = service_.close_all();
  peers_.close_all(idle);
}

std::shared_ptr<peer> link::connect(std::uint32_t slot) {
  VERBENA_ASSERT(slot < slot_count, "a slot is less than 3904");
  if (slot == this->slot()) {
    auto myself = own_->make_peer(slot);
    myself->mark_ended(peer_end::no_process);
    return myself;
  }
  peer_table::entry found = peers_.connect(slot);
  if (found.is_new) requests_.request();
  return std::move(found.of);
}

result<std::vector<std::shared_ptr<peer>>> link::meet_group_users() {
  VERBENA_TRY(const std::vector<std::uint32_t> slots, groups_.meet(peers_.slots_ever_used()));
  std::vector<std::shared_ptr<peer>> found;
  found.reserve(slots.size());
  for (const std::uint32_t other : slots) found.push_back(connect(other));
  return found;
}

std::size_t link::lose_peers(std::optional<pid_t> pid) {
  std::size_t lost = 0;
  for (const auto& each : peers_.all()) {
    if (each->state() != peer_state::paired || (pid && each->pid() != *pid)) continue;
    requests_.end(*each, peer_end::exited);
    ++lost;
  }
  if (lost > 0) requests_.request();
  return lost;
}

}  // namespace verbena::softdev
