// SPDX-License-Identifier: MIT
// Creates and connects message channels.
#include "verbena/channel/prepared_message_channel.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/channel/connection_options.hpp"
#include "src/channel/message_core.hpp"
#include "src/verbs/iwarp.hpp"
#include "verbena/bringup/connect_queue_pair.hpp"
#include "verbena/channel/completion_hub.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

using detail::message_core;

// Leaves room in the pool for the receives for credits.
constexpr std::uint32_t most_buffers = buffer_pool::max_count - message_core::credit_receives;

error refused(const protection_domain& domain, const std::string& why) {
  return error::invalid_argument("message_channel::prepare", domain.name(), why);
}

// Checks the options and replaces zeros by defaults.
result<message_channel_options> effective_options(const protection_domain& domain,
                                                  message_channel_options options) {
  constexpr std::uint32_t most = 1U << 30U;
  if (options.queues.max_send_wr == 0 || options.queues.max_recv_wr == 0 ||
      options.queues.max_send_wr > most || options.queues.max_recv_wr > most)
    return refused(domain, "max_send_wr and max_recv_wr must be between 1 and 2^30");
  if (options.message_bytes == 0) return refused(domain, "message_bytes must be at least 1");
  if (options.receive_buffers == 0) options.receive_buffers = 2 * options.queues.max_recv_wr;
  if (options.receive_buffers < options.queues.max_recv_wr ||
      options.receive_buffers > most_buffers)
    return refused(domain, "receive_buffers must be 0, or at least max_recv_wr and at most " +
                               std::to_string(most_buffers));
  if (options.send_buffers == 0) options.send_buffers = options.queues.max_send_wr;
  return options;
}

result<buffer_pool> make_pool(const protection_domain& domain, std::uint32_t bytes,
                              std::uint32_t count) {
  return buffer_pool::create(domain, {.classes = {{.bytes = bytes, .count = count}}});
}

// Returns the options of the queue pair, including the requests of the channel itself.
channel_options connection_of(const message_channel_options& options, std::uint32_t inline_bytes,
                              std::uint32_t credit_receives) {
  return {.queues = {.max_send_wr = options.queues.max_send_wr + message_core::notice_places,
                     .max_recv_wr = options.queues.max_recv_wr + credit_receives,
                     .max_inline_data = inline_bytes},
          .access = options.access | access::remote_write,  // for the credit word
          .route = options.route,
          .first_psn = options.first_psn,
          .reliability = options.reliability};
}

result<prepared_queue_pair<rc>> make_queue(const protection_domain& domain,
                                           const message_core& core,
                                           const message_channel_options& options) {
  const auto make = [&](std::uint32_t inline_bytes) {
    return domain.create_qp<rc>(
        core.cq(), core.cq(),
        detail::queue_pair_options_of(
            connection_of(options, inline_bytes, core.terms().credit_receives), domain.context()));
  };
  if (options.inline_bytes != 0)
    if (auto made = make(options.inline_bytes)) return made;
  return make(0);
}

// Returns the number of receives for credits with immediate data, which wake a side that may sleep.
// Returns 0 if the side has no events or no credits, or on iWARP, which has no immediate data.
std::uint8_t credit_receives_of(const context& on, bool has_events,
                                const message_channel_options& options) {
  const bool wakes = has_events && options.credits != credits::off && !detail::is_iwarp(on);
  return wakes ? message_core::credit_receives : 0;
}

result<detail::slot_reservation> make_places(const context& on,
                                             const message_channel_options& options) {
  completion_queue_options queue;
  if (options.events) {
    VERBENA_TRY(queue.channel, on.create_completion_channel());
  }
  VERBENA_TRY(auto cq,
              on.create_cq(options.queues.max_send_wr + options.queues.max_recv_wr +
                               message_channel::own_operations + detail::first_requests(on),
                           queue));
  return detail::slot_reservation(
      std::make_shared<detail::operation_table>(std::move(cq), std::uint32_t{0}), 0);
}

result<detail::slot_reservation> reserve_places(
    const protection_domain& domain, const std::shared_ptr<detail::operation_table>& table,
    const message_channel_options& options) {
  const std::uint32_t wanted =
      options.queues.max_send_wr + options.queues.max_recv_wr + message_channel::own_operations;
  if (!table->reserve(wanted))
    return error::invalid_argument(
        "message_channel::prepare", domain.name(),
        "the completion hub has room for " + std::to_string(table->unreserved()) +
            " more operations in flight, and the channel needs " + std::to_string(wanted));
  return detail::slot_reservation(table, wanted);
}

result<detail::message_core_owner> make_core(const protection_domain& domain,
                                             detail::slot_reservation places, buffer_pool receives,
                                             const message_channel_options& options) {
  VERBENA_TRY(auto sends, make_pool(domain, options.message_bytes, options.send_buffers));
  VERBENA_TRY(auto counts, domain.allocate(message_core::notice_places * sizeof(std::uint64_t),
                                           access::local_write));
  VERBENA_TRY(auto word, exported_memory<std::uint64_t>::create(domain));
  VERBENA_TRY(const auto granted, word.grant(access::remote_write));
  const bool has_events = places.table().events().has_value();
  detail::message_core_owner core(new message_core(
      {.domain = domain,
       .places = std::move(places),
       .receives = std::move(receives),
       .sends = std::move(sends),
       .counts = std::move(counts),
       .word = std::move(word),
       .options = options,
       .terms = {.credits = options.credits,
                 .message_bytes = options.message_bytes,
                 .receives = options.queues.max_recv_wr,
                 .credit_receives = credit_receives_of(domain.context(), has_events, options),
                 .word = granted}}));
  if (core->table().enroll(*core)) return core;
  return refused(domain, "the completion hub has the maximum number of message channels");
}

// Reserves entries of the completion queue of `hub`. Without a hub, creates a completion queue.
result<detail::slot_reservation> places_for(const protection_domain& domain,
                                            const std::shared_ptr<detail::operation_table>& hub,
                                            const message_channel_options& options) {
  return hub ? reserve_places(domain, hub, options) : make_places(domain.context(), options);
}

}  // namespace

result<prepared_message_channel> message_channel::prepare(const protection_domain& domain) {
  return prepare(domain, message_channel_options());
}

result<prepared_message_channel> message_channel::prepare(const protection_domain& domain,
                                                          const buffer_pool& receives) {
  return prepare(domain, receives, {});
}

result<prepared_message_channel> message_channel::prepare(const protection_domain& domain,
                                                          const message_channel_options& options) {
  return prepare_on(domain, nullptr, nullptr, options);
}

result<prepared_message_channel> message_channel::prepare(const protection_domain& domain,
                                                          const buffer_pool& receives,
                                                          const message_channel_options& options) {
  return prepare_on(domain, nullptr, &receives, options);
}

result<prepared_message_channel> message_channel::prepare(const protection_domain& domain,
                                                          const completion_hub& hub,
                                                          const message_channel_options& options) {
  return prepare_on(domain, hub.table_, nullptr, options);
}

result<prepared_message_channel> message_channel::prepare(const protection_domain& domain,
                                                          const completion_hub& hub,
                                                          const buffer_pool& receives,
                                                          const message_channel_options& options) {
  return prepare_on(domain, hub.table_, &receives, options);
}

result<prepared_message_channel> message_channel::prepare_on(
    const protection_domain& domain, const std::shared_ptr<detail::operation_table>& hub,
    const buffer_pool* pool, const message_channel_options& options) {
  VERBENA_TRY(const auto settled, effective_options(domain, options));
  VERBENA_TRY(auto places, places_for(domain, hub, settled));
  const std::uint32_t buffers =
      settled.receive_buffers +
      credit_receives_of(domain.context(), places.table().events().has_value(), settled);
  if (pool == nullptr) {
    VERBENA_TRY(const auto own, make_pool(domain, settled.message_bytes, buffers));
    return prepare_with(domain, std::move(places), own, settled);
  }
  return prepare_with(domain, std::move(places), *pool, settled);
}

result<prepared_message_channel> message_channel::prepare_with(
    const protection_domain& domain, detail::slot_reservation places, const buffer_pool& receives,
    const message_channel_options& settled) {
  if (receives.native_pd() != domain.native() || !receives.access().contains(access::local_write) ||
      receives.largest() < settled.message_bytes)
    return refused(domain,
                   "the pool for receives must belong to the same protection domain and have "
                   "local_write and buffers of at least message_bytes");
  VERBENA_TRY(auto core, make_core(domain, std::move(places), receives, settled));
  VERBENA_TRY(auto queue, make_queue(domain, *core, settled));
  return prepared_message_channel(std::move(core), std::move(queue));
}

message_endpoint prepared_message_channel::endpoint() const {
  return {.terms = core_->terms(), .connection = queue_.endpoint()};
}

result<message_channel> prepared_message_channel::handshake(const message_endpoint& remote) && {
  prepared_message_channel self = std::move(*this);
  VERBENA_TRY_VOID(self.core_->agree(remote.terms));
  VERBENA_TRY(const auto receiving, self.queue_.rtr_attributes(remote.connection));
  const auto sending = self.queue_.rts_attributes(remote.connection);
  VERBENA_TRY_VOID(self.queue_.modify(self.queue_.init_attributes()));
  auto queue = std::move(self.queue_).into_queue_pair();
  // Receives are posted before a message can arrive.
  VERBENA_TRY_VOID(self.core_->fill(queue));
  VERBENA_TRY_VOID(queue.modify(receiving));
  VERBENA_TRY_VOID(queue.modify(sending));
  VERBENA_TRY_VOID(self.core_->start(std::move(queue)));
  return message_channel(std::move(self.core_));
}

result<message_channel> prepared_message_channel::connect(
    bringup::stream& peer, deadline until, const bringup::negotiation_options& options) && {
  return std::move(*this).connect_in_steps(peer, until, options).wait();
}

steps<message_channel> prepared_message_channel::connect_in_steps(
    bringup::stream& peer, deadline until, const bringup::negotiation_options& options) && {
  return negotiate(std::move(*this), peer, until, options);
}

steps<message_channel> prepared_message_channel::negotiate(prepared_message_channel self,
                                                           bringup::stream& peer, deadline until,
                                                           bringup::negotiation_options options) {
  // Copies the message, because it is used after the first step.
  const std::vector<std::byte> message(options.message.begin(), options.message.end());
  options.message = message;
  const auto ours = self.core_->terms().encode();
  VERBENA_CO_TRY(const auto bytes, co_await peer.exchange_in_steps(ours, until));
  const auto theirs = message_terms::decode(bytes);
  const auto agreed = theirs ? self.core_->agree(*theirs) : result<void>(theirs.error());
  if (!agreed) {
    peer.refuse(agreed.error().message());
    co_return agreed.error();
  }
  message_core* const core = self.core_.get();
  auto connecting = bringup::negotiate_in_steps<rc>(
      std::move(self.queue_), peer, until,
      [core](queue_pair<rc>& made) { return core->fill(made); }, options);
  VERBENA_CO_TRY(auto made, co_await std::move(connecting));
  VERBENA_CO_TRY_VOID(self.core_->start(std::move(made.queue)));
  co_return message_channel(std::move(self.core_));
}

}  // namespace verbena::inline VERBENA_ABI
