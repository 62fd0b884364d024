// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/named_counters.hpp"

#include "softdev/wire/socket/wire_path.hpp"

namespace verbena::softdev::wire {

std::array<named_counter, named_counter_count> name_counters(const wire_counters& from) noexcept {
  const intake_counters& in = from.intake;
  const packet_sender_counters& out = from.output;
  const event_counters& events = from.events;
  return {{
      {"sent_pkts", out.sent},
      {"sent_bytes", out.sent_bytes},
      {"rcvd_pkts", in.received},
      {"rcvd_bytes", in.received_bytes},
      {"retransmitted_pkts", events.retransmitted},
      {"local_ack_timeout_err", events.timed_out},
      {"retry_exceeded_err", events.retries_exceeded},
      {"rcvd_rnr_err", in.rnr_naks},
      {"send_rnr_err", events.rnr_naks_sent},
      {"rcvd_seq_err", in.sequence_naks},
      {"out_of_seq_request", events.sequence_naks_sent},
      {"rcvd_selective_acks", events.selective_acks_received},
      {"sent_selective_acks", events.selective_acks_sent},
      {"np_ecn_marked_roce_packets", in.marked},
      {"np_cnp_sent", events.cnps_sent},
      {"rp_cnp_handled", events.cnps_handled},
      {"rp_cnp_ignored", events.cnps_ignored},
      {"send_err", out.refused},
      {"send_queue_full", out.without_room},
      {"send_auth_err", out.not_signed},
      {"forwarded_pkts", in.forwarded},
      {"forward_queue_full", in.forward_full},
      {"solved_identification", in.recovered},
      {"dropped_malformed", in.malformed},
      {"dropped_unknown_qp", in.unknown_qp},
      {"dropped_wrong_source", in.foreign},
      {"dropped_wrong_interface", in.wrong_interface},
      {"dropped_icrc", in.damaged},
      {"dropped_auth_missing", in.auth_missing},
      {"dropped_auth_failed", in.auth_failed},
      {"dropped_auth_replayed", in.auth_replayed},
      {"dropped_auth_unexpected", in.auth_unexpected},
      {"dropped_busy", in.busy},
      {"dropped_pkey", from.bad_pkeys},
      {"dropped_qkey", from.bad_qkeys},
      {"injected_faults", in.injected},
  }};
}

}  // namespace verbena::softdev::wire
