// SPDX-License-Identifier: MIT
// The attributes of soft0: a RoCE v2 adapter with one P_Key and a GID table of the host's
// addresses, the same for each port; an InfiniBand adapter with LIDs, P_Keys and GIDs made of its
// GUID; or an EFA with one such GID. Plain values; the shim copies them to the structs of verbs.h.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "softdev/core/port_state.hpp"
#include "softdev/host/gid_table.hpp"

namespace verbena::softdev {

/// The limits of objects per process that softdev/core does not set.
struct object_limits {
  static constexpr int max_cq = 16384;
  static constexpr int max_pd = 32768;
  static constexpr int max_srq = 16384;
  static constexpr int max_ah = 65536;
  static constexpr int completion_vectors = 8;
};

/// The objects of this process that count against object_limits. Threads: thread-safe.
struct object_counts {
  std::atomic<int> completion_queues{0};
  std::atomic<int> domains{0};
  std::atomic<int> shared_queues{0};
  std::atomic<int> address_handles{0};
};

/// Per lane, as in ibv_port_attr::active_speed.
struct port_speed {
  static constexpr std::uint8_t edr = 32;  ///< 25 Gb/s
  static constexpr std::uint8_t hdr = 64;  ///< 50 Gb/s
};

/// The identity of the device. The vendor identifier has the locally administered bit set, because
/// it is not assigned to a vendor.
struct device_identity {
  static constexpr const char* name = "soft0";
  static constexpr std::uint32_t vendor_id = 0x025642;
  static constexpr std::uint32_t vendor_part_id = 1;
  static constexpr std::uint32_t hardware_version = 1;
};

/// The kind of adapter that soft0 presents.
enum class persona_kind : std::uint8_t { roce, infiniband, efa };

/// The values of soft0 as an Elastic Fabric Adapter: the numbers by which programs recognize one,
/// and the sizes of its queues (rdma-core's providers/efa, the kernel's efa_verbs.c).
struct efa_identity {
  static constexpr std::uint32_t vendor_id = 0x1d0f;
  static constexpr std::uint32_t vendor_part_id = 0xefa1;
  static constexpr std::uint32_t max_send_wr = 4096;
  static constexpr std::uint32_t max_receive_wr = 8192;
  static constexpr std::uint32_t max_send_sge = 2;
  static constexpr std::uint32_t max_receive_sge = 3;
  static constexpr std::uint32_t max_rdma_sge = 2;
  static constexpr std::uint32_t max_inline_bytes = 32;
  /// The port has no LID. Between the processes of the host this number replaces it, so that ports
  /// of different kinds exchange no messages.
  static constexpr std::uint16_t own_lid = 0xffff;
};

/// The attributes that depend on the host and on the kind of adapter. Threads: immutable.
struct persona {
  static constexpr int gid_table_length = gid_table::length;
  /// Returns the number of entries of the GID table that the port reports.
  [[nodiscard]] int gid_count() const noexcept {
    return kind == persona_kind::efa ? 1 : gid_table_length;
  }

  persona_kind kind = persona_kind::roce;
  std::uint16_t lid = 0;     ///< 0 on Ethernet
  std::uint16_t sm_lid = 0;  ///< of the subnet manager; 0 on Ethernet
  /// The P_Key table; an entry of 0 is empty.
  std::vector<std::uint16_t> pkeys{default_partition};
  std::array<std::uint8_t, 8> node_guid{};  ///< network order, never zero, the same after a reboot
  std::vector<gid_entry> gids;              ///< at most gid_table_length; index 0 is link-local
  /// False if the kernel could not be asked for all addresses, for example because the process has
  /// no free descriptor. `gids` then lacks addresses.
  bool complete = true;
  std::vector<std::string> preferred;  ///< the list that has ordered `gids`
};

/// Returns a MAC address that depends only on `seed` (the text of /etc/machine-id, or a host name),
/// with the locally administered bit.
[[nodiscard]] std::array<std::uint8_t, 6> hardware_address(std::span<const char> seed) noexcept;

/// Describes this host: identifier, interfaces, addresses. `preferred`: the list in
/// VERBENA_SOFTDEV_WIRE, which orders the addresses of each kind (order_by_list). Reads files, asks
/// the kernel, allocates.
[[nodiscard]] persona describe_host(persona_kind kind = persona_kind::roce,
                                    std::vector<std::string> preferred = {});

}  // namespace verbena::softdev
