// SPDX-License-Identifier: MIT
// The place of a process in a group.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"

namespace verbena::inline VERBENA_ABI::net {

/// The largest number of ranks in a group.
inline constexpr std::uint32_t max_ranks = 4096;

/// Which process has the store of a group.
enum class store_host : std::uint8_t {
  rank_0,    ///< rank 0 opens the store when it joins, and closes it when it leaves
  separate,  ///< another process has opened the store
  /// Rank 0 opens the store at a free port when it joins, and PMIx, the interface of mpirun and
  /// prte, gives its address to the other ranks. membership::store is not used.
  pmix,
  /// Rank 0 opens the store when it joins, and an etcd server gives its address to the other ranks:
  /// membership::etcd. The store is at membership::store, if it has a host; otherwise at a free
  /// port of the address from which this host reaches etcd.
  etcd,
  /// Rank 0 opens the store at all its addresses when it joins. The others wait until the name
  /// membership::store is known, as in a headless service of Kubernetes.
  service,
};

/// The rank of a process, the size of its group, and the store through which the ranks meet.
/// Threads: immutable value.
struct membership {
  std::uint32_t rank = 0;                ///< of this process: less than `size`
  std::uint32_t size = 1;                ///< number of ranks: 1 to max_ranks
  bringup::address store = {};           ///< of the store; see `host`
  store_host host = store_host::rank_0;  ///< which process has the store
  /// Names the group; may be empty. A store keeps groups with different names apart. At most 255
  /// bytes.
  std::string name = {};
  /// If not empty, the process and the store prove each other that they have the same secret. The
  /// secret is not sent. It does not encrypt the connection.
  std::string secret = {};
  /// With store_host::etcd: `http://host:port/prefix`. The keys in etcd begin with the prefix;
  /// `verbena` if it is missing.
  std::string etcd = {};

  /// Reads the variables that launchers set. Allocates.
  ///
  /// `RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`: as set by torchrun. The store is then in
  /// the process of rank 0. Without `RANK` and `WORLD_SIZE`: `SLURM_PROCID` and `SLURM_NTASKS`
  /// (srun), or `OMPI_COMM_WORLD_RANK` and `OMPI_COMM_WORLD_SIZE` (mpirun). `VERBENA_STORE`
  /// (`host:port`) names a separate store; `MASTER_ADDR` and `MASTER_PORT` are then ignored.
  /// `VERBENA_GROUP` is the name of the group, `VERBENA_SECRET` its secret.
  ///
  /// `VERBENA_NETWORK` names a file with the hosts of the group, see network::read(). It has the
  /// number of ranks and the store, unless `VERBENA_STORE` is set. Without a launcher, the rank is
  /// network::own_rank(). Blocks while the file is read.
  ///
  /// `VERBENA_ETCD` (`http://host:port/prefix`) selects store_host::etcd. `VERBENA_SERVICE`
  /// (`service` or `service:port`; the default port is 29500) selects store_host::service: without
  /// the rank of a launcher, it is the number N of the host name `NAME-N`, and the store is at
  /// `NAME-0.service`.
  ///
  /// The first of these variables that is set names the store: `VERBENA_STORE`, `VERBENA_NETWORK`,
  /// `VERBENA_ETCD`, `VERBENA_SERVICE`, `MASTER_ADDR`.
  ///
  /// If none of them, `RANK` and `MASTER_PORT` is set, but `PMIX_NAMESPACE` is, as set by mpirun,
  /// prte and `srun --mpi=pmix`: connects to PMIx, reads the rank and the size, and selects
  /// store_host::pmix. The connection ends with the process.
  ///
  /// Errors: `invalid_argument` names the variable that is missing or invalid, with its value;
  /// those of network::read() and network::own_rank(). `not_supported` if the library was built
  /// without PMIx; `unavailable` if libpmix.so.2 is not installed, or if PMIx fails.
  [[nodiscard]] static result<membership> from_environment();

  /// Checks the ranges of the members. Errors: `invalid_argument` names the member.
  [[nodiscard]] result<void> check() const;
};

}  // namespace verbena::inline VERBENA_ABI::net
