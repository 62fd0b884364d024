// SPDX-License-Identifier: MIT
// Facts about devices: the attributes that the verbs return, and the result of a test message
// through each port.
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

/// A port and the result of its test message. Threads: one thread at a time.
struct port_facts {
  port_attributes attributes;   ///< attributes of ibv_query_port(3)
  std::vector<gid_entry> gids;  ///< of this port
  /// Why the test message did not arrive; nullopt if it arrived or was not sent.
  std::optional<error> trial_failure = {};
  bool tried = false;  ///< whether a test message was sent from the port to itself
};

/// A listed device. Threads: one thread at a time.
struct device_facts {
  std::string name;                                    ///< name of the device: `mlx5_0`
  provider_origin origin = provider_origin::system;    ///< origin of its provider
  transport_type transport = transport_type::unknown;  ///< the family of its protocols
  std::optional<error> failure = {};                   ///< why it cannot be opened or queried
  std::vector<port_facts> ports = {};  ///< in ascending order; empty if `failure` is set
};

/// The devices of one provider. Threads: one thread at a time.
struct side_facts {
  bool hidden = false;                     ///< VERBENA_SOFTDEV excludes the provider
  std::optional<error> failure = {};       ///< why it cannot be loaded, or cannot list devices
  std::vector<device_facts> devices = {};  ///< in the order of the list
};

/// The devices of both providers, and the results of system calls that the software device needs.
/// Threads: one thread at a time.
struct devices_facts {
  side_facts system;                       ///< the devices of libibverbs
  side_facts soft;                         ///< the software device
  std::optional<error> mode_failure = {};  ///< why the value of VERBENA_SOFTDEV is invalid
  int shared_memory_error = 0;             ///< the errno of memfd_create(2), or 0
  int remote_copy_error = 0;               ///< the errno of process_vm_readv(2) on itself, or 0
};

/// Opens and queries every device, and sends a test message from each active port to itself. iWARP
/// ports are not tested, because they need the connection manager. Blocks for at most a few seconds
/// per port; allocates. Never fails: failures are stored as facts.
[[nodiscard]] devices_facts gather_devices_facts();

/// Sends 64 bytes from a port of an open device to itself. Creates the objects for it and destroys
/// them. Waits for at most five seconds. Errors: those of the verbs; the failed completion;
/// `timed_out`.
[[nodiscard]] result<void> try_port(const context& device, port_number port);

}  // namespace verbena::inline VERBENA_ABI::diagnose
