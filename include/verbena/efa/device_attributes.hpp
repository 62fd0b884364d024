// SPDX-License-Identifier: MIT
// The attributes of an Elastic Fabric Adapter that verbs.h does not have.
#pragma once

#if __has_include(<infiniband/efadv.h>)
#include <infiniband/efadv.h>
#endif

#include <cstdint>
#include <string>

#include "verbena/base/flags.hpp"
#include "verbena/base/result.hpp"
#include "verbena/sys/layouts.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/send_operations.hpp"

namespace verbena::inline VERBENA_ABI::efa {

/// Optional capabilities of a device, `EFADV_DEVICE_ATTR_CAPS_…`. Source: efadv_query_device(3).
enum class capability : std::uint32_t {
  rdma_read = 1U << 0,   ///< RDMA READ
  rnr_retry = 1U << 1,   ///< RNR retries
  source_gid = 1U << 2,  ///< completions can have the sender's GID
  rdma_write = 1U << 3,  ///< RDMA WRITE
};

}  // namespace verbena::inline VERBENA_ABI::efa

template <>
inline constexpr bool verbena::enable_flags<verbena::efa::capability> = true;

namespace verbena::inline VERBENA_ABI::efa {

/// A set of capabilities.
using capabilities = flags<capability>;

/// Returns `RDMA_READ | RDMA_WRITE`: the names of efadv.h without `EFADV_DEVICE_ATTR_CAPS_`. The
/// empty set is `none`.
[[nodiscard]] std::string to_string(capabilities of);

/// The result of efa::query_device(). Threads: immutable value.
class device_attributes {
 public:
  /// Converts from the C API.
  explicit device_attributes(const efadv_device_attr& native) noexcept
      : native_(reinterpret_cast<const sys::efa_device_layout&>(native)) {}

  /// Returns the largest number of outstanding requests of a send queue.
  [[nodiscard]] std::uint32_t max_send_requests() const noexcept { return native_.max_sq_wr; }
  /// Returns the largest number of posted receives of a receive queue.
  [[nodiscard]] std::uint32_t max_receive_requests() const noexcept { return native_.max_rq_wr; }
  /// Returns the largest number of scatter/gather elements of a send request.
  [[nodiscard]] std::uint16_t max_send_sge() const noexcept { return native_.max_sq_sge; }
  /// Returns the largest number of scatter/gather elements of a receive request.
  [[nodiscard]] std::uint16_t max_recv_sge() const noexcept { return native_.max_rq_sge; }
  /// Returns the largest inline data of a request in bytes.
  [[nodiscard]] std::uint16_t max_inline_data() const noexcept { return native_.inline_buf_size; }
  /// Returns the largest read or write in bytes; 0 if not supported. A message has at most the
  /// port's MTU.
  [[nodiscard]] std::uint32_t max_rdma_bytes() const noexcept { return native_.max_rdma_size; }

  /// Returns the optional capabilities.
  [[nodiscard]] efa::capabilities capabilities() const noexcept {
    return efa::capabilities::from_mask(native_.device_caps);
  }
  /// Returns the operations of SRD queue pairs on this device: SEND with and without immediate
  /// data, and READ and WRITE as in capabilities().
  [[nodiscard]] send_operations operations() const noexcept;

  /// Returns all fields of efadv_query_device(3); fields that the installed library does not have
  /// are zero. The type is incomplete if the headers of rdma-core have no efadv.h, as in an OFED.
  [[nodiscard]] const efadv_device_attr& native() const noexcept {
    return reinterpret_cast<const efadv_device_attr&>(native_);
  }

 private:
  sys::efa_device_layout native_;
};

/// Returns one line for each limit.
[[nodiscard]] std::string to_string(const device_attributes& device);

/// Queries the device: efadv_query_device(3). Thread-safe. May load libefa.
///
/// Errors: `not_supported` for a device that is not an EFA; `unavailable` if libefa cannot be
/// loaded: the message names the package.
[[nodiscard]] result<device_attributes> query_device(const context& device);

/// Returns whether the device is an EFA and libefa can be loaded. Thread-safe. May load libefa.
[[nodiscard]] bool is_efa(const context& device);

}  // namespace verbena::inline VERBENA_ABI::efa
