// SPDX-License-Identifier: MIT
#include "softdev/peers/peer.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <initializer_list>
#include <new>

#include "softdev/core/access_epoch.hpp"
#include "softdev/ipc/wake_sockets.hpp"
#include "softdev/peers/slot_set.hpp"

namespace verbena::softdev {

namespace {
constexpr std::size_t channels_of_page = 64;
/// Descriptors that are kept of one peer.
constexpr std::uint32_t most_channels = wake_channels::most_per_peer;
constexpr std::size_t max_queued_messages = 4096;
}  // namespace

/// What is known about one of the peer's wake channels.
struct peer::channel_slot {
  wake_channel_id id = 0;
  unique_fd fd;  ///< none: it was refused, or the answer has not come
};

const char* describe(peer_end why) noexcept {
  switch (why) {
    case peer_end::none:
      return "it is alive";
    case peer_end::nobody_there:
      return "no process owns the slot";
    case peer_end::exited:
      return "the process exited or closed its device";
    case peer_end::other_user:
      return "the process belongs to another user, or the user namespace of this process does not "
             "map its user";
    case peer_end::other_version:
      return "the process uses another version of the software device";
    case peer_end::broken_protocol:
      return "the process wrote malformed data to shared memory or to its socket";
    case peer_end::out_of_resources:
      return "this process has no free descriptors or memory";
    case peer_end::too_many_links:
      return "the process is paired with this process as often as one process may be, or it stayed "
             "within accesses to this process's memory too often";
    case peer_end::stayed_inside:
      return "the process stayed within one access to this process's memory for seconds";
  }
  return "unknown";
}

void active_section::leave() noexcept {
  if (owner_ == nullptr) return;
  shared_u64& word = owner_->own_pair().lanes[lane_].word;
  word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  owner_->lane_locks_[lane_].unlock();
  owner_ = nullptr;
}

peer::peer(std::uint32_t slot, std::uint32_t own_slot, route_policy policy, peer_marks& marks)
    : slot_(slot),
      own_slot_(own_slot),
      policy_(policy),
      marks_(marks),
      channels_(new std::unique_ptr<channel_slot[]>[wake_channels::capacity / channels_of_page]) {}

peer::~peer() = default;

void peer::die(peer_end why) noexcept {
  peer_end none = peer_end::none;
  end_.compare_exchange_strong(none, why);
  state_.store(peer_state::dead, std::memory_order_release);
  if (socket_) ::shutdown(socket_.get(), SHUT_RDWR);
}

void peer::close_descriptors() noexcept {
  socket_.reset();
  watch_ = process_watch();
  own_pair_fd_.reset();
}

ring_producer::reservation peer::try_reserve(std::uint16_t type, std::uint32_t bytes,
                                             std::uint32_t spare) noexcept {
  auto reserved = producer_.try_reserve(type, bytes, spare);
  shared_u32& wants_space = own_pair().wants_space;
  if (reserved.status == ring_status::full) {
    // Say so, then look once more: room that came before the peer could see the word is found.
    wants_space.store(1, std::memory_order_seq_cst);
    reserved = producer_.try_reserve(type, bytes, spare);
    if (reserved.status == ring_status::full) {
      full_spare_ = std::max(full_spare_, spare);
      full_at_.store(producer_.consumed(), std::memory_order_release);
      marks_.full_rings.insert(slot_);
      return reserved;
    }
  }
  if (wants_space.load(std::memory_order_relaxed) != 0 && spare >= full_spare_) {
    wants_space.store(0, std::memory_order_relaxed);
    full_at_.store(no_position, std::memory_order_release);
    full_spare_ = 0;
  }
  return reserved;
}

bool peer::may_have_room() const noexcept {
  const std::uint64_t full_at = full_at_.load(std::memory_order_acquire);
  return full_at == no_position ||
         their_pair().consumed_bytes.load(std::memory_order_seq_cst) != full_at;
}

void peer::announce() noexcept {
  producer_.announce();
  const public_header& flags = segment_.header();
  if (flags.doorbells.load(std::memory_order_seq_cst) != 0) {
    auto& bells = *doorbell_.at<doorbell_page>(0);
    const std::uint32_t word = own_slot_ / 64;
    const std::uint64_t bit = std::uint64_t{1} << (own_slot_ % 64);
    if ((bells.words[word].load(std::memory_order_seq_cst) & bit) == 0) {
      bells.words[word].fetch_or(bit, std::memory_order_seq_cst);
      bells.summary.fetch_or(std::uint64_t{1} << word, std::memory_order_seq_cst);
    }
  }
  if (sleeper_.wanted(flags.sleeping.load(std::memory_order_seq_cst))) send_wake(socket_.get());
}

bool peer::signal_channel(wake_channel_id channel) noexcept {
  if (channel == 0) return false;
  const std::lock_guard lock(channel_mutex_);
  channel_slot* const known = place_of_channel(channel);
  if (known == nullptr) return false;
  if (known->id == channel && known->fd) {
    signal_wake_socket(known->fd.get());
    return true;
  }
  if (known->id != channel) {
    const link_message ask{.kind = message_kind::ask_channel, .id = channel};
    if (send_message(socket_.get(), ask, {}) == send_status::sent) {
      known->id = channel;
      if (known->fd) --channels_held_;
      known->fd.reset();
    }
  }
  send_wake(socket_.get());
  return false;
}

/// The place of a channel, which the peer numbered; nullptr if it is not a number of a channel, or
/// memory is missing.
peer::channel_slot* peer::place_of_channel(wake_channel_id channel) noexcept {
  const std::uint32_t index = wake_channels::index_of(channel);
  if (index >= wake_channels::capacity) return nullptr;
  auto& page = channels_[index / channels_of_page];
  if (!page) page.reset(new (std::nothrow) channel_slot[channels_of_page]);
  return page ? &page[index % channels_of_page] : nullptr;
}

active_section peer::enter() noexcept {
  // Each thread begins at a lane of its own, unless there are more threads than lanes. Lanes of
  // other threads last: taking one ends its ownership.
  const auto first = static_cast<std::uint32_t>(access_epoch::number_of_thread() % lane_count);
  for (const bool owned_too : {false, true}) {
    for (std::uint32_t step = 0; step < lane_count; ++step) {
      const std::uint32_t lane = (first + step) % lane_count;
      biased_lock& lock = lane_locks_[lane];
      if (lock.owned_by_other() != owned_too || !lock.try_lock()) continue;
      pair_header& pair = own_pair();
      const std::uint64_t bit = std::uint64_t{1} << lane;
      if ((pair.lanes_used.load(std::memory_order_relaxed) & bit) == 0)
        pair.lanes_used.fetch_or(bit, std::memory_order_seq_cst);
      shared_u64& word = pair.lanes[lane].word;
      word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
      return {*this, lane};
    }
  }
  return {};
}

peer::mapped peer::map(std::uint64_t arena, std::uint64_t offset, std::uint64_t bytes,
                       map_access access) noexcept {
  if (policy_ == route_policy::ring) return {};
  const auto found = arenas_.find(arena, offset, bytes, access);
  if (found.status != map_status::ask) return {found.status, found.address};
  if (!arenas_.mark_asked(arena)) return {};
  const link_message ask{.kind = message_kind::ask_arena, .id = arena};
  if (send_message(socket_.get(), ask, {}) != send_status::sent) {
    arenas_.forget(arena);
    marks_.retired_mappings.insert(slot_);
  }
  return {map_status::pending};
}

copy_outcome peer::read(std::span<const iovec> local, std::span<const iovec> remote) noexcept {
  if (!routes().read) return {copy_status::not_permitted, 0};
  const auto outcome = remote_read(pid_, local, remote);
  if (outcome.status == copy_status::not_permitted) cma_closed_ = true;
  return outcome;
}

copy_outcome peer::write(std::span<const iovec> local, std::span<const iovec> remote) noexcept {
  if (!routes().write) return {copy_status::not_permitted, 0};
  const auto outcome = remote_write(pid_, local, remote);
  if (outcome.status == copy_status::not_permitted) cma_closed_ = true;
  return outcome;
}

bool peer::post_message(const link_message& message, unique_fd descriptor) {
  if (outbox_.size() >= max_queued_messages) return false;
  outbox_.push_back({message, std::move(descriptor)});
  flush_messages();
  return true;
}

void peer::flush_messages() {
  std::size_t sent = 0;
  for (const queued_message& each : outbox_) {
    const int fd = each.descriptor.get();
    const std::span<const int> descriptors(&fd, each.descriptor ? 1 : 0);
    const send_status status = send_message(socket_.get(), each.message, descriptors);
    if (status == send_status::full) break;
    ++sent;  // closed: the peer is gone, nobody misses it
  }
  outbox_.erase(outbox_.begin(), outbox_.begin() + static_cast<std::ptrdiff_t>(sent));
}

bool peer::give_up_waiting() noexcept {
  if (gave_up_.exchange(true)) return false;
  die(peer_end::stayed_inside);
  return true;
}

bool peer::may_be_inside() const noexcept {
  if (their_map_.size() == 0 || end() == peer_end::broken_protocol) return false;
  bool inside = false;
  for_each_lane(their_lanes(), [&](std::uint32_t lane) {
    inside = inside || (their_lane(lane).load(std::memory_order_seq_cst) & 1U) != 0;
  });
  return inside && !is_gone();
}

bool peer::is_gone() const noexcept {
  return watch_.watchable() ? watch_.exited() : state() == peer_state::dead;
}

void peer::take_channel(wake_channel_id id, unique_fd fd) {
  const std::lock_guard lock(channel_mutex_);
  channel_slot* const known = place_of_channel(id);
  if (known == nullptr || known->id != id) return;  // forgotten meanwhile for another channel
  if (known->fd) --channels_held_;
  if (channels_held_ >= most_channels) fd.reset();
  known->fd = std::move(fd);
  if (!known->fd) return;
  ++channels_held_;
  signal_wake_socket(known->fd.get());  // what made us ask
}

}  // namespace verbena::softdev
