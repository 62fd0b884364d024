// SPDX-License-Identifier: MIT
// Connecting message channels with the connection manager: the terms are private data.
#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "src/channel/message_core.hpp"
#include "verbena/channel/prepared_message_channel.hpp"
#include "verbena/cm/connector.hpp"
#include "verbena/cm/listener.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

// Transports pad private data with zeros.
result<message_terms> terms_in(std::span<const std::byte> said) {
  return message_terms::decode(said.first(std::min(said.size(), message_terms::encoded_size)));
}

// Starts the core with the queue pair and keeps the connection as long as the core.
std::shared_ptr<cm::connection> take_over(detail::message_core& core, cm::connection&& connected) {
  auto kept = std::make_shared<cm::connection>(std::move(connected));
  core.keep(kept);
  core.start(kept->take_qp());
  return kept;
}

}  // namespace

result<message_channel> prepared_message_channel::connect(cm::connector& peer, deadline until) && {
  prepared_message_channel self = std::move(*this);
  const auto ours = self.core_->terms().encode();
  VERBENA_TRY(auto connected,
              peer.connect(std::move(self.queue_),
                           {.private_data = ours, .first = cm::first_sender::passive}, until,
                           [&](queue_pair<rc>& made) { return self.core_->fill(made); }));
  const auto kept = take_over(*self.core_, std::move(connected));
  VERBENA_TRY(const auto theirs, terms_in(kept->peer_private_data()));
  VERBENA_TRY_VOID(self.core_->agree(theirs));
  return message_channel(std::move(self.core_));
}

result<message_channel> prepared_message_channel::accept(cm::connection_request&& request,
                                                         deadline until) && {
  prepared_message_channel self = std::move(*this);
  auto taken = std::move(request);  // its destructor rejects it
  VERBENA_TRY(const auto theirs, terms_in(taken.private_data()));
  VERBENA_TRY_VOID(self.core_->agree(theirs));
  const auto ours = self.core_->terms().encode();
  VERBENA_TRY(auto connected, std::move(taken).accept(
                                  std::move(self.queue_),
                                  {.private_data = ours, .first = cm::first_sender::passive}, until,
                                  [&](queue_pair<rc>& made) { return self.core_->fill(made); }));
  take_over(*self.core_, std::move(connected));
  return message_channel(std::move(self.core_));
}

}  // namespace verbena::inline VERBENA_ABI
