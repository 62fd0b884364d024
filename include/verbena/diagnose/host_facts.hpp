// SPDX-License-Identifier: MIT
// Facts about a host or container that matter for RDMA, read from its files. examine.hpp derives
// findings from them. No function calls a verb.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::diagnose {

/// A resource limit; `nullopt` means unlimited. Threads: immutable value.
struct limit {
  std::optional<std::uint64_t> soft = {};  ///< the limit in effect
  std::optional<std::uint64_t> hard = {};  ///< the largest value that a process may set
};

/// A device in /sys/class/infiniband. Threads: immutable value.
struct kernel_device {
  std::string name;             ///< the kernel's name: `mlx5_0`
  bool emulated = false;        ///< a software device of the kernel: rxe, siw
  std::string node = {};        ///< `/dev/infiniband/uverbs0`; empty if there is none
  int node_error = 0;           ///< 0, or the errno of opening it for reading and writing
  std::uint32_t node_mode = 0;  ///< permission bits; 0 if it does not exist
};

/// A network interface. Threads: immutable value.
struct net_interface {
  std::string name;       ///< `eth0`
  std::uint32_t mtu = 0;  ///< largest packet in bytes
  bool up = false;        ///< IFF_UP
  bool running = false;   ///< has a carrier, or its state is unknown
  bool ethernet = false;  ///< ARPHRD_ETHER
};

/// An adapter on the PCI bus that may support RDMA, by its vendor. Threads: immutable value.
struct pci_adapter {
  std::string address;  ///< `0000:3b:00.0`
  std::string maker;    ///< vendor, by the PCI vendor ID
  std::string module;   ///< kernel module for RDMA
};

/// A limit of an rdma control group: `mlx5_0 hca_handle=2`. Threads: immutable value.
struct group_limit {
  std::string file;           ///< the file with the limit
  std::string device;         ///< the limited device
  std::string resource;       ///< `hca_handle` or `hca_object`
  std::uint64_t allowed = 0;  ///< largest number of objects
  std::uint64_t used = 0;     ///< current number of objects
};

/// An IPv4 route; addresses are in host byte order. Threads: immutable value.
struct route {
  std::uint32_t destination = 0;  ///< address of the network
  std::uint32_t mask = 0;         ///< mask of the network
  std::string interface;          ///< outgoing interface: `eth0`
};

/// The settings of soft0 for other hosts. Threads: immutable value.
struct wire_settings {
  bool on = false;                           ///< VERBENA_SOFTDEV_WIRE
  std::optional<std::string> key_file = {};  ///< VERBENA_SOFTDEV_WIRE_KEY_FILE
  std::string key_problem = {};              ///< why the key file is not usable; empty if it is
};

/// All facts about a host. Threads: immutable once gathered.
struct host_facts {
  std::string root;                       ///< folder that was read instead of /
  std::string kernel_release;             ///< `6.1.0-37-amd64`; empty if unknown
  bool has_infiniband_class = false;      ///< /sys/class/infiniband exists
  bool has_connection_manager = false;    ///< /dev/infiniband/rdma_cm exists
  std::vector<std::string> loaded;        ///< loaded modules
  std::vector<std::string> available;     ///< rdma_rxe and siw, if they can be loaded
  bool has_module_tree = false;           ///< /lib/modules/RELEASE exists
  std::vector<kernel_device> devices;     ///< in /sys/class/infiniband
  std::vector<pci_adapter> adapters;      ///< on the PCI bus
  std::vector<net_interface> interfaces;  ///< network interfaces
  std::vector<route> routes;              ///< main route table
  std::optional<limit> locked_memory;     ///< nullopt if unknown
  std::optional<limit> open_files;        ///< nullopt if unknown
  bool may_lock_memory = false;           ///< CAP_IPC_LOCK in the initial user namespace
  bool in_user_namespace = false;         ///< in a user namespace
  bool has_seccomp_filter = false;        ///< under a seccomp filter
  std::string container;                  ///< kind of container; empty if none
  std::vector<group_limit> group_limits;  ///< rdma control groups of this process
  int ptrace_scope = 0;                   ///< Yama ptrace_scope; 0 without Yama
  bool has_rdma_tool = false;             ///< rdma(8)
  std::string fork_variable;              ///< `RDMAV_FORK_SAFE=1`; empty if not set
  wire_settings wire = {};                ///< soft0 and other hosts
};

/// The sources of the facts.
struct fact_sources {
  /// The folder that is read instead of `/`, for tests or for the files of a container.
  std::string root = "/";
  /// Reads an environment variable; getenv(3) by default.
  const char* (*environment)(const char* name) = [](const char* name) -> const
      char* { return std::getenv(name); };
};

/// Reads the facts. Never fails: facts that cannot be read keep their defaults. Blocks on the file
/// system; allocates. Thread-safe if no other thread changes the environment.
[[nodiscard]] host_facts gather_host_facts(const fact_sources& from = {});

/// Reads the settings of soft0 for other hosts, and checks the key file without reading the key.
/// Never fails; blocks and is thread-safe like gather_host_facts().
[[nodiscard]] wire_settings gather_wire_settings(const fact_sources& from = {});

/// Returns the IPv4 routes of the main table below `root`. Reads one file; never fails.
[[nodiscard]] std::vector<route> gather_routes(const std::string& root = "/");
/// Returns whether an IPv6 route with a gateway uses `interface`. Reads one file; never fails.
[[nodiscard]] bool has_ipv6_gateway(const std::string& interface, const std::string& root = "/");

/// Returns whether `release` is at least `major`.`minor`; true if it is unknown.
[[nodiscard]] bool kernel_is_at_least(const std::string& release, unsigned major, unsigned minor);

}  // namespace verbena::inline VERBENA_ABI::diagnose
