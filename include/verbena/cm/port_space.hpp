// SPDX-License-Identifier: MIT
// Port spaces, and the limits of private data.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// The port space, which determines the queue pairs: connected ones in `tcp` and `ib`, datagrams in
/// `udp` and `ipoib`. Source: rdma_create_id(3).
enum class port_space : std::uint32_t {
  ipoib = RDMA_PS_IPOIB,  ///< datagrams that interoperate with IP over InfiniBand
  tcp = RDMA_PS_TCP,      ///< reliable connections
  udp = RDMA_PS_UDP,      ///< datagrams
  ib = RDMA_PS_IB,        ///< any transport, with InfiniBand service identifiers
};

/// Returns `TCP`, `UDP`, `IPOIB`, `IB`; `unknown (7)` for other values.
[[nodiscard]] std::string to_string(port_space space);

/// Returns whether the port space has datagram queue pairs.
[[nodiscard]] constexpr bool has_datagrams(port_space space) noexcept {
  return space == port_space::udp || space == port_space::ipoib;
}

/// The messages that carry private data.
enum class message : std::uint8_t {
  request,  ///< of connect()
  reply,    ///< of accept()
  reject,   ///< of reject()
};

/// Returns the largest private data of a message in bytes. Requests: 56 in `tcp`, 92 in `ib`, 180
/// for datagrams. Replies: 196, and 136 for datagrams. Rejections: 148, and 136 for datagrams.
/// Received private data may be longer, as transports pad the field with zeros. Source:
/// rdma_connect(3), rdma_accept(3), rdma_reject(3).
[[nodiscard]] constexpr std::size_t private_data_limit(port_space space, message of) noexcept {
  switch (of) {
    case message::request:
      if (has_datagrams(space)) return 180;
      return space == port_space::ib ? 92 : 56;
    case message::reply:
      return has_datagrams(space) ? 136 : 196;
    case message::reject:
      return has_datagrams(space) ? 136 : 148;
  }
  return 0;
}

}  // namespace verbena::inline VERBENA_ABI::cm
