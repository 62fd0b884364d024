// SPDX-License-Identifier: MIT
#include "verbena/verbs/prepared_queue_pair.hpp"

#include <algorithm>
#include <utility>

namespace verbena::inline VERBENA_ABI {

template <>
result<prepared_queue_pair<rc>> protection_domain::create_queue_pair<rc>(
    const completion_queue& send, const completion_queue& receive,
    queue_pair_options<rc> options) const {
  using traits = transport_traits<rc>;
  VERBENA_TRY(auto made, detail::create_queue_pair(
                             *this, send, receive, options,
                             {.type = traits::type, .send_operations = traits::send_operations}));
  VERBENA_TRY(auto local, detail::find_local_side(*this, options));
  local.endpoint.queue_pair =
      queue_pair_number(made.state->native()->qp_num & queue_pair_number::max);
  return prepared_queue_pair<rc>(std::move(made), local, options);
}

queue_pair_attributes prepared_queue_pair<rc>::init_attributes() const {
  return queue_pair_attributes()
      .set_state(queue_pair_state::init)
      .set_pkey_index(options_.pkey_index)
      .set_port(options_.port)
      .set_access(options_.access);
}

result<queue_pair_attributes> prepared_queue_pair<rc>::rtr_attributes(
    const verbena::endpoint& remote) const {
  if (remote.gid.has_value() != local_.endpoint.gid.has_value())
    return error::invalid_argument(
        "handshake", name(),
        remote.gid ? "the peer is addressed by a GID and this side has none: choose one with "
                     ".gid_index"
                   : "this side is addressed by a GID and the peer has none: choose one there "
                     "with .gid_index");
  return queue_pair_attributes()
      .set_state(queue_pair_state::ready_to_receive)
      .set_address({.lid = remote.lid,
                    .gid = remote.gid,
                    .source_gid = local_.source_gid,
                    .port = options_.port,
                    .service_level = options_.service_level,
                    .traffic_class = options_.traffic_class,
                    .hop_limit = options_.hop_limit})
      .set_path_mtu(std::min(local_.endpoint.mtu, remote.mtu))
      .set_destination(remote.queue_pair)
      .set_receive_psn(remote.first_psn)
      .set_reads_as_target(local_.endpoint.read_depth)
      .set_min_rnr_timer(options_.min_rnr_timer);
}

queue_pair_attributes prepared_queue_pair<rc>::rts_attributes(
    const verbena::endpoint& remote) const {
  return queue_pair_attributes()
      .set_state(queue_pair_state::ready_to_send)
      .set_send_psn(local_.endpoint.first_psn)
      .set_timeout(options_.timeout)
      .set_retry_count(options_.retry_count)
      .set_rnr_retry_count(options_.rnr_retry_count)
      .set_reads_as_initiator(std::min(local_.reads_as_initiator, remote.read_depth));
}

result<queue_pair<rc>> prepared_queue_pair<rc>::handshake(const verbena::endpoint& remote) && {
  // From here on the queue pair is destroyed if a step fails.
  prepared_queue_pair self = std::move(*this);
  VERBENA_TRY(const auto receiving, self.rtr_attributes(remote));
  VERBENA_TRY_VOID(self.modify(self.init_attributes()));
  VERBENA_TRY_VOID(self.modify(receiving));
  VERBENA_TRY_VOID(self.modify(self.rts_attributes(remote)));
  return std::move(self).into_queue_pair();
}

}  // namespace verbena::inline VERBENA_ABI
