// SPDX-License-Identifier: MIT
// A device that is there and not yet opened.
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

/// The family of protocols that a device speaks. RoCE adapters say InfiniBand. Values as in
/// `ibv_transport_type`; unknown ones are kept.
enum class transport_type : std::int8_t {
  unknown = -1,  ///< the provider does not say
  infiniband,    ///< InfiniBand and RoCE
  iwarp,         ///< iWARP
  usnic,         ///< Cisco's usNIC
  usnic_udp,     ///< usNIC over UDP
  unspecified,   ///< one of its own, as EFA's
};

/// `InfiniBand`, `iWARP`, …; `unknown (7)`.
[[nodiscard]] std::string to_string(transport_type type);

/// One entry of list_devices(). Keeps the list that it came from, and so `native()`, alive.
/// Threads: immutable; copying is cheap, and moving copies.
class device {
 public:
  /// Shares the list.
  device(const device&) = default;
  /// Shares the list of the other.
  device& operator=(const device&) = default;
  ~device() = default;

  /// A device of the C API. `keep_alive` holds what `native` lives in, if anything does.
  [[nodiscard]] static device borrow(ibv_device* native, const verbena::provider& from,
                                     std::shared_ptr<const void> keep_alive);

  /// The kernel's name of it: `mlx5_0`; the software device is `soft0`.
  [[nodiscard]] std::string name() const;
  /// Its identifier; reserved (all zero) when the device has none.
  [[nodiscard]] verbena::guid guid() const;
  /// The kernel's index of it, stable while it exists; nothing where it is not known.
  [[nodiscard]] std::optional<std::uint32_t> index() const;
  /// The family of its protocols.
  [[nodiscard]] transport_type transport() const noexcept;
  /// The NUMA node of the host that it is attached to; nothing where sysfs does not say.
  [[nodiscard]] std::optional<unsigned> numa_node() const;
  /// Whose it is: the system's or the software device's.
  [[nodiscard]] provider_origin origin() const noexcept { return provider_->origin; }

  /// Opens it: ibv_open_device(3). May block while the driver sets itself up. Errors: EACCES and
  /// EPERM come with what to do about /dev/infiniband.
  [[nodiscard]] result<context> open() const;

  /// The device of the C API; lives as long as this or a copy of it.
  [[nodiscard]] ibv_device* native() const noexcept { return native_; }
  /// Who executes its verbs.
  [[nodiscard]] const verbena::provider& provider() const noexcept { return *provider_; }

 private:
  device(ibv_device* native, const verbena::provider& from,
         std::shared_ptr<const void> keep_alive) noexcept;

  ibv_device* native_;
  const verbena::provider* provider_;
  std::shared_ptr<const void> keep_alive_;
};

/// `mlx5_0 (InfiniBand, 0002:c903:00a0:7c8e, system)`.
[[nodiscard]] std::string to_string(const device& of);

}  // namespace verbena::inline VERBENA_ABI
