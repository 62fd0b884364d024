// SPDX-License-Identifier: MIT
// An entry of the list of devices.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "verbena/base/guid.hpp"
#include "verbena/base/result.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI {

/// The protocol family of a device. Values as in `ibv_transport_type`; unknown values are
/// preserved.
enum class transport_type : std::int8_t {
  unknown = -1,  ///< not reported
  infiniband,    ///< InfiniBand and RoCE
  iwarp,         ///< iWARP
  usnic,         ///< Cisco usNIC
  usnic_udp,     ///< usNIC over UDP
  unspecified,   ///< another protocol, for example EFA
};

/// Returns `InfiniBand`, `iWARP`, … or `unknown (7)`.
[[nodiscard]] std::string to_string(transport_type type);

/// A device, from list_devices(). Copies share the list of devices of the C API and keep it alive.
/// Threads: immutable; thread-safe for const use.
class device {
 public:
  /// Makes a copy, which shares the list.
  device(const device&) = default;
  /// Makes a copy, which shares the list.
  device& operator=(const device&) = default;
  ~device() = default;

  /// Borrows a device of the C API. `keep_alive` owns the list that contains `native`, or is
  /// nullptr if the caller keeps the list.
  [[nodiscard]] static device borrow(ibv_device* native, const verbena::provider& from,
                                     std::shared_ptr<const void> keep_alive);

  /// Returns the kernel's name of the device: `mlx5_0`. The software device is `soft0`.
  [[nodiscard]] std::string name() const;
  /// Returns the GUID; the reserved GUID (all zero) if the device does not have one.
  [[nodiscard]] verbena::guid guid() const;
  /// Returns the index of the device in the kernel, or `nullopt` if it is not known.
  [[nodiscard]] std::optional<std::uint32_t> index() const;
  /// Returns the protocol family.
  [[nodiscard]] transport_type transport() const noexcept;
  /// Returns the NUMA node of the device, or `nullopt` if sysfs does not report it. Reads a file.
  [[nodiscard]] std::optional<unsigned> numa_node() const;
  /// Returns the origin of the provider.
  [[nodiscard]] provider_origin origin() const noexcept { return provider_->origin; }

  /// Opens the device: ibv_open_device(3). Allocates; may block in the kernel.
  ///
  /// Errors: the errno of the verb; for EACCES and EPERM the message has a remedy.
  [[nodiscard]] result<context> open() const;

  /// Returns the device of the C API. It is valid while this object or a copy exists.
  [[nodiscard]] ibv_device* native() const noexcept { return native_; }
  /// Returns the provider.
  [[nodiscard]] const verbena::provider& provider() const noexcept { return *provider_; }

 private:
  device(ibv_device* native, const verbena::provider& from,
         std::shared_ptr<const void> keep_alive) noexcept;

  ibv_device* native_;
  const verbena::provider* provider_;
  std::shared_ptr<const void> keep_alive_;
};

/// Returns `mlx5_0 (InfiniBand, 0002:c903:00a0:7c8e, system)`.
[[nodiscard]] std::string to_string(const device& of);

}  // namespace verbena::inline VERBENA_ABI
