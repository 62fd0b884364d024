// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <optional>
#include <string>

#include "verbena/base/guid.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI {

/// A limit of how fast packets go out, where the device can hold it. Values as in enum ibv_rate;
/// others are kept.
enum class static_rate : std::uint8_t {
  unlimited = IBV_RATE_MAX,
  gbps_2_5 = IBV_RATE_2_5_GBPS,
  gbps_5 = IBV_RATE_5_GBPS,
  gbps_10 = IBV_RATE_10_GBPS,
  gbps_14 = IBV_RATE_14_GBPS,
  gbps_20 = IBV_RATE_20_GBPS,
  gbps_25 = IBV_RATE_25_GBPS,
  gbps_28 = IBV_RATE_28_GBPS,
  gbps_30 = IBV_RATE_30_GBPS,
  gbps_40 = IBV_RATE_40_GBPS,
  gbps_50 = IBV_RATE_50_GBPS,
  gbps_56 = IBV_RATE_56_GBPS,
  gbps_60 = IBV_RATE_60_GBPS,
  gbps_80 = IBV_RATE_80_GBPS,
  gbps_100 = IBV_RATE_100_GBPS,
  gbps_112 = IBV_RATE_112_GBPS,
  gbps_120 = IBV_RATE_120_GBPS,
  gbps_168 = IBV_RATE_168_GBPS,
  gbps_200 = IBV_RATE_200_GBPS,
  gbps_300 = IBV_RATE_300_GBPS,
  gbps_400 = IBV_RATE_400_GBPS,
  gbps_600 = IBV_RATE_600_GBPS,
  gbps_800 = IBV_RATE_800_GBPS,
  gbps_1200 = IBV_RATE_1200_GBPS,
};

/// The way to a peer. Source: struct ibv_ah_attr, ibv_create_ah(3). Threads: immutable value.
struct address_vector {
  verbena::lid lid = {};                 ///< of the peer's port, on InfiniBand
  std::optional<verbena::gid> gid = {};  ///< of the peer; needed on Ethernet
  verbena::gid_index source_gid = {};    ///< of this side, if `gid` is given
  port_number port = port_number(1);     ///< of this side
  std::uint8_t service_level = 0;        ///< at most 15
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;       ///< 20 bits; on RoCE v2 it may choose the UDP source port
  std::uint8_t source_path_bits = 0;  ///< 7 bits, added to the port's LID, on InfiniBand
  static_rate rate = static_rate::unlimited;

  friend bool operator==(const address_vector&, const address_vector&) noexcept = default;
};

/// `lid 0x12, gid ::ffff:192.0.2.1 by gid index 1, port 1`; what is at its default is left out.
[[nodiscard]] std::string to_string(const address_vector& way);

namespace detail {
/// Success, or which field is out of its range; `call` and `object` go into the error.
[[nodiscard]] result<void> check_address(const address_vector& way, std::string_view call,
                                         const std::string& object);
/// In the form of the C API. Fields out of their ranges stop the program with the rule.
[[nodiscard]] ibv_ah_attr native_address(const address_vector& way);
[[nodiscard]] address_vector from_native(const ibv_ah_attr& native) noexcept;
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
