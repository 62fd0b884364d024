// SPDX-License-Identifier: MIT
#include "verbena/bringup/datagram_peer.hpp"

#include <utility>

#include "src/bringup/negotiation_core.hpp"
#include "src/bringup/run_negotiation.hpp"

namespace verbena::inline VERBENA_ABI::bringup {
namespace {

result<detail::negotiating_side> side_of(queue_pair<ud>& local, const datagram_options& options) {
  using attribute = queue_pair_attribute;
  VERBENA_TRY(const auto set, local.query(queue_pair_attribute_mask(attribute::qkey) |
                                          attribute::port | attribute::pkey_index));
  return detail::negotiating_side{.pair = local,
                                  .own_endpoint = {},
                                  .key = set.qkey().value_or(queue_key()),
                                  .init = {},
                                  .wishes = {.transport = offered_transport::ud,
                                             .route = {.port = set.port().value_or(port_number(1)),
                                                       .gid_index = options.gid_index,
                                                       .service_level = options.service_level,
                                                       .traffic_class = options.traffic_class,
                                                       .hop_limit = options.hop_limit,
                                                       .pkey_index = set.pkey_index().value_or(0)},
                                             .reliability = {}},
                                  .connect_to_endpoint = nullptr};
}

}  // namespace

result<datagram_peer> exchange_datagram_addresses(const protection_domain& pd,
                                                  queue_pair<ud>& local, stream& peer,
                                                  deadline until, const datagram_options& options) {
  if (local.native()->pd != pd.native())
    return error::invalid_argument("exchange_datagram_addresses", peer.peer(),
                                   "the queue pair belongs to another protection domain; pass the "
                                   "one that created it");
  VERBENA_TRY(const auto side, side_of(local, options));
  const auto wishes = side.wishes;
  detail::negotiation_core steps(side, options.negotiation,
                                 {.name = peer.peer(), .version = peer.version()});
  VERBENA_TRY_VOID(detail::run(steps, peer, until).wait());
  auto ah = pd.create_ah(detail::path_of(*steps.terms(), wishes));
  if (ah)
    steps.set_ready();
  else
    steps.abandon(ah.error());
  VERBENA_TRY_VOID(detail::run(steps, peer, until).wait());
  const auto& theirs = steps.terms()->theirs;
  return datagram_peer{.ah = *std::move(ah),
                       .number = theirs.queue_pair.number,
                       .key = theirs.key,
                       .terms = *steps.terms(),
                       .message = steps.take_message()};
}

}  // namespace verbena::inline VERBENA_ABI::bringup
