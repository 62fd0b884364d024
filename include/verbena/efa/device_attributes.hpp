// SPDX-License-Identifier: MIT
// Whether a device is an Elastic Fabric Adapter, and what it can do beyond verbs.h.
#pragma once

#include <infiniband/efadv.h>

#include <cstdint>
#include <string>

#include "verbena/base/flags.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/send_operations.hpp"

namespace verbena::inline VERBENA_ABI::efa {

/// What a device may have or not. Source: efadv_query_device(3); bits that the headers of rdma-core
/// 44 do not name come from later ones.
enum class capability : std::uint32_t {
  rdma_read = EFADV_DEVICE_ATTR_CAPS_RDMA_READ,      ///< reads
  rnr_retry = EFADV_DEVICE_ATTR_CAPS_RNR_RETRY,      ///< sends again while a peer has no receive
  source_gid = EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID,  ///< completions can name the sender's GID
  rdma_write = 1U << 3,                              ///< writes
};

}  // namespace verbena::inline VERBENA_ABI::efa

template <>
inline constexpr bool verbena::enable_flags<verbena::efa::capability> = true;

namespace verbena::inline VERBENA_ABI::efa {

/// A set of them.
using capabilities = flags<capability>;

/// `RDMA_READ | RDMA_WRITE`: the names of efadv.h without `EFADV_DEVICE_ATTR_CAPS_`; `none`.
[[nodiscard]] std::string to_string(capabilities of);

/// What efa::query_device() found. Threads: immutable value.
class device_attributes {
 public:
  /// From the C API.
  explicit device_attributes(const efadv_device_attr& native) noexcept : native_(native) {}

  /// Requests that may be outstanding in a send queue.
  [[nodiscard]] std::uint32_t max_send_requests() const noexcept { return native_.max_sq_wr; }
  /// Requests that may be outstanding in a receive queue.
  [[nodiscard]] std::uint32_t max_receive_requests() const noexcept { return native_.max_rq_wr; }
  /// Slices of a request to send.
  [[nodiscard]] std::uint16_t max_send_slices() const noexcept { return native_.max_sq_sge; }
  /// Slices of a request to receive.
  [[nodiscard]] std::uint16_t max_receive_slices() const noexcept { return native_.max_rq_sge; }
  /// Bytes that a request may carry inline.
  [[nodiscard]] std::uint16_t max_inline_data() const noexcept { return native_.inline_buf_size; }
  /// Bytes of one read or write; 0 if there are none. A message has at most the port's MTU.
  [[nodiscard]] std::uint32_t max_rdma_bytes() const noexcept { return native_.max_rdma_size; }

  /// What it has of what devices may have or not.
  [[nodiscard]] efa::capabilities capabilities() const noexcept {
    return efa::capabilities::from_mask(native_.device_caps);
  }
  /// What queue pairs of SRD can do on this device: always send, with and without an immediate
  /// number, and read and write as capabilities() say.
  [[nodiscard]] send_operations operations() const noexcept;

  /// Every field, as efadv_query_device(3) filled it; zero where the library is older.
  [[nodiscard]] const efadv_device_attr& native() const noexcept { return native_; }

 private:
  efadv_device_attr native_;
};

/// Several lines, one limit each.
[[nodiscard]] std::string to_string(const device_attributes& device);

/// Asks the device: efadv_query_device(3). Thread-safe as the context is; may load libefa.
///
/// Errors: `not_supported` for a device that is no EFA; `unavailable` when libefa cannot be loaded:
/// the message names the package.
[[nodiscard]] result<device_attributes> query_device(const context& device);

/// Whether the device is an EFA, and libefa is there to use it as one.
[[nodiscard]] bool is_efa(const context& device);

}  // namespace verbena::inline VERBENA_ABI::efa
