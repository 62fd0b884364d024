// SPDX-License-Identifier: MIT
#include "softdev/peers/channel_signals.hpp"

#include <new>
#include <utility>

#include "softdev/ipc/wake_sockets.hpp"

namespace verbena::softdev {
namespace {

constexpr std::size_t channels_of_page = 64;
/// After this number of signals without an end, it is requested again: the peer may have lacked
/// memory or descriptors, or the answer may have lost its descriptor.
constexpr std::uint32_t signals_of_request = 64;
/// The most descriptors of one peer that are kept.
constexpr std::uint32_t most_channels = wake_channels::most_per_peer;

}  // namespace

/// The state of one of the peer's wake channels.
struct channel_signals::place {
  wake_channel_id id = 0;
  unique_fd fd;                     ///< empty until the answer arrives, and if the peer refused
  std::uint32_t since_request = 0;  ///< signals
};

channel_signals::channel_signals(peer_messages& messages)
    : messages_(messages),
      pages_(new std::unique_ptr<place[]>[wake_channels::capacity / channels_of_page]) {}

channel_signals::~channel_signals() = default;

bool channel_signals::signal(wake_channel_id channel) noexcept {
  if (channel == 0) return false;
  const std::lock_guard lock(mutex_);
  place* const known = place_of(channel);
  if (known == nullptr) return false;
  if (known->id == channel && known->fd) {
    signal_wake_socket(known->fd.get());
    return true;
  }
  if (known->id != channel || ++known->since_request >= signals_of_request) {
    if (messages_.try_send({.kind = message_kind::ask_channel, .id = channel})) {
      known->id = channel;
      known->since_request = 0;
      if (known->fd) --held_;
      known->fd.reset();
    }
  }
  messages_.wake();
  return false;
}

void channel_signals::take(wake_channel_id channel, unique_fd end) {
  const std::lock_guard lock(mutex_);
  place* const known = place_of(channel);
  if (known == nullptr || known->id != channel) return;  // another channel has the place now
  if (known->fd) --held_;
  if (held_ >= most_channels) end.reset();
  known->fd = std::move(end);
  if (!known->fd) return;
  ++held_;
  signal_wake_socket(known->fd.get());  // the signal for which the end was requested
}

void channel_signals::close_all() noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  for (std::size_t page = 0; page < wake_channels::capacity / channels_of_page; ++page) {
    if (!pages_[page]) continue;
    for (std::size_t index = 0; index < channels_of_page; ++index) pages_[page][index].fd.reset();
  }
}

/// Returns the place of a channel; nullptr if the number, which the peer chose, is not valid, or if
/// memory is exhausted.
channel_signals::place* channel_signals::place_of(wake_channel_id channel) noexcept {
  const std::uint32_t index = wake_channels::index_of(channel);
  if (index >= wake_channels::capacity) return nullptr;
  auto& page = pages_[index / channels_of_page];
  if (!page) page.reset(new (std::nothrow) place[channels_of_page]);
  return page ? &page[index % channels_of_page] : nullptr;
}

}  // namespace verbena::softdev
