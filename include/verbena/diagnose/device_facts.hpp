// SPDX-License-Identifier: MIT
// Facts about devices, read once with verbs, and the result of a test message through each port.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "verbena/base/error.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/device.hpp"
#include "verbena/verbs/gid_table.hpp"
#include "verbena/verbs/port_attributes.hpp"

namespace verbena::inline VERBENA_ABI::diagnose {

/// Describes a port and the result of its test message. Threads: one thread at a time.
struct port_facts {
  port_attributes attributes;   ///< attributes of ibv_query_port(3)
  std::vector<gid_entry> gids;  ///< of this port
  /// Why the test message did not arrive; nullopt if it arrived or was not sent.
  std::optional<error> trial_failure = {};
  bool tried = false;  ///< whether a message was sent to itself
};

/// A device that is listed. Threads: one thread at a time.
struct device_facts {
  std::string name;                                    ///< as messages call it: `mlx5_0`
  provider_origin origin = provider_origin::system;    ///< whose it is
  transport_type transport = transport_type::unknown;  ///< the family of its protocols
  std::optional<error> failure = {};                   ///< why it cannot be opened or asked
  std::vector<port_facts> ports = {};  ///< in their order; empty when it cannot be opened
};

/// The devices of one provider. Threads: one thread at a time.
struct side_facts {
  bool hidden = false;                     ///< VERBENA_SOFTDEV says so
  std::optional<error> failure = {};       ///< why it cannot be loaded, or cannot list
  std::vector<device_facts> devices = {};  ///< in the order they are listed in
};

/// Both sides, and what the software device needs of the kernel. Threads: one thread at a time.
struct devices_facts {
  side_facts system;                       ///< libibverbs and what it lists
  side_facts soft;                         ///< the software device
  std::optional<error> mode_failure = {};  ///< VERBENA_SOFTDEV makes no sense
  int shared_memory_error = 0;             ///< the errno of memfd_create(2), or 0
  int remote_copy_error = 0;               ///< the errno of process_vm_readv(2) on itself, or 0
};

/// Opens every device, asks it, and sends one message from each active port to itself (not on
/// iWARP, which needs the connection manager). Blocks, at most a few seconds for each port;
/// allocates. Never fails: failures are facts.
[[nodiscard]] devices_facts gather_devices_facts();

/// Sends 64 bytes from a port of an open device to itself. Errors: what failed, as an error of the
/// call or of the completion. Blocks for at most five seconds.
[[nodiscard]] result<void> try_port(const context& device, port_number port);

}  // namespace verbena::inline VERBENA_ABI::diagnose
