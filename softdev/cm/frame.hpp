// SPDX-License-Identifier: MIT
// The messages between two processes that connect: one fixed-size frame for each message of
// InfiniBand's communication management, in host byte order, because both are on one host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "softdev/cm/address.hpp"

namespace verbena::softdev::cm {

enum class frame_kind : std::uint16_t {
  request = 1,   ///< REQ
  reply,         ///< REP
  ready,         ///< RTU
  rejection,     ///< REJ
  disconnect,    ///< DREQ
  disconnected,  ///< DREP
  sidr_request,  ///< SIDR REQ
  sidr_reply,    ///< SIDR REP
  // Messages of other hosts. The process that receives them passes them to the one that listens.
  remote_request,
  remote_sidr_request,
  remote_rejection,  ///< the peer gives up a request that was not answered
};
[[nodiscard]] constexpr bool is_of_another_host(frame_kind kind) noexcept {
  return kind >= frame_kind::remote_request;
}

/// Port spaces, with the numbers of rdma_cma.h.
enum class port_space : std::uint16_t { ipoib = 0x0002, tcp = 0x0106, udp = 0x0111, ib = 0x013f };

[[nodiscard]] bool is_port_space(std::uint64_t number) noexcept;

/// The reasons of a rejection, with the numbers of InfiniBand (IBTA 12.6.7.2).
struct reject_reason {
  static constexpr std::uint32_t timeout = 4;
  static constexpr std::uint32_t invalid_communication_id = 6;
  static constexpr std::uint32_t no_listener = 8;
  static constexpr std::uint32_t other_transport = 9;
  static constexpr std::uint32_t stale_connection = 10;
  static constexpr std::uint32_t path_mtu = 26;
  static constexpr std::uint32_t consumer = 28;
  static constexpr std::uint32_t other_version = 31;
  static constexpr std::uint32_t vendor_option = 35;
};
/// The status of a SIDR reply (IBTA 12.11.2).
struct sidr_status {
  static constexpr std::uint32_t found = 0;
  static constexpr std::uint32_t no_listener = 1;
  static constexpr std::uint32_t rejected = 2;
};

/// The maximum private data of each message, in bytes.
struct private_limits {
  static constexpr std::uint8_t request = 56;
  static constexpr std::uint8_t reply = 196;
  static constexpr std::uint8_t rejection = 148;
  static constexpr std::uint8_t sidr_request = 180;
  static constexpr std::uint8_t sidr_reply = 136;
};
[[nodiscard]] std::uint8_t private_limit(frame_kind kind) noexcept;

/// Private data of the program. Threads: value.
struct private_data {
  static constexpr std::size_t capacity = 196;
  std::array<std::uint8_t, capacity> bytes{};
  std::uint8_t length = 0;
};

inline constexpr std::uint8_t largest_path_mtu = 5;  ///< IBV_MTU_4096

/// The values that one side sends about its queue pair.
struct side {
  std::uint32_t queue_pair = 0;
  std::uint32_t starting_psn = 0;  ///< of the first packet of the other side (IBTA 12.7.31)
  std::uint32_t queue_key = 0;
  std::array<std::uint8_t, 16> gid{};
  std::uint16_t lid = 0;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t flow_control = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t shared_receives = 0;
  /// The largest payload of a packet (ibv_mtu) between hosts; 0: not given, or the same host.
  std::uint8_t path_mtu = 0;
  std::uint32_t vendor = 0;   ///< enhanced connection establishment
  std::uint32_t options = 0;  ///< enhanced connection establishment
};

struct frame {
  frame_kind kind = frame_kind::request;
  port_space space = port_space::tcp;
  address source;
  address destination;
  side from;
  std::uint32_t reason = 0;  ///< of a rejection, or the status of a SIDR reply
  private_data data;
  // In a message of another host: the peer's communication ID and transaction ID. In the request
  // that mad_gateway passes on: its own communication ID.
  std::uint32_t communication_id = 0;
  std::uint64_t transaction = 0;
};

enum class send_outcome : std::uint8_t { sent, lost };
/// Sends one frame. Never blocks: returns `lost` if the socket is full or closed. Thread-safe.
[[nodiscard]] send_outcome send_frame(int socket, const frame& what) noexcept;

/// Refuses the request in a peer's first frame; `reason` is a reject_reason.
void send_rejection(int socket, const frame& request, std::uint32_t reason) noexcept;

enum class receive_outcome : std::uint8_t { received, nothing, ended, malformed, other_version };
/// Receives one frame. Never blocks. Returns `malformed` for an unknown kind, port space or family,
/// a number out of range, too much private data or a wrong size.
[[nodiscard]] receive_outcome receive_frame(int socket, frame& out) noexcept;

}  // namespace verbena::softdev::cm
