// SPDX-License-Identifier: MIT
// The scoped level of a multi_channel: operations of all its channels, which have completed when
// the scope ends.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "verbena/base/assert.hpp"
#include "verbena/base/result.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/channel/operation_scope.hpp"
#include "verbena/net/peer_operations.hpp"

namespace verbena::inline VERBENA_ABI::net {

class multi_scope;

/// A failed operation of a scope and its rank. Threads: immutable value.
struct peer_failure {
  std::uint32_t rank = 0;        ///< rank of the channel
  operation_result result = {};  ///< how the operation ended
};

namespace detail {
/// A body of a scope, which has ended when it returns: no coroutine, no operation of the scope.
template <class Body>
concept multi_scope_body = std::invocable<Body, multi_scope&> &&
                           !verbena::detail::ends_later<verbena::detail::value_of_body<
                               std::remove_cvref_t<std::invoke_result_t<Body, multi_scope&>>>>;

/// The failures of operations that the body of a scope did not inspect.
struct unseen_peer_failures {
  std::vector<peer_failure> recorded;  ///< in the order of discovery
  std::size_t unrecorded = 0;          ///< further failures, for which memory was short

  [[nodiscard]] bool empty() const noexcept { return recorded.empty() && unrecorded == 0; }
};

/// Describes the first failure and lists the ranks of all failures. Precondition:
/// !failures.empty().
[[nodiscard]] error from_failures(const unseen_peer_failures& failures);
/// Adds the ranks of the failures to an error of the body.
[[nodiscard]] error with_failures(error why, const unseen_peer_failures& failures);
}  // namespace detail

/// The return value of the body of a scope, and the failures that the body did not inspect.
/// Threads: one thread at a time.
template <class T>
class [[nodiscard("a scope can fail: check it, or call value()")]] multi_scope_result {
 public:
  /// Combines the result of the body with the failures found at the end of the scope.
  multi_scope_result(result<T> body, detail::unseen_peer_failures failures)
      : body_(std::move(body)), failures_(std::move(failures)) {}

  /// Returns true if the body succeeded and no operation failed without being inspected.
  [[nodiscard]] bool has_value() const noexcept { return body_.has_value() && failures_.empty(); }
  /// Returns has_value().
  explicit operator bool() const noexcept { return has_value(); }
  /// Returns the result of the body.
  [[nodiscard]] const result<T>& body() const& noexcept { return body_; }
  /// Returns the failures of operations that the body did not inspect.
  [[nodiscard]] std::span<const peer_failure> failures() const noexcept {
    return {failures_.recorded.data(), failures_.recorded.size()};
  }
  /// Returns the number of further failures that failures() does not contain, because memory was
  /// short.
  [[nodiscard]] std::size_t unrecorded() const noexcept { return failures_.unrecorded; }
  /// Returns the error of the body if the body failed, otherwise the first failure of an operation.
  /// The error lists the ranks of all failures. If a channel could not be connected,
  /// channel::describe() returns the cause. Precondition: !has_value(). Allocates.
  [[nodiscard]] verbena::error error() const {
    return body_.has_value() ? detail::from_failures(failures_)
                             : detail::with_failures(body_.error(), failures_);
  }
  /// Returns the value of the body, or raises error().
  T value() && {
    if (!has_value()) raise(error());
    return std::move(body_).value();
  }

 private:
  result<T> body_;
  detail::unseen_peer_failures failures_;
};

/// Posts operations of the channels of a multi_channel, which complete before the scope ends.
/// multi_channel::scope() creates the object and passes it to the body.
///
/// *Contract of all posts.* The contract of operation_scope: until an operation has completed, the
/// program does not write its sources, and neither reads nor writes its sinks.
///
/// The functions for several ranks return one operation per part, in the order of the parts. If a
/// post is refused, for example because a queue is full, the refusal is the result of its
/// operation. Posts do not block, except with connect_mode::on_first_use: a post that connects its
/// channel blocks until the limit of the scope, or without a limit for at most
/// first_use_options::timeout; it allocates and makes system calls.
///
/// Threads: one thread at a time, with the channels.
class multi_scope {
 public:
  multi_scope(const multi_scope&) = delete;
  multi_scope& operator=(const multi_scope&) = delete;
  ~multi_scope() = default;

  /// Returns the scope of the channel to `rank`. Precondition: `rank` is less than the number of
  /// channels.
  [[nodiscard]] operation_scope& operator[](std::uint32_t rank) const {
    VERBENA_ASSERT(rank < scopes_.size(), "a rank is not less than the number of channels");
    return *scopes_[rank];
  }

  /// Posts a send of each part. Precondition: the ranks exist. Allocates the returned list.
  ///
  /// *Contract.* As stated for all posts.
  [[nodiscard]] std::vector<scoped_operation> scatter(
      std::span<const peer_send> parts,
      std::source_location posted = std::source_location::current());
  /// Posts a write of each part. Precondition: the ranks exist. Allocates the returned list.
  ///
  /// *Contract.* As stated for all posts.
  [[nodiscard]] std::vector<scoped_operation> scatter(
      std::span<const peer_write> parts,
      std::source_location posted = std::source_location::current());
  /// Posts a receive for each part, and takes its sink. Precondition: the ranks exist. Allocates
  /// the returned list.
  ///
  /// *Contract.* As stated for all posts.
  [[nodiscard]] std::vector<scoped_operation> gather(
      std::span<peer_receive> parts, std::source_location posted = std::source_location::current());
  /// Posts a read of each part, and takes its sink. Precondition: the ranks exist. Allocates the
  /// returned list.
  ///
  /// *Contract.* As stated for all posts.
  [[nodiscard]] std::vector<scoped_operation> gather(
      std::span<peer_read> parts, std::source_location posted = std::source_location::current());
  /// Posts a send of the same bytes to each of `ranks`. Precondition: the ranks exist. Allocates
  /// the returned list.
  ///
  /// *Contract.* As stated for all posts.
  [[nodiscard]] std::vector<scoped_operation> multicast(
      std::span<const std::uint32_t> ranks, const source& data,
      const operation_options& options = {},
      std::source_location posted = std::source_location::current());

 private:
  friend class multi_channel;
  explicit multi_scope(std::uint32_t size) : scopes_(size) {}

  std::vector<operation_scope*> scopes_;
};

}  // namespace verbena::inline VERBENA_ABI::net
