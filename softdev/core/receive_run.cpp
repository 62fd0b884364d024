// SPDX-License-Identifier: MIT
#include "softdev/core/receive_run.hpp"

#include "softdev/core/copy.hpp"
#include "softdev/core/engine.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/transport/rules.hpp"

namespace verbena::softdev {

bool receive_run::begin(queue_pair& to) noexcept {
  const transport_rules& rules = rules_of(to.transport());
  const responder& receiver = to.receiver();
  if (!rules.acknowledged || !rules.connected || receiver.busy_ ||
      receiver.awaits_first_request() || receiver.shared_ != nullptr)
    return false;
  to_ = &to;
  view_ = receiver.view();
  region_ = {};
  completions_.open(*to.options().receive_queue);
  return true;
}

bool receive_run::take(const short_send& what, std::span<const std::byte> payload) noexcept {
  responder& receiver = to_->receiver();
  receive_queue& queue = receiver.queue_;
  if (connection_refusal(view_, what) != reason::none || receiver.consumed_ == queue.posted())
    return false;
  receive_entry& entry = queue.at(receiver.consumed_);
  if (entry.sge_count == 0) return false;
  const sge& sink = queue.sges_of(entry).front();
  if (payload.size() > sink.length) return false;
  std::byte* const data =
      region_.find(to_->home().regions(),
                   {sink.lkey, sink.address, payload.size(), access::local_write, view_.domain});
  if (data == nullptr || !completions_.has_room() ||
      copy_payload(data, payload.data(), payload.size()) != copy_fault::none)
    return false;
  completions_.push({&queue.released(), ++receiver.consumed_}, [&](completion& made) {
    made.wr_id = entry.wr_id;
    made.status = completion_status::success;
    made.opcode = completion_opcode::receive;
    made.flags = 0;
    made.service_level = 0;
    made.byte_count = static_cast<std::uint32_t>(payload.size());
    made.immediate = 0;
    made.qp_num = view_.number;
    made.source_qp = what.source_qpn;
    made.vendor_error = 0;
    made.source_lid = 0;
    made.path_bits = 0;
  });
  view_.expected_psn = receiver.expected_psn_ = (what.psn + 1) & psn_mask;
  return true;
}

}  // namespace verbena::softdev
