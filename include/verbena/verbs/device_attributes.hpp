// SPDX-License-Identifier: MIT
// Attributes of devices. Source: ibv_query_device(3), ibv_query_device_ex(3).
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "verbena/base/enum_bits.hpp"
#include "verbena/base/guid.hpp"
#include "verbena/sys/native_value.hpp"
#include "verbena/verbs/device_capabilities.hpp"
#include "verbena/verbs/device_clock.hpp"

namespace verbena::inline VERBENA_ABI {

/// The scope of atomic operations. Values as in `ibv_atomic_cap`; unknown values are preserved.
enum class atomic_scope : std::uint8_t {
  none,    ///< atomic operations are not supported
  device,  ///< atomic among the queue pairs of this device
  global,  ///< atomic also with processors and other devices
};

/// Returns `none`, `device`, `global` or `unknown (7)`.
[[nodiscard]] std::string to_string(atomic_scope scope);

/// The result of context::query(). Threads: immutable value.
class device_attributes {
 public:
  /// Converts from the C API.
  explicit device_attributes(const ibv_device_attr& native) noexcept : native_(native) {}

  /// Returns the node GUID.
  [[nodiscard]] guid node_guid() const noexcept {
    return guid::from_network_order(native_.node_guid);
  }
  /// Returns the system image GUID, which the devices of one adapter share.
  [[nodiscard]] guid system_image_guid() const noexcept {
    return guid::from_network_order(native_.sys_image_guid);
  }
  /// Returns the firmware version. Bytes outside printable ASCII are `?`.
  [[nodiscard]] std::string firmware_version() const;
  /// Returns the vendor ID (IEEE OUI).
  [[nodiscard]] std::uint32_t vendor_id() const noexcept { return native_.vendor_id; }
  /// Returns the part ID of the vendor.
  [[nodiscard]] std::uint32_t vendor_part_id() const noexcept { return native_.vendor_part_id; }
  /// Returns the hardware version.
  [[nodiscard]] std::uint32_t hardware_version() const noexcept { return native_.hw_ver; }
  /// Returns the number of ports. Ports count from 1.
  [[nodiscard]] std::uint8_t port_count() const noexcept { return native_.phys_port_cnt; }

  /// Returns the maximum number of queue pairs.
  [[nodiscard]] int max_queue_pairs() const noexcept { return native_.max_qp; }
  /// Returns the maximum number of outstanding work requests of a send or receive queue.
  [[nodiscard]] int max_work_requests() const noexcept { return native_.max_qp_wr; }
  /// Returns the maximum number of slices of a work request other than an RDMA READ.
  [[nodiscard]] int max_sge() const noexcept { return native_.max_sge; }
  /// Returns the maximum number of completion queues.
  [[nodiscard]] int max_completion_queues() const noexcept { return native_.max_cq; }
  /// Returns the maximum number of entries of a completion queue.
  [[nodiscard]] int max_completions() const noexcept { return native_.max_cqe; }
  /// Returns the maximum number of memory regions.
  [[nodiscard]] int max_memory_regions() const noexcept { return native_.max_mr; }
  /// Returns the maximum size of a memory region in bytes.
  [[nodiscard]] std::uint64_t max_memory_region_bytes() const noexcept {
    return native_.max_mr_size;
  }
  /// Returns the maximum number of protection domains.
  [[nodiscard]] int max_protection_domains() const noexcept { return native_.max_pd; }
  /// Returns the maximum responder resources of a queue pair: outstanding reads and atomics of its
  /// peer.
  [[nodiscard]] int max_responder_resources() const noexcept { return native_.max_qp_rd_atom; }
  /// Returns the maximum initiator depth of a queue pair: its own outstanding reads and atomics.
  [[nodiscard]] int max_initiator_depth() const noexcept { return native_.max_qp_init_rd_atom; }
  /// Returns the maximum responder resources of all queue pairs together.
  [[nodiscard]] int max_total_responder_resources() const noexcept {
    return native_.max_res_rd_atom;
  }
  /// Returns the scope of atomic operations.
  [[nodiscard]] atomic_scope atomics() const noexcept {
    return enum_from_bits<atomic_scope>(native_.atomic_cap);
  }
  /// Returns the lower 32 capability bits. extended_device_attributes::capabilities() has all bits.
  [[nodiscard]] flags<device_capability> capabilities() const noexcept {
    return flags<device_capability>::from_mask(native_.device_cap_flags);
  }
  /// Returns the maximum number of slices of an RDMA READ.
  [[nodiscard]] int max_read_sge() const noexcept { return native_.max_sge_rd; }
  /// Returns the supported page sizes: bit n is set for pages of 2^n bytes.
  [[nodiscard]] std::uint64_t page_sizes() const noexcept { return native_.page_size_cap; }
  /// Returns the maximum number of memory windows.
  [[nodiscard]] int max_memory_windows() const noexcept { return native_.max_mw; }
  /// Returns the maximum number of address handles.
  [[nodiscard]] int max_address_handles() const noexcept { return native_.max_ah; }
  /// Returns the maximum number of shared receive queues.
  [[nodiscard]] int max_shared_receive_queues() const noexcept { return native_.max_srq; }
  /// Returns the maximum number of outstanding receives of a shared receive queue.
  [[nodiscard]] int max_shared_receives() const noexcept { return native_.max_srq_wr; }
  /// Returns the maximum number of slices of a receive of a shared receive queue.
  [[nodiscard]] int max_srq_sge() const noexcept { return native_.max_srq_sge; }
  /// Returns the maximum number of multicast groups.
  [[nodiscard]] int max_multicast_groups() const noexcept { return native_.max_mcast_grp; }
  /// Returns the maximum number of queue pairs in one multicast group.
  [[nodiscard]] int max_group_members() const noexcept { return native_.max_mcast_qp_attach; }
  /// Returns the maximum number of queue pairs in all multicast groups together.
  [[nodiscard]] int max_members_of_all_groups() const noexcept {
    return native_.max_total_mcast_qp_attach;
  }
  /// Returns the maximum number of partitions of a port.
  [[nodiscard]] std::uint16_t max_pkeys() const noexcept { return native_.max_pkeys; }
  /// Returns the local CA ACK delay, the longest time from the receipt of a packet to its
  /// acknowledgement: 4.096 µs · 2^n for the lower five bits n of `local_ca_ack_delay`.
  [[nodiscard]] std::chrono::nanoseconds ack_delay() const noexcept {
    return std::chrono::nanoseconds(std::int64_t{4096} << (native_.local_ca_ack_delay & 31U));
  }

  /// Returns the structure of ibv_query_device(3).
  [[nodiscard]] const ibv_device_attr& native() const noexcept { return native_; }

 private:
  ibv_device_attr native_;
};

/// Returns several lines, each with one limit.
[[nodiscard]] std::string to_string(const device_attributes& device);

/// The result of context::query_extended(). Threads: immutable value.
class extended_device_attributes {
 public:
  /// Converts from the C API. Precondition: the bytes that the provider did not fill are zero,
  /// including padding.
  explicit extended_device_attributes(const ibv_device_attr_ex& native) noexcept : room_(native) {}

  /// Returns the basic attributes.
  [[nodiscard]] device_attributes basic() const noexcept {
    return device_attributes(native().orig_attr);
  }
  /// Returns the valid bits of completion timestamps; 0 if the device does not support them.
  [[nodiscard]] std::uint64_t completion_timestamp_mask() const noexcept {
    return native().completion_timestamp_mask;
  }
  /// Returns the frequency of completion timestamps in kHz; 0 if unknown.
  [[nodiscard]] std::uint64_t clock_khz() const noexcept { return native().hca_core_clock; }
  /// Converts ticks to a duration, rounded towards zero. If clock_khz() is 0 or implausible (above
  /// 10^10), returns `nullopt`. A duration out of range becomes the nearest limit of the type.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> duration_of(
      device_ticks ticks) const noexcept;
  /// Returns all capabilities, including those of providers that fill only the lower 32 bits.
  [[nodiscard]] flags<device_capability> capabilities() const noexcept {
    return basic().capabilities() |
           flags<device_capability>::from_mask(native().device_cap_flags_ex);
  }
  /// Returns whether memory can be registered with access::on_demand.
  [[nodiscard]] bool has_on_demand_paging() const noexcept {
    return on_demand().contains(on_demand_capability::support);
  }
  /// Returns the general capabilities of on-demand paging.
  [[nodiscard]] flags<on_demand_capability> on_demand() const noexcept {
    return flags<on_demand_capability>::from_mask(native().odp_caps.general_caps);
  }
  /// Returns the operations of RC queue pairs on memory with on-demand paging.
  [[nodiscard]] flags<on_demand_operation> on_demand_rc() const noexcept {
    return operations(native().odp_caps.per_transport_caps.rc_odp_caps);
  }
  /// Returns the operations of UC queue pairs on memory with on-demand paging.
  [[nodiscard]] flags<on_demand_operation> on_demand_uc() const noexcept {
    return operations(native().odp_caps.per_transport_caps.uc_odp_caps);
  }
  /// Returns the operations of UD queue pairs on memory with on-demand paging.
  [[nodiscard]] flags<on_demand_operation> on_demand_ud() const noexcept {
    return operations(native().odp_caps.per_transport_caps.ud_odp_caps);
  }
  /// Returns the operations of XRC queue pairs on memory with on-demand paging.
  [[nodiscard]] flags<on_demand_operation> on_demand_xrc() const noexcept {
    return operations(native().xrc_odp_caps);
  }
  /// Returns the capabilities of raw packet queues.
  [[nodiscard]] flags<raw_packet_capability> raw_packet_capabilities() const noexcept {
    return flags<raw_packet_capability>::from_mask(native().raw_packet_caps);
  }
  /// Returns the operand sizes of fetch-and-add on the PCI bus.
  [[nodiscard]] flags<atomic_size> pci_fetch_add() const noexcept {
    return flags<atomic_size>::from_mask(native().pci_atomic_caps.fetch_add);
  }
  /// Returns the operand sizes of swap on the PCI bus.
  [[nodiscard]] flags<atomic_size> pci_swap() const noexcept {
    return flags<atomic_size>::from_mask(native().pci_atomic_caps.swap);
  }
  /// Returns the operand sizes of compare-and-swap on the PCI bus.
  [[nodiscard]] flags<atomic_size> pci_compare_swap() const noexcept {
    return flags<atomic_size>::from_mask(native().pci_atomic_caps.compare_swap);
  }
  /// Packet pacing rates in kbit/s; zero if pacing is not supported.
  struct pacing {
    std::uint32_t min_kbps = 0;          ///< the slowest rate
    std::uint32_t max_kbps = 0;          ///< the fastest rate
    flags<queue_pair_kind> queue_pairs;  ///< the types of queue pairs that support pacing
  };
  /// Returns the limits of packet pacing.
  [[nodiscard]] pacing packet_pacing() const noexcept {
    const auto& caps = native().packet_pacing_caps;
    return {.min_kbps = caps.qp_rate_limit_min,
            .max_kbps = caps.qp_rate_limit_max,
            .queue_pairs = flags<queue_pair_kind>::from_mask(caps.supported_qpts)};
  }
  /// Returns the largest message for TCP segmentation offload; 0 if it is not supported.
  [[nodiscard]] std::uint32_t max_tso_bytes() const noexcept { return native().tso_caps.max_tso; }
  /// Returns the types of queue pairs that support TCP segmentation offload.
  [[nodiscard]] flags<queue_pair_kind> tso_queue_pairs() const noexcept {
    return flags<queue_pair_kind>::from_mask(native().tso_caps.supported_qpts);
  }
  /// Limits of completion_queue::moderate(); zero if moderation is not supported.
  struct moderation {
    std::uint16_t completions = 0;  ///< maximum number of completions for one event
    std::chrono::microseconds period = std::chrono::microseconds(0);  ///< maximum delay of an event
  };
  /// Returns the limits of completion moderation.
  [[nodiscard]] moderation max_moderation() const noexcept {
    return {.completions = native().cq_mod_caps.max_cq_count,
            .period = std::chrono::microseconds(native().cq_mod_caps.max_cq_period)};
  }
  /// Returns the size of the device memory in bytes (ibv_alloc_dm(3)); 0 if it is not supported.
  [[nodiscard]] std::uint64_t device_memory_bytes() const noexcept { return native().max_dm_size; }
  /// Returns the number of ports, which may be more than 255.
  [[nodiscard]] std::uint32_t port_count() const noexcept {
    constexpr std::size_t phys_port_cnt_ex = 396;  // a member since rdma-core 35
    const auto ports = room_.member_at<std::uint32_t>(phys_port_cnt_ex);
    return ports != 0 ? ports : native().orig_attr.phys_port_cnt;
  }

  /// Returns the structure of ibv_query_device_ex(3). Fields that the provider did not fill are
  /// zero.
  [[nodiscard]] const ibv_device_attr_ex& native() const noexcept { return room_.get(); }

 private:
  static flags<on_demand_operation> operations(std::uint32_t mask) noexcept {
    return flags<on_demand_operation>::from_mask(mask);
  }

  sys::native_value<ibv_device_attr_ex, 512> room_;
};

/// Returns several lines: the basic attributes, then the extended ones.
[[nodiscard]] std::string to_string(const extended_device_attributes& device);

}  // namespace verbena::inline VERBENA_ABI
