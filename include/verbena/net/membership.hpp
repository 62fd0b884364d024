// SPDX-License-Identifier: MIT
// The rank of a process in a group, and the store of the group.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"

namespace verbena::inline VERBENA_ABI::net {

/// The largest number of ranks in a group.
inline constexpr std::uint32_t max_ranks = 4096;

/// Selects the process that has the store of a group, and how the other ranks find it.
enum class store_host : std::uint8_t {
  /// Rank 0 opens the store at membership::store when it joins, and closes it when its group is
  /// destroyed, also after the other ranks have continued without it. If the host name resolves to
  /// a loopback address on rank 0, rank 0 listens at all addresses of its host.
  rank_0,
  separate,  ///< another process opens the store
  /// Rank 0 opens the store at a free port when it joins, and publishes its addresses through PMIx,
  /// the interface of mpirun and prte. If all ranks are on one host, the store listens at the
  /// loopback address. Otherwise each rank uses the first address at which the store answers.
  /// membership::store is not used.
  pmix,
  /// Rank 0 opens the store when it joins, and publishes its address on the etcd server
  /// membership::etcd. The host of the store is that of membership::store; if it is empty, the
  /// local address of the connection to etcd. The port is that of membership::store; 0 means any
  /// free port.
  etcd,
  /// Rank 0 opens the store at all addresses of its host when it joins. The other ranks wait until
  /// the host name of membership::store can be resolved, as in a headless service of Kubernetes.
  service,
};

/// The rank of a process, the size of its group, and the store through which the ranks meet.
/// Threads: immutable value.
struct membership {
  std::uint32_t rank = 0;  ///< rank of this process, less than `size`
  std::uint32_t size = 1;  ///< number of ranks: 1 to max_ranks
  /// Address of the store; see `host`. Port 0 is permitted only with store_host::pmix and
  /// store_host::etcd, and in a group of one rank that opens the store.
  bringup::address store = {};
  store_host host = store_host::rank_0;  ///< which process has the store
  /// Name of the group, at most 255 bytes; may be empty. A store separates groups with different
  /// names.
  std::string name = {};
  /// If not empty, the process and the store prove to each other that they have the same secret.
  /// The secret itself is not sent, and the connection is not encrypted.
  std::string secret = {};
  /// With store_host::etcd: the server and the key prefix, `http://host:port/prefix` or
  /// `https://host:port/prefix`. The default prefix is `verbena`.
  std::string etcd = {};

  /// Reads the environment variables that launchers set. Allocates.
  ///
  /// `RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`: set by torchrun. The store is then in the
  /// process of rank 0. Without `RANK` and `WORLD_SIZE`: `OMPI_COMM_WORLD_RANK` and
  /// `OMPI_COMM_WORLD_SIZE` (mpirun). Without those: `SLURM_PROCID` and `SLURM_NTASKS` (srun).
  ///
  /// If torchrun sets `TORCHELASTIC_USE_AGENT_STORE=True`, its agent listens at `MASTER_PORT`, and
  /// rank 0 opens the store at the next port, `MASTER_PORT` + 1. `VERBENA_STORE_PORT` is the port
  /// of the store instead of both; it must be equal on all ranks.
  ///
  /// `VERBENA_STORE` (`host:port`) names a separate store; `MASTER_ADDR` and `MASTER_PORT` are then
  /// ignored. `VERBENA_GROUP` is the name of the group, `VERBENA_SECRET` its secret.
  ///
  /// `VERBENA_NETWORK` is a file with the hosts of the group; see network::read(). The file
  /// determines the number of ranks, and the store unless `VERBENA_STORE` is set. Without a
  /// launcher, the rank is network::own_rank(). Blocks while the file is read.
  ///
  /// `VERBENA_ETCD` (`http://host:port/prefix`) selects store_host::etcd. `VERBENA_SERVICE`
  /// (`service` or `service:port`; the default port is 29500) selects store_host::service, and the
  /// store is at `NAME-0.service`. If no launcher has set the rank, the rank is the number N of the
  /// host name `NAME-N`, and `WORLD_SIZE` is the number of ranks.
  ///
  /// The first of these variables that is set determines the store: `VERBENA_STORE`,
  /// `VERBENA_NETWORK`, `VERBENA_ETCD`, `VERBENA_SERVICE`, `MASTER_ADDR`.
  ///
  /// If none of these variables is set, `RANK` and `MASTER_PORT` are not set, and `PMIX_NAMESPACE`
  /// is set (mpirun, prte and `srun --mpi=pmix` set it): connects to PMIx, reads the rank and the
  /// size, and selects store_host::pmix. The connection to PMIx lasts until the process ends.
  ///
  /// Errors: `invalid_argument` with the variable that is missing or invalid, and its value; those
  /// of network::read() and network::own_rank(). `not_supported` if the library was built without
  /// PMIx; `unavailable` if libpmix.so.2 is not installed, or if PMIx fails.
  [[nodiscard]] static result<membership> from_environment();

  /// Checks the values of the members. Errors: `invalid_argument` with the member.
  [[nodiscard]] result<void> check() const;
};

}  // namespace verbena::inline VERBENA_ABI::net
