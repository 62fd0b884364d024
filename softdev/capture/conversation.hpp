// SPDX-License-Identifier: MIT
// Creates the RoCE v2 packets of the requests of one queue pair and of the responses to them.
// Assigns PSNs as adapters do, and segments messages by the path MTU.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "softdev/core/message.hpp"
#include "softdev/core/types.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::capture {

/// Receives the packets of conversations. Threads: one thread at a time.
class packet_output {
 public:
  virtual void put(const wire::network_header& around, const wire::packet& what) noexcept = 0;

 protected:
  ~packet_output() = default;
};

/// The addresses in the packets of a queue pair.
struct conversation_route {
  wire::network_address source{};
  wire::network_address destination{};
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
};

/// Threads: one thread at a time. Allocates for RC requests that have no response yet.
class conversation {
 public:
  /// `mtu`: in bytes.
  conversation(const conversation_route& route, std::uint32_t first_psn, std::uint32_t mtu) noexcept
      : route_(route), mtu_(mtu), next_psn_(first_psn) {}

  /// Puts the packets of a request before it is submitted to its path, unless they were put before
  /// and are not lost.
  void sending(const message& what, std::span<const segment> local, packet_output& out);
  /// Puts the response packets after the path has returned `answer`.
  void sent(const message& what, std::span<const segment> local, const response& answer,
            packet_output& out);
  /// Puts the response packets after the responder has answered a pending request.
  void answered(std::uint32_t request_psn, std::span<const segment> sinks, const response& answer,
                packet_output& out);

 private:
  /// A request. It has one sequence number in the device, and one PSN per packet on the wire.
  struct request {
    message what;
    std::uint32_t first_psn = 0;
    std::uint32_t packets = 1;
    std::uint32_t msn = 0;
    bool put = false;  ///< its packets were put and are not lost
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
  requests unanswered_;  ///< with consecutive numbers
  /// Of UC and UD: the PSN of a request in progress whose packets were put. The PSN stays when the
  /// request goes on, and changes if the request is given up.
  std::optional<std::uint32_t> put_psn_;
};

}  // namespace verbena::softdev::capture
