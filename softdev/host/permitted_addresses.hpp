// SPDX-License-Identifier: MIT
// The addresses of this host that VERBENA_SOFTDEV_WIRE contains.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "softdev/host/gid_table.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/socket/packet_intake.hpp"

namespace verbena::softdev {

/// Addresses that begin with the same bits. An address alone is a prefix of 128 bits.
struct address_prefix {
  wire::network_address address{};
  unsigned bits = 128;  ///< of the 16 bytes, also for IPv4

  /// Reads an address of IPv4 or IPv6, or one with the length of a prefix (10.9.0.0/24, fd00::/64).
  /// Returns nullopt if the text is something else.
  [[nodiscard]] static std::optional<address_prefix> from_text(const std::string& text);
  [[nodiscard]] bool contains(const wire::network_address& which) const noexcept;
  bool operator==(const address_prefix&) const = default;
};

/// Threads: `receives` one thread at a time, the others thread-safe.
class permitted_addresses final : public wire::own_addresses {
 public:
  /// `only`: addresses, prefixes and names of interfaces; empty: all. `gids` outlives this.
  permitted_addresses(const std::vector<std::string>& only, const gid_table& gids);

  /// True if the setting contains the address of `own` or its interface. Asks the kernel for the
  /// name of the interface. Does not allocate.
  [[nodiscard]] bool permits(const gid_entry& own) const noexcept;
  /// True if the setting contains the address itself, its prefix or everything: then packets to it
  /// may arrive at each interface.
  [[nodiscard]] bool contains(const wire::network_address& own) const noexcept;
  /// The indexes of the interfaces that the setting contains. Asks the kernel. Allocates.
  [[nodiscard]] std::vector<std::uint32_t> listed_interfaces() const;
  /// True if `own` is an address of the GID table that the setting permits and, unless the
  /// setting contains the address itself, the interface is one of the setting or loopback. Reads
  /// the table when it has changed.
  [[nodiscard]] bool receives(const wire::network_address& own,
                              std::uint32_t interface) noexcept override;
  [[nodiscard]] bool receives_groups_at(std::uint32_t interface) noexcept override;
  /// The interfaces at which this host is to join groups of one version of IP: those with a
  /// permitted address of it, except for loopback. Asks the kernel. Allocates.
  [[nodiscard]] std::vector<std::uint32_t> interfaces_for_groups(bool ipv4) const;
  /// That of the first entry of the GID table with the address.
  [[nodiscard]] std::uint32_t interface_of(
      const wire::network_address& own) const noexcept override;

 private:
  void read_table() noexcept;

  const gid_table& gids_;
  const bool all_;
  std::vector<address_prefix> addresses_;
  std::vector<std::string> interfaces_;
  std::uint64_t version_ = 0;  ///< of the table when it was read; 0: never
  std::size_t count_ = 0;
  std::array<wire::network_address, gid_table::length> receiving_{};
  std::array<std::uint32_t, gid_table::length> receiving_at_{};  ///< the interfaces of these
  std::vector<std::uint32_t> indexes_;  ///< of `interfaces_`; 0: there is none with this name
};

}  // namespace verbena::softdev
