// SPDX-License-Identifier: MIT
// Buffers and receives of a session, before and after it is connected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/base/result.hpp"
#include "verbena/cm/local_buffer.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI::cm {

namespace detail {

class session_core;
void destroy(session_core& core) noexcept;
using session_core_owner = verbena::detail::sole_owner<session_core>;

// Converts a slice to a list of one slice; returns a list unchanged.
inline std::span<const local_slice> as_list(const local_slice& slice) noexcept {
  return {&slice, 1};
}
inline std::span<const local_slice> as_list(std::span<const local_slice> slices) noexcept {
  return slices;
}

}  // namespace detail

/// Creates the buffers and posts the receives of a session: base of session, session_connector and
/// session_request. Threads: one thread at a time before it is connected, then thread-safe.
class session_base {
 public:
  /// Moves the session; the other object must not be used afterwards.
  session_base(session_base&&) noexcept = default;
  /// Closes this session and moves the other one.
  session_base& operator=(session_base&&) noexcept = default;

  /// The default access flags of buffers: the peer has no access.
  static constexpr access_flags private_buffer = access::local_write;

  /// Allocates and registers memory. iWARP needs remote_write for the destination of a read: there,
  /// buffers with local_write get this access flag as well.
  /// Errors: those of protection_domain::allocate().
  [[nodiscard]] result<local_buffer> create_buffer(std::size_t bytes,
                                                   access_flags access = private_buffer) const;
  /// Registers `memory`. The caller keeps ownership; the memory must outlive the buffer. Errors:
  /// those of protection_domain::register_memory().
  [[nodiscard]] result<local_buffer> register_buffer(std::span<std::byte> memory,
                                                     access_flags access = private_buffer) const;
  /// Registers the bytes of `memory`, which the buffer owns from here on. Errors: those of
  /// protection_domain::register_memory(); the vector is then destroyed.
  [[nodiscard]] result<local_buffer> register_buffer(std::vector<std::byte>&& memory,
                                                     access_flags access = private_buffer) const;
  /// Returns the protection domain, for the options of another session on the device.
  [[nodiscard]] const protection_domain& domain() const;
  /// Returns the device.
  [[nodiscard]] context device() const { return domain().context(); }

  /// Posts a receive for one message, into a slice or a list of slices. The program must not access
  /// the memory until the completion. Messages consume receives in the order of posting, including
  /// those of expect_advertisement(). Does not block.
  /// Errors: ENOMEM if the queue is full; EINVAL for too many slices; after the end of the
  /// connection its reason; `invalid_argument` for an id with the highest bit, which is reserved.
  template <class Data>
    requires memory_slices<const Data&>
  [[nodiscard]] result<void> receive(receive_request request, const Data& into) {
    return post_receive(request, detail::as_list(into));
  }
  /// Posts a receive for one advertisement message, which advertises, revokes or releases a buffer.
  /// Does not block. Errors: those of receive(); ENOBUFS if session_options::max_messages are
  /// outstanding.
  [[nodiscard]] result<void> expect_advertisement();

 protected:
  explicit session_base(detail::session_core_owner core) noexcept : core_(std::move(core)) {}
  ~session_base() = default;
  [[nodiscard]] detail::session_core& core() const;
  [[nodiscard]] detail::session_core_owner take_core() noexcept { return std::move(core_); }

 private:
  [[nodiscard]] result<void> post_receive(receive_request request,
                                          std::span<const local_slice> into);

  detail::session_core_owner core_;
};

}  // namespace verbena::inline VERBENA_ABI::cm
