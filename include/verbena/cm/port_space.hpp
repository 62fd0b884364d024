// SPDX-License-Identifier: MIT
// What kind of service an identifier is for, and how much private data its messages may carry.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// The space of port numbers, and the kind of queue pairs: connected ones in `tcp` and `ib`,
/// datagrams in `udp` and `ipoib`. Source: rdma_create_id(3).
enum class port_space : std::uint32_t {
  ipoib = RDMA_PS_IPOIB,  ///< datagrams that can reach those of IP over InfiniBand
  tcp = RDMA_PS_TCP,      ///< reliable connections
  udp = RDMA_PS_UDP,      ///< datagrams
  ib = RDMA_PS_IB,        ///< any kind, by service identifiers of InfiniBand
};

/// `TCP`, `UDP`, `IPOIB`, `IB`; `unknown (7)` for other values.
[[nodiscard]] std::string to_string(port_space space);

/// Whether its queue pairs are datagrams.
[[nodiscard]] constexpr bool has_datagrams(port_space space) noexcept {
  return space == port_space::udp || space == port_space::ipoib;
}

/// The messages that carry bytes of the program.
enum class message : std::uint8_t {
  request,  ///< of connect()
  reply,    ///< of accept()
  reject,   ///< of reject()
};

/// How many bytes of private data a message may carry: 56 of a request in `tcp`, 92 in `ib` and 180
/// for datagrams; 196 of a reply, 136 for datagrams; 148 of a rejection. What arrives may be
/// longer: transports fill the rest of their field with zeros. Source: rdma_connect(3),
/// rdma_accept(3), rdma_reject(3).
[[nodiscard]] constexpr std::size_t private_data_limit(port_space space, message of) noexcept {
  switch (of) {
    case message::request:
      if (has_datagrams(space)) return 180;
      return space == port_space::ib ? 92 : 56;
    case message::reply:
      return has_datagrams(space) ? 136 : 196;
    case message::reject:
      return 148;
  }
  return 0;
}

}  // namespace verbena::inline VERBENA_ABI::cm
