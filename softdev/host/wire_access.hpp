// SPDX-License-Identifier: MIT
// Access to the wire: the setting, and the connections and destinations that it permits.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "softdev/core/datagram.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/host/gid_table.hpp"
#include "softdev/host/permitted_addresses.hpp"
#include "softdev/host/settings.hpp"
#include "softdev/wire/auth/trailer.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/socket/udp_socket.hpp"
#include "softdev/wire/socket/wire_path.hpp"

namespace verbena::softdev {

/// The end of a connection at this host and its peer, or source and destination of datagrams.
struct wire_address {
  gid_entry own;
  gid_bytes peer{};
  std::uint8_t traffic_class = 0;  ///< of IPv6 packets
};

/// The call and its object in errors.
struct failing_call;

/// Threads: thread-safe.
class wire_access {
 public:
  /// `gids` must outlive this object.
  wire_access(const wire_setting& setting, const gid_table& gids)
      : own_(setting.only, gids),
        trailer_bytes_(setting.key_file ? wire::trailer_bytes : 0),
        forced_(setting.forced) {}
  /// Sets the path. Call it once, before any other function. Without a path, the wire is off.
  void begin(wire::wire_path& path) noexcept { path_ = &path; }
  /// The own addresses that the setting contains, for the path.
  [[nodiscard]] permitted_addresses& own_addresses() noexcept { return own_; }

  [[nodiscard]] bool on() const noexcept { return path_ != nullptr; }
  /// Returns whether an interface has this address and the setting permits it. Asks the kernel.
  [[nodiscard]] bool reaches_hosts_from(const gid_entry& own) const;
  /// Returns the path of a connection to its peer, or of a datagram to its destination. `is_own`:
  /// the GID is one of this host.
  [[nodiscard]] path_to_peer path_to(const gid_bytes& peer, bool is_own) const noexcept {
    const bool possible = on() && is_host_address(peer);
    // The generated GID of index 0 is link-local, and not an address of an interface.
    const bool by_force = forced_ && !wire::is_link_local(peer);
    if (possible && (!is_own || by_force)) return path_to_peer::wire;
    return is_own ? path_to_peer::same_host : path_to_peer::none;
  }
  /// Prepares a connection that is about to become ready to receive with a path MTU of
  /// `payload_bytes`. Errors: EACCES if the setting does not contain the own address; EADDRNOTAVAIL
  /// if it is not an address of an interface, or not of the peer's version of IP; ENETUNREACH or
  /// EHOSTUNREACH without a route; EINVAL if packets are longer than the route permits; those of
  /// wire_path::connect.
  [[nodiscard]] result<void> connect(queue_pair& which, const wire_address& address,
                                     std::uint32_t payload_bytes) const;
  /// Returns the source address of packets to another host: `own`, or that of the route.
  /// `interface` is the interface of link-local addresses. Errors: EACCES if the setting does not
  /// contain the address; those of wire::find_source. Precondition: the wire is on.
  [[nodiscard]] result<gid_bytes> reach(const gid_bytes& peer, std::uint32_t interface,
                                        const std::optional<gid_bytes>& own,
                                        const gid_table::entries& gids) const;
  // See wire_path. Precondition: the wire is on.
  [[nodiscard]] result<void> open() const { return path_->open(); }
  void send_message(const wire::management_addresses& ends,
                    wire::management_view message) const noexcept {
    path_->send_message(ends, message);
  }
  void set_management(wire::management_observer* observer) const noexcept {
    path_->set_management(observer);
  }
  /// Prepares a UD queue pair, which is about to become ready to receive, for datagrams of other
  /// hosts. Does nothing if the wire is off. Errors: those of wire_path::connect.
  [[nodiscard]] result<void> accept_datagrams(queue_pair& which) const;
  /// Returns the largest path MTU (ibv_mtu) of datagrams to an address of another host. Errors:
  /// those of connect() that concern address and route; EINVAL if the route has no room for a path
  /// MTU of 256 bytes.
  [[nodiscard]] result<std::uint8_t> find_datagram_mtu(const wire_address& address) const;
  /// Returns the largest path MTU (ibv_mtu) of datagrams from an address to a group. Returns 0 if
  /// they reach only this host: the wire is off, the source is not a permitted address of an
  /// interface, or the group is of the other version of IP.
  [[nodiscard]] std::uint8_t find_group_mtu(const wire_address& address) const;
  /// Begin and end the reception of datagrams to a group from other hosts. A failure is logged. Do
  /// nothing if the wire is off.
  void join_group(const gid_bytes& group);
  void leave_group(const gid_bytes& group);
  /// Follows a change of addresses or interfaces of the host, after the change of the GID table:
  /// permits packets at the interfaces that the setting contains, and joins the groups at the
  /// interfaces that have permitted addresses now. Asks the kernel. Allocates.
  void addresses_changed() noexcept;
  // The next three functions are called by fork handlers, one fork at a time. They do not block.
  void prepare_fork() noexcept { fork_lock_ = std::unique_lock(changes_, std::try_to_lock); }
  void continue_after_fork() noexcept { fork_lock_ = {}; }
  /// In the child: closes the sockets of the groups, because the child would remain a member. Does
  /// not free memory. If another thread of the parent was joining or leaving a group, the child
  /// keeps them.
  void abandon_after_fork() noexcept;
  /// Returns the largest path MTU that all interfaces with a permitted GID have room for: 256 to
  /// 4096 bytes of payload. Asks the kernel.
  [[nodiscard]] std::uint32_t largest_payload(const gid_table::entries& gids) const;

 private:
  [[nodiscard]] std::uint32_t overhead(const wire::network_address& peer) const noexcept;
  [[nodiscard]] std::uint8_t largest_mtu_code(const wire::network_address& peer,
                                              std::uint32_t route_mtu) const noexcept;
  [[nodiscard]] std::optional<wire::group_socket> open_group(const gid_bytes& group,
                                                             std::optional<error>& failure) const;
  [[nodiscard]] static bool is_host_address(const gid_bytes& which) noexcept;
  [[nodiscard]] result<std::uint32_t> find_route(const failing_call& by,
                                                 const wire_address& address) const;

  permitted_addresses own_;
  const std::uint32_t trailer_bytes_;  ///< behind each packet
  const bool forced_;
  std::mutex changes_;  ///< guards groups_
  /// The memberships; nullopt after a failure.
  std::map<gid_bytes, std::optional<wire::group_socket>> groups_;
  std::unique_lock<std::mutex> fork_lock_;
  wire::wire_path* path_ = nullptr;
};

}  // namespace verbena::softdev
