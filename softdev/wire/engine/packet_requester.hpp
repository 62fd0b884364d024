// SPDX-License-Identifier: MIT
// The requester side of RC and UC packets. The core's requester keeps the send queue, retries after
// RNR NAKs and generates completions. This class assigns PSNs, retransmits packets and reports the
// results of requests to the core's requester.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "softdev/core/message.hpp"
#include "softdev/core/types.hpp"
#include "softdev/wire/engine/kept_naks.hpp"
#include "softdev/wire/engine/packet_output.hpp"
#include "softdev/wire/engine/response_window.hpp"
#include "softdev/wire/engine/retransmission.hpp"
#include "softdev/wire/engine/retransmission_timer.hpp"
#include "softdev/wire/engine/selective_offers.hpp"
#include "softdev/wire/engine/send_flow.hpp"
#include "softdev/wire/engine/sent_requests.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

/// Threads: one thread at a time, with the send lock of the queue pair. Allocates once, when more
/// requests are in flight than the base window has packets.
class packet_requester {
 public:
  /// The maximum number of packets in flight, and that with a peer that has granted more.
  static constexpr std::uint32_t window = send_flow::base_window;
  static constexpr std::uint32_t largest_window = psn_set::capacity;
  static_assert(window <= sent_requests::initial_capacity);
  static_assert(largest_window <= sent_requests::largest_capacity);
  static_assert(largest_window <= response_window::capacity, "see response_window::dropped_");

  packet_requester(queue_pair& self, std::uint32_t mtu, packet_output& out,
                   const offer_options& offers) noexcept;

  /// See remote_path::submit.
  [[nodiscard]] response submit(const message& what, std::span<const segment> local) noexcept;
  /// Processes an ACK, a NAK, or a response to a READ or atomic operation. The caller runs the
  /// requester afterwards.
  void receive(const packet& what) noexcept;
  /// Reports congestion on the path to or from the peer. Returns whether the congestion window has
  /// become smaller.
  bool handle_cnp() noexcept {
    return begun_ && flow_.congestion().notify(requests_.oldest_psn(), sent_end_);
  }
  /// If the deadline has passed, retransmits unacknowledged packets, or fails the oldest
  /// request if its retry count is exhausted. A pause of the pace can end too. The caller runs the
  /// requester afterwards.
  void expire() noexcept;

  /// Returns when `expire` is due; `never` if no packet waits for a response or its time.
  [[nodiscard]] time_ns deadline() const noexcept {
    return std::min(timer_.deadline(), flow_.pause_end());
  }
  /// True if the output had no room in the last `submit`.
  [[nodiscard]] bool waits_for_room() const noexcept { return flow_.waits_for_room; }

 private:
  /// The state of loss recovery since an acknowledgement last made progress.
  struct attempts {
    std::uint8_t retries = 0;
    std::uint8_t early = 0;  ///< retransmissions before the ACK timeout; they are not retries
    bool repairing = false;  ///< all unacknowledged packets were retransmitted
  };
  /// The state of loss recovery.
  struct recovery {
    attempts since_progress{};
    retransmission resends{};
    response_window responses{};
    std::uint32_t executed_end = 0;  ///< the responder has executed all requests before this PSN
    selective_offers offers;
  };
  [[nodiscard]] response submit_unreliable(const message& what,
                                           std::span<const segment> local) noexcept;
  [[nodiscard]] std::uint32_t room_from(std::uint32_t psn) noexcept;
  [[nodiscard]] bool may_put() noexcept;
  [[nodiscard]] response put_packets(sent_request& which, const message& what,
                                     std::span<const segment> local) noexcept;
  [[nodiscard]] response put_read_or_atomic(sent_request& which, const message& what) noexcept;
  [[nodiscard]] bool put_read(const sent_request& which, const message& what) noexcept;
  void note_repeated_read(const sent_request& which, std::uint32_t begin,
                          std::uint32_t end) noexcept;
  [[nodiscard]] bool put(const packet& made) noexcept;
  void note_sent(std::uint32_t end_psn, std::uint32_t measured_end) noexcept;

  void receive_nak(const packet& what) noexcept;
  void receive_selective(const packet& what) noexcept;
  void receive_grant(const packet& what) noexcept;
  [[nodiscard]] std::optional<std::uint32_t> expected_psn() noexcept;
  [[nodiscard]] bool has_missing() noexcept;
  void retransmit_early() noexcept;
  [[nodiscard]] bool was_sent(std::uint32_t psn) const noexcept {
    return psn_distance(psn, sent_end_) > 0;
  }
  [[nodiscard]] bool skips(std::uint32_t psn) const noexcept {
    return was_sent(psn) && !recovery_.resends.sends(psn);
  }
  /// Returns whether a packet that was sent before is not in flight, or is not sent again.
  [[nodiscard]] bool is_exempt(std::uint32_t psn) const noexcept {
    return was_sent(psn) && (recovery_.resends.is_selective() || !recovery_.resends.sends(psn));
  }
  /// Returns whether a retransmission does not need room in the congestion window. Those of the
  /// part beyond the base do, so that the loss of many packets causes no burst. A probe is one
  /// packet, and it is the last one in flight: the halved window has no room for it.
  [[nodiscard]] bool ignores_window(std::uint32_t oldest, std::uint32_t psn) const noexcept {
    return is_exempt(psn) && (psn_distance(oldest, psn) < static_cast<std::int32_t>(window) ||
                              !recovery_.resends.sends(psn) || recovery_.resends.probes());
  }
  /// Returns whether an early timeout sends a probe. After a grant alone, READs are requested again
  /// as a whole, which is more than a probe.
  [[nodiscard]] bool may_probe() noexcept {
    const selective_offers& offers = recovery_.offers;
    return offers.accepted() || (offers.peer_reports() && !requests_.has_read_or_atomic());
  }
  void apply_fatal_nak() noexcept;
  void apply_rnr_nak() noexcept;
  void end_badly_answered(const packet& what) noexcept;
  void receive_data(const packet& what) noexcept;
  void receive_original(const packet& what) noexcept;
  [[nodiscard]] bool fits(const sent_request& which, std::uint32_t index,
                          const packet& what) const noexcept;
  /// A READ or atomic operation that gets a response.
  struct answered {
    sent_request* which = nullptr;
    bool waits = false;  ///< to be submitted again
  };
  [[nodiscard]] answered find_answered(const packet& what) noexcept;
  [[nodiscard]] bool is_first(const sent_request& which) noexcept {
    return which.oldest_psn() == requests_.oldest_psn();
  }
  [[nodiscard]] response complete_early(const sent_request& done,
                                        std::span<const segment> local) noexcept;
  void take_recorded(sent_request& which) noexcept;
  void complete_following() noexcept;
  void request_missing() noexcept;
  void acknowledge_before(std::uint32_t end_psn) noexcept;
  void answer(const sent_request& which, const response& what) noexcept;
  void end_oldest(const response& what) noexcept;
  void resend() noexcept;
  void repair() noexcept;
  void select_all() noexcept;
  void go_back() noexcept;
  void fail_retries_exceeded() noexcept;
  void note_progress() noexcept;
  void start_timer() noexcept;

  queue_pair& self_;
  packet_output& out_;
  const std::uint32_t mtu_;
  const bool acknowledged_;     ///< the transport is RC
  std::uint32_t sent_end_ = 0;  ///< the PSN after the last PSN that was sent
  sent_requests requests_;
  recovery recovery_;
  fatal_nak refused_;
  rnr_nak rnr_;
  bool begun_ = false;
  send_flow flow_;
  retransmission_timer timer_;
};

}  // namespace verbena::softdev::wire
