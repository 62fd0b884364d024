// SPDX-License-Identifier: MIT
// Channels to many peers on one completion queue. operator[] returns the channel of a rank, with
// its blocking, scoped and owned operations. The functions of this class operate on several ranks.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "verbena/base/function_ref.hpp"
#include "verbena/base/result.hpp"
#include "verbena/channel/abort_at.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/channel_options.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/channel/prepared_channel.hpp"
#include "verbena/channel/source.hpp"
#include "verbena/net/multi_channel_steps.hpp"
#include "verbena/net/multi_scope.hpp"
#include "verbena/net/peer_operations.hpp"
#include "verbena/net/pending_operations.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI::net {

/// Channels to the ranks of a group, or to any list of peers, on one completion_hub.
///
/// The functions for several ranks post all operations and wait until they have completed. They
/// poll without sleeping. They return an error with each rank whose operation failed, and set
/// `result` of each part. If a queue is full, they wait for earlier operations of the same call.
/// They allocate only if an operation fails; they do not lock or make system calls. With
/// connect_mode::on_first_use, a post that connects its channel blocks until the limit of the call,
/// or without a limit for at most first_use_options::timeout; allocates; and makes system calls.
///
/// At most 64 operations of a call are in flight. Further parts are posted after these have
/// completed, so a peer must not wait for a later part before it serves an earlier one.
///
/// *Contract* of these functions: until they return, the program neither writes memory of sources,
/// nor reads or writes memory of sinks, and keeps both registered.
///
/// Threads: one thread at a time, for all channels and the hub together.
class multi_channel {
 public:
  /// Takes connected channels on `hub`; the index of a channel is its rank. Precondition: all
  /// channels were created on `hub`.
  multi_channel(completion_hub hub, std::vector<channel> channels)
      : hub_(std::move(hub)), channels_(std::move(channels)) {}

  /// Returns the number of channels.
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(channels_.size());
  }
  /// Returns the channel to `rank`. Precondition: rank < size().
  [[nodiscard]] channel& operator[](std::uint32_t rank) {
    VERBENA_ASSERT(rank < channels_.size(), "a rank is not less than the number of channels");
    return channels_[rank];
  }
  /// Returns the hub of all channels.
  [[nodiscard]] const completion_hub& hub() const noexcept { return hub_; }

  /// Sends each part to its rank. The peer must post a receive for each message.
  ///
  /// Errors: `invalid_argument` if a rank does not exist, before anything is posted; otherwise the
  /// first failure, and the ranks of all failures. If `limit` passes, ends the connections of the
  /// operations in flight, and refuses operations that are not posted yet as refusal::limit_passed.
  [[nodiscard]] result<void> scatter(std::span<peer_send> parts, abort_at limit = {},
                                     std::source_location posted = std::source_location::current());
  /// Writes each part to the memory of its rank. Errors: see scatter() of messages.
  [[nodiscard]] result<void> scatter(std::span<peer_write> parts, abort_at limit = {},
                                     std::source_location posted = std::source_location::current());
  /// Receives one message for each part from its rank. Errors: see scatter().
  [[nodiscard]] result<void> gather(std::span<peer_receive> parts, abort_at limit = {},
                                    std::source_location posted = std::source_location::current());
  /// Reads each part from the memory of its rank. Errors: see scatter().
  [[nodiscard]] result<void> gather(std::span<peer_read> parts, abort_at limit = {},
                                    std::source_location posted = std::source_location::current());
  /// Sends the same bytes to each of `ranks`, as one message per rank. Errors: see scatter().
  [[nodiscard]] result<void> multicast(
      std::span<const std::uint32_t> ranks, const source& data, abort_at limit = {},
      const operation_options& options = {},
      std::source_location posted = std::source_location::current());

  /// Returns the same operations in steps, for coroutines and event loops.
  [[nodiscard]] multi_channel_steps in_steps() noexcept { return multi_channel_steps(*this); }

  /// Posts a send of each part and takes the buffer of the part. If a post is refused, for example
  /// because a queue is full, the refusal is the result of its operation. Precondition: each rank <
  /// size(). Allocates the lists of the result. Does not block, except with
  /// connect_mode::on_first_use: a post that connects its channel blocks for at most
  /// first_use_options::timeout, allocates and makes system calls.
  ///
  /// *Contract* of all posts of this class: until the operation has returned a buffer, the program
  /// must not use spans of that buffer which it obtained before.
  [[nodiscard]] pending_operations post_scatter(
      std::span<owned_send> parts, std::source_location posted = std::source_location::current());
  /// Posts a write of each part. *Contract*, errors and allocation: see post_scatter() of messages.
  [[nodiscard]] pending_operations post_scatter(
      std::span<owned_write> parts, std::source_location posted = std::source_location::current());
  /// Posts a receive for each part. *Contract*, errors and allocation: see post_scatter().
  [[nodiscard]] pending_operations post_gather(
      std::span<owned_receive> parts,
      std::source_location posted = std::source_location::current());
  /// Posts a read of each part. *Contract*, errors and allocation: see post_scatter().
  [[nodiscard]] pending_operations post_gather(
      std::span<owned_read> parts, std::source_location posted = std::source_location::current());
  /// Posts a send of the same bytes to each of `ranks`. The sends share ownership of the buffer.
  /// Precondition: the buffer is not empty. *Contract*, errors and allocation: see post_scatter().
  [[nodiscard]] pending_multicast post_multicast(
      std::span<const std::uint32_t> ranks, buffer&& memory, const buffer_slice& part = {},
      const operation_options& options = {},
      std::source_location posted = std::source_location::current());

  /// Calls `body` with a multi_scope. All operations of the multi_scope have completed when scope()
  /// returns, also if `body` fails or throws. The result contains the return value of `body` (a
  /// value, a result<T> or void) and every failure that `body` did not inspect. If `limit` passes,
  /// ends the connections with operations in flight. Allocates a list of size() elements. Nests one
  /// scope per channel, so the stack usage grows with size(). Does not accept bodies that are
  /// coroutines or return an operation of the scope: these would end after the scope.
  template <detail::multi_scope_body Body>
  auto scope(abort_at limit, Body&& body) {
    multi_scope opened(size());
    detail::unseen_peer_failures failures;
    using returned = std::invoke_result_t<Body, multi_scope&>;
    if constexpr (std::is_void_v<returned>) {
      auto inside = [&] { body(opened); };
      open_scopes(opened, 0, limit, inside, failures);
      return multi_scope_result<void>(result<void>{}, std::move(failures));
    } else {
      using value = verbena::detail::value_of_body<returned>;
      std::optional<result<value>> outcome;
      auto inside = [&] { outcome.emplace(body(opened)); };
      open_scopes(opened, 0, limit, inside, failures);
      return multi_scope_result<value>(*std::move(outcome), std::move(failures));
    }
  }
  /// Calls `body` with a scope that waits until all operations have completed.
  template <detail::multi_scope_body Body>
  auto scope(Body&& body) {
    return scope(abort_at(), std::forward<Body>(body));
  }

 private:
  // Opens the scopes of the channels from `rank` on, each nested in the previous one, and calls
  // `body`.
  void open_scopes(multi_scope& opened, std::uint32_t rank, abort_at limit,
                   function_ref<void()> body, detail::unseen_peer_failures& failures);

  completion_hub hub_;
  std::vector<channel> channels_;
};

/// Unconnected channels. Keeps the protection domain alive. Threads: one thread at a time.
class prepared_multi_channel {
 public:
  /// Creates `count` channels with equal options on a new completion_hub, which has one entry per
  /// operation that can be in flight. Allocates; may block in the kernel.
  ///
  /// Errors: those of completion_hub::create() and protection_domain::create_channel().
  [[nodiscard]] static result<prepared_multi_channel> create(
      const protection_domain& domain, std::uint32_t count, const channel_options& options = {},
      const completion_hub_options& hub = {});

  /// Returns the number of channels.
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(prepared_.size());
  }
  /// Returns the endpoint of the channel to `rank`. Precondition: rank < size().
  [[nodiscard]] verbena::endpoint endpoint(std::uint32_t rank) const;

  /// Connects each channel to the endpoint with its index. The object must not be used afterwards.
  ///
  /// When the call returns, a peer may not be ready to receive yet; see
  /// prepared_channel::handshake(). Allocates; may block in the kernel.
  ///
  /// Errors: `invalid_argument` if the number of endpoints is not size(); those of handshake(),
  /// with the rank.
  [[nodiscard]] result<multi_channel> handshake(std::span<const verbena::endpoint> peers) &&;

 private:
  prepared_multi_channel(completion_hub hub, std::vector<prepared_channel> prepared)
      : hub_(std::move(hub)), prepared_(std::move(prepared)) {}

  completion_hub hub_;
  std::vector<prepared_channel> prepared_;
};

}  // namespace verbena::inline VERBENA_ABI::net
