// SPDX-License-Identifier: MIT
// How channels are created and connected.
#include "verbena/channel/prepared_channel.hpp"

#include <algorithm>

#include "src/channel/connection_options.hpp"
#include "verbena/bringup/connect_queue_pair.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

// What the queue pair is created with.
queue_pair_options<rc> queue_options(channel_options of, const context& on) {
  of.max_send_wr += detail::first_requests(on);
  return detail::queue_pair_options_of(of);
}

// Operations in flight at most. The sum of two halves of the range does not overflow.
result<std::uint32_t> places(const channel_options& options) {
  constexpr std::uint32_t most = 0x7fff'ffff;
  if (options.max_send_wr == 0 || options.max_recv_wr == 0 || options.max_send_wr > most ||
      options.max_recv_wr > most)
    return error::invalid_argument("create_channel", {},
                                   "max_send_wr and max_recv_wr are between 1 and 2^31 - 1");
  return options.max_send_wr + options.max_recv_wr;
}

}  // namespace

result<completion_hub> completion_hub::create(const context& of, std::uint32_t operations) {
  if (operations == 0)
    return error::invalid_argument("completion_hub::create", of.name(),
                                   "a hub has room for at least one operation");
  VERBENA_TRY(auto cq, of.create_cq(operations));
  return completion_hub(std::make_shared<detail::operation_table>(std::move(cq), operations));
}

result<prepared_channel> prepared_channel::create(const protection_domain& domain,
                                                  std::shared_ptr<detail::operation_table> table,
                                                  const channel_options& options) {
  VERBENA_TRY(const auto wanted, places(options));
  if (!table->reserve(wanted))
    return error::invalid_argument(
        "create_channel", domain.name(),
        "the completion hub has room for " + std::to_string(table->unreserved()) +
            " more operations in flight, and the channel needs " + std::to_string(wanted));
  detail::slot_reservation slots(table, wanted);
  VERBENA_TRY(auto queue, domain.create_queue_pair<rc>(table->cq(), table->cq(),
                                                       queue_options(options, domain.context())));
  return prepared_channel(std::move(queue), std::move(slots), domain, options);
}

result<prepared_channel> protection_domain::create_channel() const { return create_channel({}); }

result<prepared_channel> protection_domain::create_channel(const channel_options& options) const {
  VERBENA_TRY(const auto wanted, places(options));
  VERBENA_TRY(auto cq, context().create_cq(
                           std::max(wanted + first_requests(context()), options.min_cq_entries)));
  return prepared_channel::create(
      *this, std::make_shared<detail::operation_table>(std::move(cq), wanted), options);
}

result<prepared_channel> protection_domain::create_channel(const completion_hub& hub,
                                                           const channel_options& options) const {
  return prepared_channel::create(*this, hub.table_, options);
}

channel prepared_channel::with(queue_pair<rc> connected) && {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): counted by the core itself
  return channel(new detail::channel_core({.queue = std::move(connected),
                                           .slots = std::move(slots_),
                                           .domain = std::move(domain_),
                                           .options = options_}));
}

result<channel> prepared_channel::handshake(const verbena::endpoint& remote) && {
  prepared_channel self = std::move(*this);
  VERBENA_TRY(auto connected, std::move(self.queue_).handshake(remote));
  return std::move(self).with(std::move(connected));
}

result<channel> prepared_channel::connect(bringup::stream& peer, deadline until,
                                          const bringup::negotiation_options& options) && {
  prepared_channel self = std::move(*this);
  VERBENA_TRY(auto connected,
              bringup::connect_queue_pair(std::move(self.queue_), peer, until, options));
  return std::move(self).with(std::move(connected));
}

}  // namespace verbena::inline VERBENA_ABI
