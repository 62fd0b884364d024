// SPDX-License-Identifier: MIT
#include "src/bringup/probe_pair.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "src/bringup/gather_offer.hpp"
#include "src/bringup/negotiation_core.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {
namespace {

constexpr std::size_t place_bytes = 4096;  // the largest packet
constexpr std::uint64_t send_id = 3;
constexpr std::uint8_t retries = 3;
// 67 ms to 537 ms for each transmission: long enough for a busy host.
constexpr std::uint8_t min_timeout_exponent = 14;
constexpr std::uint8_t max_timeout_exponent = 17;

error blocked(const negotiated& what, const std::string& peer) {
  std::string text = "the queue pairs are connected, but no message arrives (" +
                     to_string(what.agreed, what.ours, what.theirs) + "): ";
  if (what.ours.link_layer == link_layer::infiniband)
    text += "check with `ibping` that the subnet manager connects the two ports";
  else if (what.agreed.our_gid && what.ours.gids[*what.agreed.our_gid].type == gid_type::roce_v1)
    text += "RoCE v1 does not leave the Ethernet segment; put both ports into one VLAN";
  else
    text +=
        "UDP port 4791 may be blocked; open it in both directions in the firewalls and security "
        "groups of both hosts";
  return error::from_errno(EHOSTUNREACH, "connect_queue_pair", peer, text);
}

error too_large(const negotiated& what, const std::string& peer) {
  return error::from_errno(
      EMSGSIZE, "connect_queue_pair", peer,
      "a packet of 1 byte arrives, a packet of " + to_string(what.agreed.mtu) +
          " bytes does not: a link of the path has a smaller MTU; choose a smaller .path_mtu, or "
          "raise the MTU of all interfaces and switches of the path to the packet plus 80 bytes of "
          "headers");
}

}  // namespace

queue_pair_attributes rtr_attributes(const negotiated& what, const connection_wishes& wishes,
                                     offered_queue_pair number) {
  return queue_pair_attributes()
      .set_state(queue_pair_state::ready_to_receive)
      .set_address(path_of(what, wishes))
      .set_path_mtu(what.agreed.mtu)
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
  const route& via = side.wishes.route;
  VERBENA_TRY(
      auto prepared,
      pd.create_qp<rc>(
          queue, queue,
          {.queues = {.max_send_wr = 2, .max_recv_wr = 2},
           .extended = false,
           .route = {.port = via.port, .gid_index = via.gid_index, .pkey_index = via.pkey_index}}));
  return std::shared_ptr<probe_pair>(
      new probe_pair(std::move(queue), std::move(memory), std::move(prepared)));
}

offered_queue_pair probe_pair::offered() const {
  return {.number = prepared_->number(), .first_psn = prepared_->endpoint().first_psn};
}

result<void> probe_pair::connect(const negotiated& what, const connection_wishes& wishes) {
  VERBENA_TRY_VOID(prepared_->modify(prepared_->init_attributes()));
  VERBENA_TRY_VOID(prepared_->modify(rtr_attributes(what, wishes, *what.theirs.probe)
                                         .set_responder_resources(0)
                                         .set_min_rnr_timer({})));
  const auto exponent =
      std::clamp(what.agreed.ours.timeout.exponent(), min_timeout_exponent, max_timeout_exponent);
  VERBENA_TRY_VOID(prepared_->modify(queue_pair_attributes()
                                         .set_state(queue_pair_state::ready_to_send)
                                         .set_send_psn(prepared_->endpoint().first_psn)
                                         .set_timeout(ack_timeout::from_exponent(exponent))
                                         .set_retry_count(retries)
                                         .set_rnr_retry_count(retries)
                                         .set_initiator_depth(0)));
  pair_.emplace(std::move(*prepared_).into_queue_pair());
  prepared_.reset();
  for (const std::size_t place : {1, 2})
    if (const auto posted =
            pair_->post_receive({.id = place}, memory_.slice(place * place_bytes, place_bytes));
        !posted)
      return posted.error();
  return {};
}

result<void> probe_pair::begin() { return send(1); }

result<void> probe_pair::send(std::size_t bytes) {
  auto batch = pair_->start_send();
  batch.send({.id = send_id, .signaled = true}, memory_.slice(0, bytes));
  if (const auto posted = batch.submit(); !posted) return posted.error();
  ++sent_;
  return {};
}

result<bool> probe_pair::poll(const negotiated& what, const std::string& peer) {
  std::array<completion, 4> done;
  const auto polled = queue_.poll(done);
  if (!polled) return polled.error();
  for (const auto& each : *polled) {
    if (each.id() != send_id && each.ok()) continue;
    const bool is_full_packet = sent_ == 2;
    if (each.status() == completion_status::retries_exceeded)
      return is_full_packet ? too_large(what, peer) : blocked(what, peer);
    if (!each.ok()) return pair_->describe(each);
    if (is_full_packet) return true;
    VERBENA_TRY_VOID(send(byte_count(what.agreed.mtu)));
  }
  return false;
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
