// SPDX-License-Identifier: MIT
// What a device can do: its identity and its limits.
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "verbena/base/enum_bits.hpp"
#include "verbena/base/guid.hpp"
#include "verbena/verbs/device_capabilities.hpp"
#include "verbena/verbs/device_clock.hpp"

namespace verbena::inline VERBENA_ABI {

/// How far atomic operations are atomic. Values as in `ibv_atomic_cap`; unknown ones are kept.
enum class atomic_scope : std::uint8_t {
  none,    ///< no atomic operations
  device,  ///< among the queue pairs of this device
  global,  ///< also with the host's processors
};

/// `none`, `device`, `global`, `unknown (7)`.
[[nodiscard]] std::string to_string(atomic_scope scope);

/// What context::query() found. Threads: immutable value.
class device_attributes {
 public:
  /// From the C API.
  explicit device_attributes(const ibv_device_attr& native) noexcept : native_(native) {}

  /// The device's identifier.
  [[nodiscard]] guid node_guid() const noexcept {
    return guid::from_network_order(native_.node_guid);
  }
  /// The identifier of the system that it is part of; shared by the devices of one adapter.
  [[nodiscard]] guid system_image_guid() const noexcept {
    return guid::from_network_order(native_.sys_image_guid);
  }
  /// What the vendor calls this version; bytes outside printable ASCII become `?`.
  [[nodiscard]] std::string firmware_version() const;
  /// Who made it, by the number that IEEE gave the vendor.
  [[nodiscard]] std::uint32_t vendor_id() const noexcept { return native_.vendor_id; }
  /// Which product it is, by the vendor's number.
  [[nodiscard]] std::uint32_t vendor_part_id() const noexcept { return native_.vendor_part_id; }
  /// The version of the hardware, by the vendor's number.
  [[nodiscard]] std::uint32_t hardware_version() const noexcept { return native_.hw_ver; }
  /// Ports, which count from 1.
  [[nodiscard]] std::uint8_t port_count() const noexcept { return native_.phys_port_cnt; }

  /// Queue pairs at once.
  [[nodiscard]] int max_queue_pairs() const noexcept { return native_.max_qp; }
  /// Requests that may be outstanding in one send or receive queue.
  [[nodiscard]] int max_work_requests() const noexcept { return native_.max_qp_wr; }
  /// Slices of one request, except those of a read.
  [[nodiscard]] int max_slices() const noexcept { return native_.max_sge; }
  /// Completion queues at once.
  [[nodiscard]] int max_completion_queues() const noexcept { return native_.max_cq; }
  /// Completions that one completion queue can hold.
  [[nodiscard]] int max_completions() const noexcept { return native_.max_cqe; }
  /// Memory regions at once.
  [[nodiscard]] int max_memory_regions() const noexcept { return native_.max_mr; }
  /// Bytes of the largest memory region.
  [[nodiscard]] std::uint64_t max_memory_region_bytes() const noexcept {
    return native_.max_mr_size;
  }
  /// Protection domains at once.
  [[nodiscard]] int max_protection_domains() const noexcept { return native_.max_pd; }
  /// Reads and atomics that a queue pair may have in flight towards it.
  [[nodiscard]] int max_reads_as_target() const noexcept { return native_.max_qp_rd_atom; }
  /// Reads and atomics that a queue pair may have in flight as their origin.
  [[nodiscard]] int max_reads_as_initiator() const noexcept { return native_.max_qp_init_rd_atom; }
  /// Reads and atomics in flight towards all queue pairs of the device together.
  [[nodiscard]] int max_reads_towards_device() const noexcept { return native_.max_res_rd_atom; }
  /// How far atomic operations are atomic.
  [[nodiscard]] atomic_scope atomics() const noexcept {
    return enum_from_bits<atomic_scope>(native_.atomic_cap);
  }
  /// The lower 32 capabilities; extended_device_attributes::capabilities() has all.
  [[nodiscard]] flags<device_capability> capabilities() const noexcept {
    return flags<device_capability>::from_mask(native_.device_cap_flags);
  }
  /// Slices of an RDMA read.
  [[nodiscard]] int max_read_slices() const noexcept { return native_.max_sge_rd; }
  /// Bit n is set if memory can be registered with pages of 2^n bytes.
  [[nodiscard]] std::uint64_t page_sizes() const noexcept { return native_.page_size_cap; }
  /// Memory windows at once.
  [[nodiscard]] int max_memory_windows() const noexcept { return native_.max_mw; }
  /// Address handles at once.
  [[nodiscard]] int max_address_handles() const noexcept { return native_.max_ah; }
  /// Shared receive queues at once.
  [[nodiscard]] int max_shared_receive_queues() const noexcept { return native_.max_srq; }
  /// Receives that may be outstanding in one shared receive queue.
  [[nodiscard]] int max_shared_receives() const noexcept { return native_.max_srq_wr; }
  /// Slices of one such receive.
  [[nodiscard]] int max_shared_receive_slices() const noexcept { return native_.max_srq_sge; }
  /// Multicast groups at once.
  [[nodiscard]] int max_multicast_groups() const noexcept { return native_.max_mcast_grp; }
  /// Queue pairs in one multicast group.
  [[nodiscard]] int max_group_members() const noexcept { return native_.max_mcast_qp_attach; }
  /// Queue pairs in all multicast groups together.
  [[nodiscard]] int max_members_of_all_groups() const noexcept {
    return native_.max_total_mcast_qp_attach;
  }
  /// Partitions that a port may be a member of.
  [[nodiscard]] std::uint16_t max_pkeys() const noexcept { return native_.max_pkeys; }
  /// How long the device may take to acknowledge: 4.096 µs · 2^n, of the five bits of
  /// `local_ca_ack_delay`.
  [[nodiscard]] std::chrono::nanoseconds ack_delay() const noexcept {
    return std::chrono::nanoseconds(std::int64_t{4096} << (native_.local_ca_ack_delay & 31U));
  }

  /// Every field, as ibv_query_device(3) filled it.
  [[nodiscard]] const ibv_device_attr& native() const noexcept { return native_; }

 private:
  ibv_device_attr native_;
};

/// Several lines, one limit each.
[[nodiscard]] std::string to_string(const device_attributes& device);

/// What context::query_extended() found. Threads: immutable value.
class extended_device_attributes {
 public:
  /// From the C API.
  explicit extended_device_attributes(const ibv_device_attr_ex& native) noexcept
      : native_(native) {}

  /// What the basic query says.
  [[nodiscard]] device_attributes basic() const noexcept {
    return device_attributes(native_.orig_attr);
  }
  /// The bits that completion timestamps count in; 0 if the device has none.
  [[nodiscard]] std::uint64_t completion_timestamp_mask() const noexcept {
    return native_.completion_timestamp_mask;
  }
  /// Ticks of completion timestamps in a millisecond; 0 if unknown.
  [[nodiscard]] std::uint64_t clock_khz() const noexcept { return native_.hca_core_clock; }
  /// How long so many ticks take, rounded towards zero; nothing if clock_khz() is unknown. What is
  /// too long for the type is its longest.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> duration_of(
      device_ticks ticks) const noexcept;
  /// All capabilities, also from providers that fill only the lower 32.
  [[nodiscard]] flags<device_capability> capabilities() const noexcept {
    return basic().capabilities() |
           flags<device_capability>::from_mask(native_.device_cap_flags_ex);
  }
  /// Whether memory may be registered with access::on_demand.
  [[nodiscard]] bool has_on_demand_paging() const noexcept {
    return on_demand().contains(on_demand_capability::support);
  }
  /// What can be registered on demand.
  [[nodiscard]] flags<on_demand_capability> on_demand() const noexcept {
    return flags<on_demand_capability>::from_mask(native_.odp_caps.general_caps);
  }
  /// What queue pairs of RC can do with such memory.
  [[nodiscard]] flags<on_demand_operation> on_demand_rc() const noexcept {
    return operations(native_.odp_caps.per_transport_caps.rc_odp_caps);
  }
  /// What queue pairs of UC can do with such memory.
  [[nodiscard]] flags<on_demand_operation> on_demand_uc() const noexcept {
    return operations(native_.odp_caps.per_transport_caps.uc_odp_caps);
  }
  /// What queue pairs of UD can do with such memory.
  [[nodiscard]] flags<on_demand_operation> on_demand_ud() const noexcept {
    return operations(native_.odp_caps.per_transport_caps.ud_odp_caps);
  }
  /// What queue pairs of XRC can do with such memory.
  [[nodiscard]] flags<on_demand_operation> on_demand_xrc() const noexcept {
    return operations(native_.xrc_odp_caps);
  }
  /// What raw packet queues can do.
  [[nodiscard]] flags<raw_packet_capability> raw_packet_capabilities() const noexcept {
    return flags<raw_packet_capability>::from_mask(native_.raw_packet_caps);
  }
  /// Operand sizes of the additions that the device can do atomically on the PCI bus.
  [[nodiscard]] flags<atomic_size> pci_fetch_add() const noexcept {
    return flags<atomic_size>::from_mask(native_.pci_atomic_caps.fetch_add);
  }
  /// The same of swaps.
  [[nodiscard]] flags<atomic_size> pci_swap() const noexcept {
    return flags<atomic_size>::from_mask(native_.pci_atomic_caps.swap);
  }
  /// The same of comparing swaps.
  [[nodiscard]] flags<atomic_size> pci_compare_swap() const noexcept {
    return flags<atomic_size>::from_mask(native_.pci_atomic_caps.compare_swap);
  }
  /// What packets can be spaced out to, in kilobits per second; zero if they cannot.
  struct pacing {
    std::uint32_t min_kbps = 0;          ///< the slowest rate
    std::uint32_t max_kbps = 0;          ///< the fastest rate
    flags<queue_pair_kind> queue_pairs;  ///< that can be paced
  };
  /// How packets can be spaced out.
  [[nodiscard]] pacing packet_pacing() const noexcept {
    const auto& caps = native_.packet_pacing_caps;
    return {.min_kbps = caps.qp_rate_limit_min,
            .max_kbps = caps.qp_rate_limit_max,
            .queue_pairs = flags<queue_pair_kind>::from_mask(caps.supported_qpts)};
  }
  /// The largest message that is cut into segments on the way; 0 if none is.
  [[nodiscard]] std::uint32_t max_segmented_bytes() const noexcept {
    return native_.tso_caps.max_tso;
  }
  /// The queue pairs whose messages can be cut into segments.
  [[nodiscard]] flags<queue_pair_kind> segmenting_queue_pairs() const noexcept {
    return flags<queue_pair_kind>::from_mask(native_.tso_caps.supported_qpts);
  }
  /// How far completion_queue::moderate() can go; zero if it cannot.
  struct moderation {
    std::uint16_t completions = 0;  ///< the most that share one notification
    std::chrono::microseconds period =
        std::chrono::microseconds(0);  ///< the longest that one is held back
  };
  /// How far notifications can be held back.
  [[nodiscard]] moderation max_moderation() const noexcept {
    return {.completions = native_.cq_mod_caps.max_cq_count,
            .period = std::chrono::microseconds(native_.cq_mod_caps.max_cq_period)};
  }
  /// Bytes of memory on the device; 0 if it has none.
  [[nodiscard]] std::uint64_t device_memory_bytes() const noexcept { return native_.max_dm_size; }
  /// Ports, also where there are more than 255.
  [[nodiscard]] std::uint32_t port_count() const noexcept {
    return native_.phys_port_cnt_ex != 0 ? native_.phys_port_cnt_ex
                                         : native_.orig_attr.phys_port_cnt;
  }

  /// Every field, as ibv_query_device_ex(3) filled it; zero where the provider did not.
  [[nodiscard]] const ibv_device_attr_ex& native() const noexcept { return native_; }

 private:
  static flags<on_demand_operation> operations(std::uint32_t mask) noexcept {
    return flags<on_demand_operation>::from_mask(mask);
  }

  ibv_device_attr_ex native_;
};

/// Several lines: the basic attributes, then what the extended query adds.
[[nodiscard]] std::string to_string(const extended_device_attributes& device);

}  // namespace verbena::inline VERBENA_ABI
