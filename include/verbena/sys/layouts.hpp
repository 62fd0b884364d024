// SPDX-License-Identifier: MIT
// Structures that the headers of rdma-core 28 or of an OFED lack. The ABI fixes their layouts, so
// the functions of a newer library can be called.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

extern "C" {
struct efadv_cq;
struct efadv_device_attr;
}

namespace verbena::inline VERBENA_ABI::sys {

/// The layout of `ibv_gid_entry` (rdma-core 32).
struct gid_entry_layout {
  ibv_gid gid;                    ///< the address
  std::uint32_t gid_index;        ///< index in the table of the port
  std::uint32_t port_num;         ///< the port, from 1
  std::uint32_t gid_type;         ///< value of `ibv_gid_type`
  std::uint32_t interface_index;  ///< `ndev_ifindex`; 0: no network interface
};

/// The layout of `ibv_ece` (rdma-core 31).
struct ece_layout {
  std::uint32_t vendor_id;  ///< the vendor that defines the options
  std::uint32_t options;    ///< a mask
  std::uint32_t comp_mask;  ///< 0
};

/// The layout of `efadv_device_attr` (rdma-core 28).
struct efa_device_layout {
  std::uint64_t comp_mask;        ///< 0
  std::uint32_t max_sq_wr;        ///< requests of a send queue
  std::uint32_t max_rq_wr;        ///< requests of a receive queue
  std::uint16_t max_sq_sge;       ///< slices of a send request
  std::uint16_t max_rq_sge;       ///< slices of a receive
  std::uint16_t inline_buf_size;  ///< inline data in bytes
  std::uint16_t reserved;         ///< used by later versions
  std::uint32_t device_caps;      ///< mask of efa::capability
  std::uint32_t max_rdma_size;    ///< bytes of a READ or WRITE
};

/// The layout of `efadv_ah_attr` (rdma-core 26).
struct efa_address_layout {
  std::uint64_t comp_mask;       ///< 0
  std::uint16_t address_handle;  ///< `ahn`
  std::uint16_t reserved[3];     ///< 0. NOLINT(modernize-avoid-c-arrays): the layout of C
};

/// The layout of `efadv_qp_init_attr` (rdma-core 26).
struct efa_queue_pair_layout {
  std::uint64_t comp_mask;  ///< 0
  std::uint32_t type;       ///< `driver_qp_type`; 0: SRD
  std::uint32_t reserved;   ///< 0; used by later versions
};

/// The layout of `efadv_cq_init_attr` (rdma-core 43).
struct efa_completion_queue_request {
  std::uint64_t comp_mask;  ///< 0
  std::uint64_t wc_flags;   ///< 1: the sender's GID
};

/// The first members of `efadv_cq` (rdma-core 43).
struct efa_completion_queue_layout {
  std::uint64_t comp_mask;                       ///< which members follow
  int (*wc_read_sgid)(efadv_cq*, ibv_gid* out);  ///< returns 0, or an errno if there is no GID
};

}  // namespace verbena::inline VERBENA_ABI::sys
