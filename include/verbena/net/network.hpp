// SPDX-License-Identifier: MIT
// A list of the hosts of a group, from a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verbena/base/result.hpp"
#include "verbena/net/membership.hpp"

namespace verbena::inline VERBENA_ABI::net {

/// One rank of a network. Threads: immutable value when const.
struct network_host {
  std::uint32_t rank = 0;    ///< each number from 0 to the number of ranks - 1 occurs once
  std::string host = {};     ///< a name or an IP address
  std::uint16_t port = 0;    ///< TCP port of the store, used if this is rank 0; not 0
  std::string device = {};   ///< name of the RDMA device; empty: the program selects one
  std::string comment = {};  ///< ignored by the library

  friend bool operator==(const network_host&, const network_host&) = default;
};

/// The hosts of a group, ordered by rank; 1 to max_ranks hosts. Threads: immutable value.
///
///   const auto network = net::network::read("network.json").value();
///   const auto rank = network.own_rank().value();
///   const auto device = verbena::open_device(network.hosts()[rank].device).value();
///
/// The JSON format is that of `network.json` of the crate ibverbs-rs:
///
///   {"hosts": [
///     {"hostname": "node-a", "port": 7471, "ibdev": "mlx5_0", "rankid": 0},
///     {"hostname": "node-b", "port": 7471, "ibdev": "mlx5_1", "rankid": 1, "comment": "spare"}
///   ]}
///
/// The TOML format, in ASCII only, is an array of tables `[[hosts]]` with the same keys, or the
/// list of the crate rrddmma, whose default port is 13337:
///
///   [rrddmma]
///   peers = ["192.0.2.1", "192.0.2.2"]
///   port = 7471
///
/// `hostname`, `port` and `rankid` are required; unknown keys are ignored.
class network {
 public:
  /// Sorts `hosts` by rank and checks them. Errors: `invalid_argument` with the rank that is
  /// missing or duplicate, or with the member that is invalid.
  [[nodiscard]] static result<network> create(std::vector<network_host> hosts);
  /// Reads a file of at most 4 MiB. If the name ends with `.toml`, parses TOML, otherwise JSON.
  /// Blocks and allocates.
  ///
  /// Errors: those of open(2) and read(2); those of from_json() and from_toml().
  [[nodiscard]] static result<network> read(const std::filesystem::path& file);
  /// Parses JSON. Errors: `invalid_argument` with `name`, the line, and the key that is missing or
  /// invalid, or the rank that is missing or duplicate. Allocates.
  [[nodiscard]] static result<network> from_json(std::string_view text,
                                                 std::string_view name = "network.json");
  /// Parses TOML. Errors: those of from_json(). Allocates.
  [[nodiscard]] static result<network> from_toml(std::string_view text,
                                                 std::string_view name = "network.toml");

  /// Returns the hosts, ordered by rank.
  [[nodiscard]] std::span<const network_host> hosts() const noexcept { return hosts_; }
  /// Returns the number of ranks.
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(hosts_.size());
  }
  /// Returns a network of the ranks 0 to `count` - 1. Allocates. Precondition: `count` is 1 to
  /// size().
  [[nodiscard]] network first(std::uint32_t count) const;
  /// Returns the rank whose `host` is the name of this host or an address of one of its network
  /// interfaces. Does not resolve names. Allocates. Errors: `invalid_argument` if no rank or
  /// several ranks match; those of getifaddrs(3).
  [[nodiscard]] result<std::uint32_t> own_rank() const;
  /// Returns the membership of a rank. The store is in the process of rank 0, at the host and port
  /// of rank 0. Allocates. Precondition: `rank` < size().
  [[nodiscard]] membership membership_of(std::uint32_t rank) const;
  /// Returns the JSON text. Empty devices and comments are omitted. Allocates.
  [[nodiscard]] std::string to_json() const;

  friend bool operator==(const network&, const network&) = default;

 private:
  explicit network(std::vector<network_host> hosts) noexcept : hosts_(std::move(hosts)) {}

  std::vector<network_host> hosts_;
};

}  // namespace verbena::inline VERBENA_ABI::net
