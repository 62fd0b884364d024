// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "verbena/base/guid.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/route.hpp"

namespace verbena::inline VERBENA_ABI {

/// A static rate limit. Values as in `ibv_rate`; unknown values are preserved.
/// Source: ibv_rate_to_mbps(3).
enum class static_rate : std::uint8_t {
  unlimited = IBV_RATE_MAX,      ///< the rate of the port
  gbps_2_5 = IBV_RATE_2_5_GBPS,  ///< 2.5 Gbit/s
  gbps_5 = IBV_RATE_5_GBPS,      ///< 5 Gbit/s
  gbps_10 = IBV_RATE_10_GBPS,    ///< 10 Gbit/s
  gbps_14 = IBV_RATE_14_GBPS,    ///< 14 Gbit/s
  gbps_20 = IBV_RATE_20_GBPS,    ///< 20 Gbit/s
  gbps_25 = IBV_RATE_25_GBPS,    ///< 25 Gbit/s
  gbps_28 = IBV_RATE_28_GBPS,    ///< 28 Gbit/s
  gbps_30 = IBV_RATE_30_GBPS,    ///< 30 Gbit/s
  gbps_40 = IBV_RATE_40_GBPS,    ///< 40 Gbit/s
  gbps_50 = IBV_RATE_50_GBPS,    ///< 50 Gbit/s
  gbps_56 = IBV_RATE_56_GBPS,    ///< 56 Gbit/s
  gbps_60 = IBV_RATE_60_GBPS,    ///< 60 Gbit/s
  gbps_80 = IBV_RATE_80_GBPS,    ///< 80 Gbit/s
  gbps_100 = IBV_RATE_100_GBPS,  ///< 100 Gbit/s
  gbps_112 = IBV_RATE_112_GBPS,  ///< 112 Gbit/s
  gbps_120 = IBV_RATE_120_GBPS,  ///< 120 Gbit/s
  gbps_168 = IBV_RATE_168_GBPS,  ///< 168 Gbit/s
  gbps_200 = IBV_RATE_200_GBPS,  ///< 200 Gbit/s
  gbps_300 = IBV_RATE_300_GBPS,  ///< 300 Gbit/s
  gbps_400 = IBV_RATE_400_GBPS,  ///< 400 Gbit/s
  gbps_600 = IBV_RATE_600_GBPS,  ///< 600 Gbit/s
  gbps_800 = 23,                 ///< 800 Gbit/s (newer rdma-core)
  gbps_1200 = 24,                ///< 1200 Gbit/s (newer rdma-core)
};

/// The address of a peer, and the attributes of packets to the peer.
/// Source: struct ibv_ah_attr, ibv_create_ah(3). Threads: immutable value.
struct address_vector {
  verbena::lid lid = {};                     ///< the LID of the peer's port on InfiniBand
  std::optional<verbena::gid> gid = {};      ///< the GID of the peer; required on Ethernet
  verbena::gid_index source_gid_index = {};  ///< index of the local GID; used if `gid` is set
  port_number port = port_number(1);         ///< the local port
  std::uint8_t service_level = 0;            ///< 0 to 15
  std::uint8_t traffic_class = 0;            ///< on RoCE, the upper six bits are the DSCP
  std::uint8_t hop_limit = 64;               ///< the maximum number of routers on the path
  std::uint32_t flow_label = 0;       ///< 20 bits; on RoCE v2 it may select the UDP source port
  std::uint8_t source_path_bits = 0;  ///< 7 bits; low bits of the source LID on InfiniBand
  static_rate rate = static_rate::unlimited;  ///< devices may round or reject a rate

  /// Returns the attributes of `via`, without the address of a peer.
  [[nodiscard]] static address_vector along(const route& via) {
    return {.port = via.port,
            .service_level = via.service_level,
            .traffic_class = via.traffic_class,
            .hop_limit = via.hop_limit};
  }

  friend bool operator==(const address_vector&, const address_vector&) noexcept = default;
};

/// Returns `lid 0x12, gid ::ffff:192.0.2.1 by gid index 1, port 1`. Omits fields that are 0, the
/// hop limit and the rate.
[[nodiscard]] std::string to_string(const address_vector& way);

namespace detail {
/// Returns `invalid_argument` if a field is out of range. `call` and `object` are for the message.
[[nodiscard]] result<void> check_address(const address_vector& way, std::string_view call,
                                         const std::string& object);
/// Converts to the C API. Precondition: check_address() succeeds.
[[nodiscard]] ibv_ah_attr native_address(const address_vector& way);
[[nodiscard]] address_vector from_native(const ibv_ah_attr& native) noexcept;
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI

/// Hashes all members.
template <>
struct std::hash<verbena::address_vector> {
  /// Returns the hash of `of`.
  std::size_t operator()(const verbena::address_vector& of) const noexcept;
};
