// SPDX-License-Identifier: MIT
// The store of a group: a TCP server through which ranks meet and exchange bytes.
#pragma once

#include <chrono>
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
  std::uint32_t max_groups = 64;     ///< maximum number of groups at the same time
  std::uint32_t max_clients = 4096;  ///< maximum number of connected ranks of all groups
  /// The maximum size of a message of a rank, and of a reply: min_message_bytes to
  /// most_message_bytes. The store informs its clients of the limit. A client can cause the store
  /// to allocate twice this number of bytes. Before a client has sent its membership, and its proof
  /// if the store has a secret, the limit is 1024 bytes.
  std::size_t max_message_bytes = std::size_t{1} << 20U;
  /// Maximum number of names that a rank may have published at the same time; see group::publish().
  std::uint32_t max_values_per_rank = 1024;
  /// Maximum number of bytes of the names and values of a rank.
  std::size_t max_value_bytes_per_rank = std::size_t{1} << 20U;
  /// Maximum number of bytes of the names and values of all ranks of all groups.
  std::size_t max_value_bytes = std::size_t{64} << 20U;
  /// Maximum number of bytes of answers that the ranks of all groups have not read. Beyond it, the
  /// store disconnects ranks that have read nothing for `unread_timeout`, most bytes first, until
  /// the rest does not exceed the limit. Ranks that read are never disconnected.
  std::size_t max_unread_bytes = std::size_t{256} << 20U;
  std::chrono::nanoseconds unread_timeout = std::chrono::seconds(10);  ///< see max_unread_bytes
  /// Limits and timeout for connections that have not sent a greeting or their membership. At
  /// max_greeting, a new connection waits until a rank has sent its membership, or until the oldest
  /// of the others has been open for min_greeting_time and is closed.
  bringup::listener_options listener = {};
  /// If not empty, each client must prove that its membership::secret is the same secret.
  std::string secret = {};

  /// The smallest max_message_bytes: enough for a value and for a list of all ranks.
  static constexpr std::size_t min_message_bytes = std::size_t{128} * 1024;
  /// The largest max_message_bytes.
  static constexpr std::size_t most_message_bytes = std::size_t{1} << 30U;
};

/// Returns a new random secret for store_options::secret and membership::secret: 64 hexadecimal
/// digits. Thread-safe. Allocates.
[[nodiscard]] std::string random_secret();

/// Counters of a store. Threads: immutable value.
struct store_statistics {
  std::uint64_t accepted = 0;   ///< connections with a valid greeting
  std::uint64_t refused = 0;    ///< connections that the store rejected
  std::uint64_t exchanges = 0;  ///< exchanges and steps of membership changes that succeeded
  std::uint64_t failures = 0;   ///< times that the exchanges of a group have failed
};

/// A store, which serves groups until it is destroyed.
///
/// A client that sends invalid data, is slow or disconnects does not delay other groups. If memory
/// for a request is not available, only its client is closed. If a rank closes its connection, or
/// its host does not answer for 25 s, the exchanges of its group fail with an error that names the
/// rank.
///
/// The store runs on its own thread, which blocks all signals and sleeps while there is no work.
/// The destructor stops the thread; it waits at most 2 s for replies in progress.
/// Threads: one thread at a time.
class store {
 public:
  /// Listens at `at` and starts the thread. An empty host means all addresses of this host; port 0
  /// means any free port. Blocks while a host name is resolved. Allocates.
  ///
  /// Errors: `invalid_argument` if store_options::max_message_bytes is out of range; those of
  /// bringup::listener::open(), for example EADDRINUSE; those of eventfd(2) and pthread_create(3).
  [[nodiscard]] static result<store> open(const bringup::address& at,
                                          const store_options& options = {});

  /// Returns the address of the store, with the actual port.
  [[nodiscard]] const bringup::address& local_address() const noexcept;
  /// Returns the counters since open(). Locks.
  [[nodiscard]] store_statistics statistics() const;

 private:
  explicit store(detail::store_server* server) noexcept : server_(server) {}

  verbena::detail::sole_owner<detail::store_server> server_;
};

}  // namespace verbena::inline VERBENA_ABI::net
