// SPDX-License-Identifier: MIT
#include "verbena/bringup/negotiation.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "src/bringup/gather_offer.hpp"
#include "src/bringup/probe_pair.hpp"
#include "verbena/base/log.hpp"
#include "verbena/bringup/connect_queue_pair.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {
namespace {

static_assert(offer::max_encoded_bytes <= max_bringup_bytes);

// A port that changes while it is negotiated is asked again, but not for ever.
constexpr int most_rounds = 5;
constexpr int nap_ms = 5;

bool is_usable(const offer& of) {
  return of.port_up && (of.link_layer == link_layer::infiniband || !of.gids.empty());
}

deadline earlier(deadline one, deadline other) { return one.when() < other.when() ? one : other; }

// What the side can offer, after the port had its time to come back. Ends early with the peer.
result<offer> wait_for_offer(const negotiating_side& side, const stream& peer, deadline until) {
  while (true) {
    auto found = gather_offer(side);
    if (!found || is_usable(*found) || until.expired()) return found;
    pollfd peer_gone{peer.fd(), POLLRDHUP, 0};
    if (::poll(&peer_gone, 1, nap_ms) > 0) return found;
  }
}

bool is_tried(const offer& of, trial wanted) {
  if (!is_usable(of) || of.fabric == fabric::iwarp || wanted == trial::never) return false;
  return wanted == trial::always ||
         (of.fabric == fabric::network && of.link_layer == link_layer::ethernet);
}

result<negotiated> exchange_offers(const offer& ours, stream& peer, deadline until) {
  VERBENA_TRY(const auto bytes, peer.exchange(frame_type::offer, ours.encode(), until));
  auto theirs = offer::decode(bytes);
  if (!theirs) return give_up(std::move(theirs).error(), peer);
  auto decided = decide(ours, *theirs);
  if (const auto* const why = std::get_if<disagreement>(&decided))
    return give_up(to_error(*why, peer.peer()), peer);
  return negotiated{
      .agreed = std::get<agreement>(decided), .ours = ours, .theirs = *std::move(theirs)};
}

result<void> connect(const negotiating_side& side, const negotiated& what) {
  auto receiving = rtr_attributes(what, side.wishes, what.theirs.queue_pair);
  auto sending = queue_pair_attributes()
                     .set_state(queue_pair_state::ready_to_send)
                     .set_send_psn(what.ours.queue_pair.first_psn);
  if (side.wishes.transport == offered_transport::rc) {
    const auto& wanted = side.wishes.reliability;
    receiving.set_reads_as_target(what.agreed.theirs.reads).set_min_rnr_timer(wanted.min_rnr_timer);
    sending.set_timeout(what.agreed.ours.timeout)
        .set_retry_count(wanted.retry_count)
        .set_rnr_retry_count(wanted.rnr_retry_count)
        .set_reads_as_initiator(what.agreed.ours.reads);
  }
  VERBENA_TRY_VOID(side.pair.modify(side.init));
  VERBENA_TRY_VOID(side.pair.modify(receiving));
  return side.pair.modify(sending);
}

// Both sides' verdicts as one: nothing when they differ in no way from `settled`.
result<verdict> exchange_verdicts(verdict ours, stream& peer, deadline until) {
  const std::array byte{static_cast<std::byte>(ours)};
  VERBENA_TRY(const auto bytes, peer.exchange(frame_type::verdict, byte, until));
  if (bytes.size() != 1 || bytes[0] > std::byte{static_cast<std::uint8_t>(verdict::again)})
    return give_up(error::protocol("connect_queue_pair", peer.peer(),
                                   "the peer's verdict is none of this protocol's"),
                   peer);
  const auto theirs = static_cast<verdict>(bytes[0]);
  return std::max(ours, theirs);
}

struct round_result {
  std::optional<connected_way> made;  ///< nothing: again
};

result<round_result> play_round(const negotiating_side& side, stream& peer, deadline until,
                                const negotiation_options& options) {
  auto ours = wait_for_offer(side, peer, earlier(until, deadline::after(options.port_patience)));
  if (!ours) return give_up(std::move(ours).error(), peer);
  const offer plain = *ours;
  connected_way way;
  if (is_tried(*ours, options.trial)) {
    auto probe = probe_pair::create(side);
    if (!probe) return give_up(std::move(probe).error(), peer);
    way.probe = *std::move(probe);
    ours->probe = way.probe->offered();
  }
  VERBENA_TRY(way.what, exchange_offers(*ours, peer, until));
  if (!way.what.agreed.probe) way.probe.reset();

  auto connected = connect(side, way.what);
  if (connected && way.probe) connected = way.probe->connect(way.what, side.wishes);
  // What was decided on must still hold: a port that flaps may have moved its addresses.
  const auto now = gather_offer(side);
  const bool holds = now && *now == plain;
  if (!connected && holds) return give_up(std::move(connected).error(), peer);
  VERBENA_TRY(const auto both,
              exchange_verdicts(holds ? verdict::settled : verdict::again, peer, until));
  if (both == verdict::again) return round_result{};
  if (way.probe)
    if (auto tried = way.probe->try_way(way.what, peer, until); !tried)
      return give_up(std::move(tried).error(), peer);
  log(log_level::debug, "bring-up with " + peer.peer() + ": " +
                            to_string(way.what.agreed, way.what.ours, way.what.theirs));
  return round_result{std::move(way)};
}

}  // namespace

result<connected_way> negotiate(const negotiating_side& side, stream& peer, deadline until,
                                const negotiation_options& options) {
  for (int round = 0; round < most_rounds; ++round) {
    VERBENA_TRY(auto played, play_round(side, peer, until, options));
    if (played.made) return *std::move(played.made);
    if (auto reset = side.pair.modify(queue_pair_attributes().set_state(queue_pair_state::reset));
        !reset)
      return give_up(std::move(reset).error(), peer);
  }
  return give_up(error::timed_out("connect_queue_pair", peer.peer(),
                                  "a port changed its addresses or its state in each of " +
                                      std::to_string(most_rounds) + " attempts"),
                 peer);
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
