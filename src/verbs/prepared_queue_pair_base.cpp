// SPDX-License-Identifier: MIT
#include "verbena/verbs/prepared_queue_pair_base.hpp"

#include <algorithm>

#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI {

result<address_vector> prepared_queue_pair_base::address_of(const verbena::endpoint& remote) const {
  if (remote.gid.has_value() != local_.endpoint.gid.has_value())
    return error::invalid_argument(
        "handshake", name(),
        remote.gid ? "the peer is addressed by a GID and this side has none: choose one with "
                     ".gid_index"
                   : "this side is addressed by a GID and the peer has none: choose one there "
                     "with .gid_index");
  auto to = address_vector::along(request_.route);
  to.lid = remote.lid;
  to.gid = remote.gid;
  to.source_gid_index = local_.source_gid_index;
  return to;
}

queue_pair_attributes prepared_queue_pair_base::connected_init() const {
  return queue_pair_attributes()
      .set_state(queue_pair_state::init)
      .set_pkey_index(request_.route.pkey_index)
      .set_port(request_.route.port)
      .set_access(request_.access);
}

result<queue_pair_attributes> prepared_queue_pair_base::connected_rtr(
    const verbena::endpoint& remote) const {
  VERBENA_TRY(const auto way, address_of(remote));
  queue_pair_attributes changes;
  changes.set_state(queue_pair_state::ready_to_receive)
      .set_address(way)
      .set_path_mtu(std::min(local_.endpoint.mtu, remote.mtu))
      .set_destination(remote.queue_pair)
      .set_receive_psn(remote.first_psn);
  if (request_.is_reliable_connection)
    changes.set_responder_resources(local_.endpoint.responder_resources)
        .set_min_rnr_timer(request_.reliability.min_rnr_timer);
  return changes;
}

queue_pair_attributes prepared_queue_pair_base::connected_rts(
    const verbena::endpoint& remote) const {
  queue_pair_attributes changes = datagram_rts();
  if (request_.is_reliable_connection)
    changes.set_timeout(request_.reliability.timeout)
        .set_retry_count(request_.reliability.retry_count)
        .set_rnr_retry_count(request_.reliability.rnr_retries())
        .set_initiator_depth(std::min(local_.initiator_depth, remote.responder_resources));
  return changes;
}

result<void> prepared_queue_pair_base::connect(const verbena::endpoint& remote) {
  VERBENA_TRY(const auto receiving, connected_rtr(remote));
  VERBENA_TRY_VOID(modify(connected_init()));
  VERBENA_TRY_VOID(modify(receiving));
  return modify(connected_rts(remote));
}

queue_pair_attributes prepared_queue_pair_base::datagram_init(queue_key key) const {
  return queue_pair_attributes()
      .set_state(queue_pair_state::init)
      .set_pkey_index(request_.route.pkey_index)
      .set_port(request_.route.port)
      .set_qkey(key);
}

queue_pair_attributes prepared_queue_pair_base::datagram_rtr() const {
  return queue_pair_attributes().set_state(queue_pair_state::ready_to_receive);
}

queue_pair_attributes prepared_queue_pair_base::datagram_rts() const {
  return queue_pair_attributes()
      .set_state(queue_pair_state::ready_to_send)
      .set_send_psn(local_.endpoint.first_psn);
}

result<void> prepared_queue_pair_base::open(queue_key key) {
  VERBENA_TRY_VOID(modify(datagram_init(key)));
  VERBENA_TRY_VOID(modify(datagram_rtr()));
  return modify(datagram_rts());
}

}  // namespace verbena::inline VERBENA_ABI
