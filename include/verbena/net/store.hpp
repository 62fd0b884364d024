// SPDX-License-Identifier: MIT
// The store of a group: a TCP server through which ranks meet and exchange bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/bringup/listener.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {
class store_server;
void destroy(store_server& server) noexcept;
}  // namespace detail

/// Limits of a store. Threads: immutable value.
struct store_options {
  std::uint32_t max_groups = 64;     ///< groups at the same time
  std::uint32_t max_clients = 4096;  ///< connected ranks of all groups together
  /// The largest message of a rank, and the largest answer. A client can make the store allocate
  /// twice this number of bytes.
  std::size_t max_message_bytes = std::size_t{1} << 20U;
  /// Names that a rank may have published at the same time; see group::publish().
  std::uint32_t max_values_per_rank = 1024;
  /// Bytes of the names and values of a rank.
  std::size_t max_value_bytes_per_rank = std::size_t{1} << 20U;
  /// Bytes of the names and values of all ranks of all groups.
  std::size_t max_value_bytes = std::size_t{64} << 20U;
  /// The connections that have not sent a greeting: limits and timeout.
  bringup::listener_options listener = {};
  /// If not empty, each client must prove that it has the same secret: membership::secret.
  std::string secret = {};
};

/// Returns a new secret for store_options::secret and membership::secret: 64 hexadecimal digits.
[[nodiscard]] std::string random_secret();

/// Counters of a store. Threads: immutable value.
struct store_statistics {
  std::uint64_t accepted = 0;   ///< connections with a valid greeting
  std::uint64_t refused = 0;    ///< connections closed because of what they sent
  std::uint64_t exchanges = 0;  ///< exchanges in which all ranks received an answer
  std::uint64_t failures = 0;   ///< groups that have failed
};

/// A store, which serves groups until it is destroyed.
///
/// A client that sends garbage, is slow or disconnects does not delay other groups. If a rank
/// closes its connection, the exchanges of its group fail and name the rank.
///
/// The store has a thread of its own, with signals blocked, which sleeps while there is no work.
/// Threads: one thread at a time.
class store {
 public:
  /// Listens at `at` and starts the thread. An empty host means all addresses of the host, port 0
  /// any free port. Allocates.
  ///
  /// Errors: those of bringup::listener::open(), for example EADDRINUSE; the errno of eventfd(2) or
  /// pthread_create(3).
  [[nodiscard]] static result<store> open(const bringup::address& at,
                                          const store_options& options = {});

  /// Returns the address of the store, with the port that the system chose.
  [[nodiscard]] const bringup::address& local_address() const noexcept;
  /// Returns the counters since open(). Locks.
  [[nodiscard]] store_statistics statistics() const;

 private:
  explicit store(detail::store_server* server) noexcept : server_(server) {}

  verbena::detail::sole_owner<detail::store_server> server_;
};

}  // namespace verbena::inline VERBENA_ABI::net
