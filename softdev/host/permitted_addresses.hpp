// SPDX-License-Identifier: MIT
// The addresses of this host that VERBENA_SOFTDEV_WIRE contains.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "softdev/host/gid_table.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/socket/packet_receiver.hpp"

namespace verbena::softdev {

/// The addresses that begin with the same bits. A single address is a prefix of 128 bits.
struct address_prefix {
  wire::network_address address{};
  unsigned bits = 128;  ///< of the 16 bytes, also for IPv4

  /// Parses an IPv4 or IPv6 address, with or without a prefix length (10.9.0.0/24, fd00::/64).
  /// Returns nullopt for any other text.
  [[nodiscard]] static std::optional<address_prefix> from_text(const std::string& text);
  [[nodiscard]] bool contains(const wire::network_address& which) const noexcept;
  bool operator==(const address_prefix&) const = default;
};

/// Moves the addresses that a list contains before the others, in the order of the list. Addresses
/// of one part of the list keep their order. 127.0.0.0/8 reaches no other host, and is not moved to
/// the front. `list`: addresses, prefixes and names of interfaces. Asks the kernel. Allocates.
void order_by_list(std::span<gid_entry> addresses, const std::vector<std::string>& list);

/// Threads: one thread at a time calls receives() and receives_groups_at(); the other functions are
/// thread-safe.
class permitted_addresses final : public wire::own_addresses {
 public:
  /// `only`: addresses, prefixes and names of interfaces; empty: all. `gids` must outlive this
  /// object.
  permitted_addresses(const std::vector<std::string>& only, const gid_table& gids);

  /// Returns whether the setting contains the address of `own` or its interface. Asks the kernel
  /// for the name of the interface. Does not allocate.
  [[nodiscard]] bool permits(const gid_entry& own) const noexcept;
  /// Returns whether the setting contains the address itself, its prefix or all addresses. Packets
  /// to such an address may arrive at any interface.
  [[nodiscard]] bool contains(const wire::network_address& own) const noexcept;
  /// Returns the indexes of the interfaces that the setting contains. Returns nullopt if the kernel
  /// cannot be asked now, for example because the process has no free descriptor. Allocates.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> listed_interfaces() const;
  /// Returns whether packets to `own` may arrive at `interface`. `own` must be in the GID table and
  /// permitted. Unless the setting contains the address itself, the interface must be in the
  /// setting, or loopback. Reads the table again if it has changed.
  [[nodiscard]] bool receives(const wire::network_address& own,
                              std::uint32_t interface) noexcept override;
  [[nodiscard]] bool receives_groups_at(std::uint32_t interface) noexcept override;
  /// Returns the interfaces at which this host must join groups of one version of IP: those with a
  /// permitted address of this version, except loopback. Asks the kernel. Allocates.
  [[nodiscard]] std::vector<std::uint32_t> interfaces_for_groups(bool ipv4) const;
  /// Returns the interface of the first entry of the GID table with the address; 0 without one.
  [[nodiscard]] std::uint32_t interface_of(
      const wire::network_address& own) const noexcept override;

 private:
  [[nodiscard]] std::optional<bool> find_permission(const gid_entry& own) const noexcept;
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
