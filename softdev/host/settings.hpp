// SPDX-License-Identifier: MIT
// The settings of the device in the environment. Every value is checked; an invalid one is reported
// through the log hook and ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "softdev/host/persona.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/socket/packet_faults.hpp"

namespace verbena::softdev {

/// VERBENA_SOFTDEV: whether the device is listed.
enum class listing : std::uint8_t { on, off };

/// VERBENA_SOFTDEV_PAGE_FAULTS: the result of an access to registered memory that is not
/// accessible.
enum class fault_policy : std::uint8_t { failed_request, signal };

/// VERBENA_SOFTDEV_WIRE, …_WIRE_PORT, …_WIRE_FAULTS, …_WIRE_KEY_FILE and VERBENA_SOFTDEV_PATH:
/// packets to other hosts.
struct wire_setting {
  bool on = false;
  std::vector<std::string> only;  ///< addresses, prefixes and interfaces that are used; empty: all
  std::uint16_t port = wire::roce_port;
  wire::fault_rates faults;             ///< of received packets
  std::optional<std::string> key_file;  ///< of the secret that authenticates packets
  bool forced = false;                  ///< also between processes of this host, and within one
};

/// The device's settings. Threads: immutable.
struct settings {
  listing listed = listing::on;
  persona_kind persona = persona_kind::roce;  ///< VERBENA_SOFTDEV_PERSONA
  std::uint8_t ports = 1;                     ///< VERBENA_SOFTDEV_PORTS: of a RoCE adapter
  fault_policy faults = fault_policy::failed_request;
  std::string capture;  ///< VERBENA_SOFTDEV_CAPTURE: the file of captured packets; empty: none
  std::uint32_t captured_bytes = ~0U;  ///< VERBENA_SOFTDEV_CAPTURE_SNAPLEN: of each packet, at most
  wire_setting wire;
};

/// Reads the settings from the environment. Thread-safe unless the environment is being changed.
[[nodiscard]] settings current_settings();

/// Reads settings from `lookup` (getenv, or a test's table). Logs the values that it ignores.
[[nodiscard]] settings read_settings(const char* (*lookup)(const char* name));

}  // namespace verbena::softdev
