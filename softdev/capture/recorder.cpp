// SPDX-License-Identifier: MIT
#include "softdev/capture/recorder.hpp"

#include <new>
#include <utility>

#include "softdev/core/queue_pair.hpp"
#include "softdev/core/route.hpp"
#include "softdev/core/same_process.hpp"
#include "softdev/core/transport/rules.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev::capture {
namespace {

constexpr conversation_route loopback{
    .source = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1},
    .destination = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1}};

/// Returns whether the requests have RoCE v2 packets. The parts of SRD requests do not.
bool has_packets(const queue_pair& sender) noexcept {
  return rules_of(sender.transport()).mode != delivery_mode::parts;
}

}  // namespace

recorder::recorder(engine& home, remote_path& next, capture_file file, std::size_t packet_bytes)
    : home_(home), next_(next), frames_(std::move(file), packet_bytes), wire_(frames_) {
  home.routes().observe(*this, *this);
}

void recorder::set_route(std::uint32_t qp_num, const conversation_route& route) {
  const std::lock_guard lock(mutex_);
  routes_[qp_num] = route;
}

conversation& recorder::conversation_of(const queue_pair& sender) {
  const auto known = conversations_.find(sender.number());
  if (known != conversations_.end()) return known->second;
  const auto route = routes_.find(sender.number());
  const queue_pair_attributes& attributes = sender.attributes();
  return conversations_
      .emplace(sender.number(),
               conversation(route != routes_.end() ? route->second : loopback, attributes.send_psn,
                            bytes_of_mtu(attributes.path_mtu)))
      .first->second;
}

template <class Action>
void recorder::record(const queue_pair& sender, Action action) noexcept {
  const std::lock_guard lock(mutex_);
  if (!has_packets(sender)) {
    if (!std::exchange(reported_missing_, true))
      verbena::log(log_level::warning,
                   "soft0: requests over SRD are not captured: RoCE v2 has no packets for them");
    return;
  }
  now_ = wall_clock();
  try {
    action(conversation_of(sender));
  } catch (const std::bad_alloc&) {
    frames_.note_lost();
  }
  frames_.flush();
}

response recorder::submit(queue_pair& sender, const message& what, std::span<const segment> local,
                          bool earlier_done) noexcept {
  // wire_recorder records its packets when they are sent.
  if (what.by == path_to_peer::wire) return next_.submit(sender, what, local, earlier_done);
  // Recorded before the peer can see the request, so that the effects of the request follow it in
  // the file.
  record(sender, [&](conversation& with) { with.sending(what, local, *this); });
  const response answer = execute(sender, what, local, earlier_done);
  record(sender, [&](conversation& with) { with.sent(what, local, answer, *this); });
  return answer;
}

response recorder::execute(queue_pair& sender, const message& what, std::span<const segment> local,
                           bool earlier_done) noexcept {
  const bool here = what.by == path_to_peer::same_host &&
                    home_.numbers().is_local(what.destination_qpn) && !is_for_group(what);
  if (!here) return next_.submit(sender, what, local, earlier_done);
  queue_pair* const target = home_.find(what.destination_qpn);
  if (target == nullptr) return without_answer(reason::peer_unknown, what);
  const response answer = execute_in_process(*target, what, local);
  // Over UC and UD, the requester does not learn of a refusal. The target counts dropped messages.
  const bool silent =
      !rules_of(what.transport).acknowledged && answer.outcome != verdict::local_protection_error;
  return silent ? response{} : answer;
}

void recorder::answered(queue_pair& sender, const answered_request& which,
                        const response& what) noexcept {
  if (sender.attributes().path_to_peer == path_to_peer::wire) return;
  record(sender, [&](conversation& with) { with.answered(which.psn, which.sinks, what, *this); });
}

void recorder::changed(queue_pair& which, bool gone) noexcept {
  if (gone || which.state() == queue_pair_state::reset) {
    const std::lock_guard lock(mutex_);
    conversations_.erase(which.number());
    routes_.erase(which.number());
  }
  next_.changed(which, gone);
}

void recorder::put(const wire::network_header& around, const wire::packet& what) noexcept {
  frames_.put(now_, around, what);
}

}  // namespace verbena::softdev::capture
