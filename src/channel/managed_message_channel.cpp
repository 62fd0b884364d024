// SPDX-License-Identifier: MIT
// Connects message channels with the connection manager. The private data contains the terms.
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

// Starts the core with the queue pair. The core keeps the connection.
result<std::shared_ptr<cm::connection>> take_over(detail::message_core& core,
                                                  cm::connection&& connected) {
  auto kept = std::make_shared<cm::connection>(std::move(connected));
  core.keep(kept);
  VERBENA_TRY_VOID(core.start(kept->take_qp()));
  return kept;
}

}  // namespace

result<message_channel> prepared_message_channel::connect(cm::connector& peer, deadline until) && {
  return std::move(*this).connect_in_steps(peer, until).wait();
}

steps<message_channel> prepared_message_channel::connect_in_steps(cm::connector& peer,
                                                                  deadline until) && {
  return request(std::move(*this), peer, until);
}

steps<message_channel> prepared_message_channel::request(prepared_message_channel self,
                                                         cm::connector& peer, deadline until) {
  const auto ours = self.core_->terms().encode();
  detail::message_core* const core = self.core_.get();
  auto connecting = peer.connect_in_steps(
      std::move(self.queue_), {.private_data = ours, .first = cm::first_sender::passive}, until,
      [core](queue_pair<rc>& made) { return core->fill(made); });
  VERBENA_CO_TRY(auto connected, co_await std::move(connecting));
  VERBENA_CO_TRY(const auto kept, take_over(*core, std::move(connected)));
  VERBENA_CO_TRY(const auto theirs, terms_in(kept->peer_private_data()));
  VERBENA_CO_TRY_VOID(core->agree(theirs));
  co_return message_channel(std::move(self.core_));
}

result<message_channel> prepared_message_channel::accept(cm::connection_request&& request,
                                                         deadline until) && {
  return std::move(*this).accept_in_steps(std::move(request), until).wait();
}

steps<message_channel> prepared_message_channel::accept_in_steps(cm::connection_request&& request,
                                                                 deadline until) && {
  return answer(std::move(*this), std::move(request), until);
}

steps<message_channel> prepared_message_channel::answer(prepared_message_channel self,
                                                        cm::connection_request request,
                                                        deadline until) {
  auto taken = std::move(request);  // the destructor rejects the request
  VERBENA_CO_TRY(const auto theirs, terms_in(taken.private_data()));
  VERBENA_CO_TRY_VOID(self.core_->agree(theirs));
  const auto ours = self.core_->terms().encode();
  detail::message_core* const core = self.core_.get();
  auto accepting = std::move(taken).accept_in_steps(
      std::move(self.queue_), {.private_data = ours, .first = cm::first_sender::passive}, until,
      [core](queue_pair<rc>& made) { return core->fill(made); });
  VERBENA_CO_TRY(auto connected, co_await std::move(accepting));
  VERBENA_CO_TRY_DISCARD(take_over(*core, std::move(connected)));
  co_return message_channel(std::move(self.core_));
}

}  // namespace verbena::inline VERBENA_ABI
