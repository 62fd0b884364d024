// SPDX-License-Identifier: MIT
#include "src/bringup/probe_pair.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "src/bringup/gather_offer.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {
namespace {

constexpr std::size_t place_bytes = 4096;  // the largest packet
constexpr std::uint64_t send_id = 3;
constexpr std::uint8_t retries = 3;
// 67 ms to 537 ms for each try: long enough for a busy host, short enough to wait for.
constexpr std::uint8_t least_timeout_exponent = 14;
constexpr std::uint8_t most_timeout_exponent = 17;
constexpr int polls_before_nap = 200;

error blocked(const negotiated& what, const stream& peer) {
  std::string text = "the queue pairs are connected, and no message gets through (" +
                     to_string(what.agreed, what.ours, what.theirs) + "): ";
  if (what.ours.link_layer == link_layer::infiniband)
    text += "ask the subnet manager whether the ports reach each other (`ibping`)";
  else if (what.agreed.our_gid && what.ours.gids[*what.agreed.our_gid].type == gid_type::roce_v1)
    text += "RoCE v1 stays in one Ethernet segment: are both ports in one VLAN?";
  else
    text +=
        "UDP 4791 blocked? RoCE v2 needs it open in both directions in firewalls and security "
        "groups of both hosts";
  return error::from_errno(EHOSTUNREACH, "connect_queue_pair", peer.peer(), text);
}

error too_large(const negotiated& what, const stream& peer) {
  return error::from_errno(
      EMSGSIZE, "connect_queue_pair", peer.peer(),
      "short messages get through, and packets of " + to_string(what.agreed.mtu) +
          " bytes do not: something between has a smaller MTU; choose a smaller .path_mtu, or "
          "raise "
          "the MTU of interfaces and switches between to the packet and 80 bytes of headers");
}

}  // namespace

queue_pair_attributes rtr_attributes(const negotiated& what, const connection_wishes& wishes,
                                     offered_queue_pair number) {
  const auto& [agreed, ours, theirs] = what;
  address_vector way{.lid = theirs.lid,
                     .port = wishes.port,
                     .service_level = wishes.service_level,
                     .traffic_class = wishes.traffic_class,
                     .hop_limit = wishes.hop_limit};
  if (agreed.our_gid && agreed.their_gid) {
    way.source_gid = ours.gids[*agreed.our_gid].index;
    way.gid = theirs.gids[*agreed.their_gid].gid;
  }
  return queue_pair_attributes()
      .set_state(queue_pair_state::ready_to_receive)
      .set_address(way)
      .set_path_mtu(agreed.mtu)
      .set_destination(number.number)
      .set_receive_psn(number.first_psn);
}

probe_pair::probe_pair(completion_queue queue, memory_region memory,
                       prepared_queue_pair<rc> prepared)
    : queue_(std::move(queue)), memory_(std::move(memory)), prepared_(std::move(prepared)) {}

result<std::shared_ptr<probe_pair>> probe_pair::create(const negotiating_side& side) {
  const context device = device_of(side);
  const auto pd = protection_domain::adopt(side.pair.native()->pd, device, ownership::borrow);
  VERBENA_TRY(auto queue, device.create_cq(8));
  VERBENA_TRY(auto memory, pd.allocate(3 * place_bytes, access::local_write));
  VERBENA_TRY(auto prepared, pd.create_queue_pair<rc>(queue, queue,
                                                      {.max_send_wr = 2,
                                                       .max_recv_wr = 2,
                                                       .extended = false,
                                                       .port = side.wishes.port,
                                                       .gid_index = side.wishes.gid_index,
                                                       .pkey_index = side.wishes.pkey_index}));
  return std::shared_ptr<probe_pair>(
      new probe_pair(std::move(queue), std::move(memory), std::move(prepared)));
}

offered_queue_pair probe_pair::offered() const {
  return {.number = prepared_->number(), .first_psn = prepared_->endpoint().first_psn};
}

result<void> probe_pair::connect(const negotiated& what, const connection_wishes& wishes) {
  VERBENA_TRY_VOID(prepared_->modify(prepared_->init_attributes()));
  VERBENA_TRY_VOID(prepared_->modify(rtr_attributes(what, wishes, *what.theirs.probe)
                                         .set_reads_as_target(0)
                                         .set_min_rnr_timer({})));
  const auto exponent = std::clamp(what.agreed.ours.timeout.exponent(), least_timeout_exponent,
                                   most_timeout_exponent);
  VERBENA_TRY_VOID(prepared_->modify(queue_pair_attributes()
                                         .set_state(queue_pair_state::ready_to_send)
                                         .set_send_psn(prepared_->endpoint().first_psn)
                                         .set_timeout(ack_timeout::from_exponent(exponent))
                                         .set_retry_count(retries)
                                         .set_rnr_retry_count(retries)
                                         .set_reads_as_initiator(0)));
  pair_.emplace(std::move(*prepared_).into_queue_pair());
  prepared_.reset();
  for (const std::size_t place : {1, 2})
    if (const auto posted =
            pair_->post_receive({.id = place}, memory_.slice(place * place_bytes, place_bytes));
        !posted)
      return posted.error();
  return {};
}

result<completion> probe_pair::send_and_wait(std::size_t bytes, const stream& peer,
                                             deadline until) {
  auto batch = pair_->start_send();
  batch.send({.id = send_id, .signaled = true}, memory_.slice(0, bytes));
  if (const auto posted = batch.submit(); !posted) return posted.error();
  for (int polls = 0; !until.expired(); ++polls) {
    std::array<completion, 4> done;
    const auto polled = queue_.poll(done);
    if (!polled) return polled.error();
    for (const auto& each : *polled)
      if (each.id() == send_id || !each.ok()) return each;
    if (polls < polls_before_nap) continue;
    pollfd peer_gone{peer.fd(), 0, 0};
    ::poll(&peer_gone, 1, 1);
  }
  return error::timed_out("connect_queue_pair", peer.peer(),
                          "a message that tries the way was not answered in time");
}

result<void> probe_pair::try_way(const negotiated& what, const stream& peer, deadline until) {
  VERBENA_TRY(const auto first, send_and_wait(1, peer, until));
  if (first.status() == completion_status::retries_exceeded) return blocked(what, peer);
  if (!first.ok()) return pair_->describe(first);
  VERBENA_TRY(const auto second, send_and_wait(byte_count(what.agreed.mtu), peer, until));
  if (second.status() == completion_status::retries_exceeded) return too_large(what, peer);
  if (!second.ok()) return pair_->describe(second);
  return {};
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
