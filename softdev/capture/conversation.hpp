// SPDX-License-Identifier: MIT
// The requests of one queue pair, and the answers to them, as packets of RoCE v2: numbers them as
// adapters do, and divides messages by the path MTU.
#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include "softdev/core/message.hpp"
#include "softdev/core/types.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::capture {

/// Takes packets. Threads: one thread at a time.
class packet_output {
 public:
  virtual void put(const wire::network_header& around, const wire::packet& what) noexcept = 0;

 protected:
  ~packet_output() = default;
};

/// The addresses between which the packets of a queue pair go.
struct conversation_route {
  wire::network_address source{};
  wire::network_address destination{};
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
};

/// Threads: one thread at a time. Allocates for requests over RC that are not answered.
class conversation {
 public:
  /// `mtu`: bytes.
  conversation(const conversation_route& route, std::uint32_t first_psn, std::uint32_t mtu) noexcept
      : route_(route), mtu_(mtu), next_psn_(first_psn) {}

  /// The requester gives a request to its path: puts its packets, unless they were put and nothing
  /// says that they were lost.
  void sending(const message& what, std::span<const segment> local, packet_output& out);
  /// The path returned `answer`: puts the packets of the responder.
  void sent(const message& what, std::span<const segment> local, const response& answer,
            packet_output& out);
  /// The responder answered a request that was pending.
  void answered(std::uint32_t request_psn, std::span<const segment> sinks, const response& answer,
                packet_output& out);

 private:
  /// A request whose packets were put. A request of the device has one sequence number, on the wire
  /// it has one for each packet.
  struct request {
    message what;
    std::uint32_t first_psn = 0;
    std::uint32_t packets = 1;
    std::uint32_t msn = 0;
    bool put = false;  ///< and not lost
  };
  using requests = std::deque<request>;

  [[nodiscard]] requests::iterator find(std::uint32_t request_psn) noexcept;
  void respond(const requests::iterator& to, std::span<const segment> sinks, const response& answer,
               packet_output& out);
  [[nodiscard]] bool put_request(const request& which, std::span<const segment> local,
                                 packet_output& out) const;
  void put_read_data(const request& which, std::span<const segment> sinks,
                     packet_output& out) const;
  void put_answer(const request& which, wire::packet answer, packet_output& out) const;
  [[nodiscard]] wire::network_header towards_peer(const message& what) const noexcept;
  [[nodiscard]] wire::network_header from_peer(const message& what) const noexcept;

  conversation_route route_;
  std::uint32_t mtu_;
  std::uint32_t next_psn_;
  std::uint32_t messages_ = 0;
  requests unanswered_;        ///< with consecutive numbers
  bool datagram_put_ = false;  ///< where nobody answers: the next request was put
};

}  // namespace verbena::softdev::capture
