// SPDX-License-Identifier: MIT
// The addresses of this host that VERBENA_SOFTDEV_WIRE contains.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "softdev/host/gid_table.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/socket/packet_intake.hpp"

namespace verbena::softdev {

/// Threads: `receives` one thread at a time, `permits` thread-safe.
class permitted_addresses final : public wire::own_addresses {
 public:
  /// `only`: addresses and names of interfaces; empty: all. `gids` outlives this.
  permitted_addresses(const std::vector<std::string>& only, const gid_table& gids);

  /// True if the setting contains the address of `own` or its interface. Asks the kernel for the
  /// name of the interface. Does not allocate.
  [[nodiscard]] bool permits(const gid_entry& own) const noexcept;
  /// True if the setting contains the address itself, or everything: then packets to it may arrive
  /// at each interface.
  [[nodiscard]] bool contains(const wire::network_address& own) const noexcept;
  /// The indexes of the interfaces that the setting contains. Asks the kernel. Allocates.
  [[nodiscard]] std::vector<std::uint32_t> listed_interfaces() const;
  /// True if `own` is an IPv4 address of the GID table that the setting permits and, unless the
  /// setting contains the address itself, the interface is one of the setting or loopback. Reads
  /// the table when it has changed.
  [[nodiscard]] bool receives(const wire::network_address& own,
                              std::uint32_t interface) noexcept override;

 private:
  const gid_table& gids_;
  const bool all_;
  std::vector<wire::network_address> addresses_;
  std::vector<std::string> interfaces_;
  std::uint64_t version_ = 0;  ///< of the table when it was read; 0: never
  std::size_t count_ = 0;
  std::array<wire::network_address, gid_table::length> receiving_{};
  std::vector<std::uint32_t> indexes_;  ///< of `interfaces_`; 0: there is none with this name
};

}  // namespace verbena::softdev
