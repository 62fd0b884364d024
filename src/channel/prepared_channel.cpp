// SPDX-License-Identifier: MIT
// Creates and connects channels.
#include "verbena/channel/prepared_channel.hpp"

#include <algorithm>

#include "src/channel/connect.hpp"
#include "src/channel/connection_options.hpp"
#include "src/channel/connection_record.hpp"
#include "src/channel/unconnected_channel.hpp"
#include "verbena/bringup/connect_queue_pair.hpp"

namespace verbena::inline VERBENA_ABI {

steps<detail::connected_over> detail::connect_over(prepared_queue_pair<rc> prepared,
                                                   resume_token ours, way_to_peer way,
                                                   bringup::negotiation_options options) {
  const auto bytes = ours.encode();
  options.message = bytes;
  VERBENA_CO_TRY(auto made, co_await bringup::negotiate_in_steps<rc>(std::move(prepared), way.peer,
                                                                     way.until, {}, options));
  connected_over out{.queue = std::move(made.queue), .peer_token = std::nullopt};
  if (made.message.empty()) co_return std::move(out);
  VERBENA_CO_TRY(out.peer_token, resume_token::decode(made.message));
  co_return std::move(out);
}

prepared_channel::prepared_channel(prepared_queue_pair<rc> queue, detail::slot_reservation slots,
                                   protection_domain domain, const channel_options& options)
    : queue_(std::move(queue)),
      slots_(std::move(slots)),
      domain_(std::move(domain)),
      options_(options),
      record_(new detail::connection_record{
          .book = detail::connection_book(options.counts_messages ? detail::counting::yes
                                                                  : detail::counting::no)}),
      resume_token_(record_->book.next()) {}

result<prepared_channel> prepared_channel::create(
    const protection_domain& domain, const std::shared_ptr<detail::operation_table>& table,
    const channel_options& options) {
  VERBENA_TRY(const auto wanted, detail::places_of(options));
  if (!table->reserve(wanted)) return detail::no_room(domain, *table, wanted);
  detail::slot_reservation slots(table, wanted);
  VERBENA_TRY(const auto limits, domain.context().query());
  VERBENA_TRY(auto queue,
              domain.create_qp<rc>(table->cq(), table->cq(),
                                   detail::queue_pair_options_of(options, domain.context())));
  prepared_channel made(std::move(queue), std::move(slots), domain, options);
  made.max_read_sge_ = detail::most_read_slices(options, limits);
  if (options.route.gid_index) {
    VERBENA_TRY(made.record_->chosen_gid,
                domain.context().query_gid(options.route.port, *options.route.gid_index));
  }
  return made;
}

result<prepared_channel> protection_domain::create_channel() const { return create_channel({}); }

result<prepared_channel> protection_domain::create_channel(const channel_options& options) const {
  VERBENA_TRY(const auto wanted, detail::places_of(options));
  completion_queue_options queue;
  if (options.events) {
    VERBENA_TRY(queue.channel, context().create_completion_channel());
  }
  VERBENA_TRY(auto cq, context().create_cq(std::max(wanted + detail::first_requests(context()),
                                                    options.min_cq_entries),
                                           queue));
  return prepared_channel::create(
      *this, std::make_shared<detail::operation_table>(std::move(cq), wanted), options);
}

result<prepared_channel> protection_domain::create_channel(const completion_hub& hub,
                                                           const channel_options& options) const {
  return prepared_channel::create(*this, hub.table_, options);
}

channel prepared_channel::with(queue_pair<rc> connected,
                               const std::optional<verbena::resume_token>& peer_token) && {
  record_->book.begin(resume_token_.self.connection);
  record_->book.meet(peer_token);
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the core counts its references itself
  return channel(new detail::channel_core({.queue = std::move(connected),
                                           .slots = std::move(slots_),
                                           .domain = std::move(domain_),
                                           .options = options_,
                                           .max_read_sge = max_read_sge_,
                                           .record = std::move(record_)}));
}

result<channel> prepared_channel::handshake(
    const verbena::endpoint& remote, const std::optional<verbena::resume_token>& peer_token) && {
  prepared_channel self = std::move(*this);
  VERBENA_TRY(auto connected, std::move(self.queue_).handshake(remote));
  return std::move(self).with(std::move(connected), peer_token);
}

result<channel> prepared_channel::handshake(const verbena::endpoint& remote) && {
  return std::move(*this).handshake(remote, std::nullopt);
}

result<channel> prepared_channel::connect(bringup::stream& peer, deadline until,
                                          const bringup::negotiation_options& options) && {
  return connect_over(std::move(*this), peer, until, options).wait();
}

steps<channel> prepared_channel::connect_in_steps(bringup::stream& peer, deadline until,
                                                  bringup::negotiation_options options) && {
  return connect_over(std::move(*this), peer, until, options);
}

steps<channel> prepared_channel::connect_over(prepared_channel self, bringup::stream& peer,
                                              deadline until,
                                              bringup::negotiation_options options) {
  const detail::way_to_peer way{.peer = peer, .until = until};
  VERBENA_CO_TRY(auto connected, co_await detail::connect_over(std::move(self.queue_),
                                                               self.resume_token_, way, options));
  co_return std::move(self).with(std::move(connected.queue), connected.peer_token);
}

}  // namespace verbena::inline VERBENA_ABI
