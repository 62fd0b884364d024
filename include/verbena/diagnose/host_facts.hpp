// SPDX-License-Identifier: MIT
// What the files of a host, or of a container, say that matters for RDMA: gathered once, judged
// elsewhere (examine.hpp). Nothing here calls a verb.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::diagnose {

/// A limit of resources; nothing means: unlimited.
struct limit {
  std::optional<std::uint64_t> soft = {};  ///< what holds now
  std::optional<std::uint64_t> hard = {};  ///< what a process may raise it to
};

/// A device in /sys/class/infiniband.
struct kernel_device {
  std::string name;             ///< the kernel's name: `mlx5_0`
  bool emulated = false;        ///< a software device of the kernel's: rxe, siw
  std::string node = {};        ///< `/dev/infiniband/uverbs0`; empty: the kernel names none
  int node_error = 0;           ///< why this process may not read and write it: an errno, or 0
  std::uint32_t node_mode = 0;  ///< permission bits; 0 if it is not there
};

/// A network interface.
struct net_interface {
  std::string name;       ///< `eth0`
  std::uint32_t mtu = 0;  ///< bytes of its largest packet
  bool up = false;        ///< IFF_UP
  bool running = false;   ///< it has a carrier, or does not say
  bool ethernet = false;  ///< ARPHRD_ETHER
};

/// An adapter on the PCI bus whose maker's adapters speak RDMA.
struct pci_adapter {
  std::string address;  ///< `0000:3b:00.0`
  std::string maker;    ///< of the adapter, by its PCI identifier
  std::string module;   ///< the kernel module of its RDMA part
};

/// A limit of an rdma control group: `mlx5_0 hca_handle=2`.
struct group_limit {
  std::string file;           ///< where it was read
  std::string device;         ///< that it limits
  std::string resource;       ///< `hca_handle` or `hca_object`
  std::uint64_t allowed = 0;  ///< objects at once
  std::uint64_t used = 0;     ///< objects now
};

/// An IPv4 route, addresses as numbers in host order.
struct route {
  std::uint32_t destination = 0;  ///< the network's address
  std::uint32_t mask = 0;         ///< of the network's bits
  std::string interface;          ///< the packets leave by: `eth0`
};

/// All that was gathered.
/// Threads: immutable once gathered.
struct host_facts {
  std::filesystem::path root;             ///< that the files were read below
  std::string kernel_release;             ///< `6.1.0-37-amd64`; empty if it is not known
  bool has_class = false;                 ///< /sys/class/infiniband
  bool has_connection_manager = false;    ///< /dev/infiniband/rdma_cm
  std::vector<std::string> loaded;        ///< modules
  std::vector<std::string> available;     ///< of rdma_rxe and siw, those that could be loaded
  bool has_module_tree = false;           ///< /lib/modules/RELEASE
  std::vector<kernel_device> devices;     ///< in /sys/class/infiniband
  std::vector<pci_adapter> adapters;      ///< on the PCI bus
  std::vector<net_interface> interfaces;  ///< of the network
  std::vector<route> routes;              ///< of the main table
  std::optional<limit> locked_memory;     ///< nothing: /proc/self/limits does not say
  std::optional<limit> open_files;        ///< nothing: /proc/self/limits does not say
  bool may_lock_memory = false;           ///< CAP_IPC_LOCK of the first user namespace
  bool own_users = false;                 ///< in a user namespace
  bool filtered_calls = false;            ///< under a seccomp filter
  std::string container;                  ///< its kind; empty outside
  std::vector<group_limit> group_limits;  ///< of this process's rdma control groups
  int trace_scope = 0;                    ///< of Yama; 0 without
  bool has_rdma_tool = false;             ///< rdma(8)
  std::string fork_variable;              ///< `RDMAV_FORK_SAFE=1`; empty: none is set
};

/// Where facts come from.
struct fact_sources {
  /// The folder that is taken for `/`: another root for tests, or for the files of a container.
  std::filesystem::path root = "/";
  /// getenv(3), or a test's table.
  const char* (*environment)(const char* name) = [](const char* name) -> const
      char* { return std::getenv(name); };
};

/// Reads them. What cannot be read is left out: this never fails. Blocks on the file system,
/// allocates. Thread-safe unless the environment is being changed.
[[nodiscard]] host_facts gather_host_facts(const fact_sources& from = {});

/// The IPv4 routes of the main table, below `root`. Reads one file; never fails.
[[nodiscard]] std::vector<route> gather_routes(const std::filesystem::path& root = "/");
/// Whether an IPv6 route by a gateway leaves by `interface`. Reads one file; never fails.
[[nodiscard]] bool has_ipv6_gateway(const std::string& interface,
                                    const std::filesystem::path& root = "/");

/// Whether `release` is at least `major`.`minor`; true when it is not known.
[[nodiscard]] bool kernel_is_at_least(const std::string& release, unsigned major, unsigned minor);

}  // namespace verbena::inline VERBENA_ABI::diagnose
