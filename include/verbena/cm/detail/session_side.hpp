// SPDX-License-Identifier: MIT
// What a side of a session can do before and after it is connected: buffers and receives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "verbena/base/result.hpp"
#include "verbena/cm/local_buffer.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

class session_core;

// A slice is a list of one.
inline std::span<const local_slice> as_list(const local_slice& slice) noexcept {
  return {&slice, 1};
}
inline std::span<const local_slice> as_list(std::span<const local_slice> slices) noexcept {
  return slices;
}

/// The base of session, caller and client. Threads: one thread at a time before it is connected,
/// thread-safe as a session.
class session_side {
 public:
  session_side(session_side&&) noexcept;
  session_side& operator=(session_side&&) noexcept;

  /// The rights that buffers have when nothing else is said: the peer may do nothing.
  static constexpr access_flags private_buffer = access::local_write;

  /// Allocates and registers memory. On iWARP the device needs more to read into a buffer that it
  /// may write: the buffer then has the right remote_write too, whatever was asked.
  /// Errors: as protection_domain::allocate().
  [[nodiscard]] result<local_buffer> create_buffer(std::size_t bytes,
                                                   access_flags rights = private_buffer) const;
  /// Registers `memory`, which stays the caller's and must outlive the buffer. Errors: as
  /// protection_domain::register_memory().
  [[nodiscard]] result<local_buffer> register_buffer(std::span<std::byte> memory,
                                                     access_flags rights = private_buffer) const;
  /// Registers the bytes of `memory`, which the buffer owns from here on. Errors: the same; the
  /// vector is then gone.
  [[nodiscard]] result<local_buffer> register_buffer(std::vector<std::byte>&& memory,
                                                     access_flags rights = private_buffer) const;
  /// The domain of its buffers, for the options of another session by the same device.
  [[nodiscard]] const protection_domain& domain() const;
  /// The device.
  [[nodiscard]] context device() const { return domain().context(); }

  /// Posts room for one message of the peer, in a slice or a list of slices. The memory must be
  /// left alone until the completion is there. Messages go into receives in the order in which
  /// these were posted, those of expect_advertisement() included. Does not block.
  /// Errors: ENOMEM when the queue is full; EINVAL for too many slices; once the connection is
  /// over, why; `invalid_argument` for an id with the highest bit, which is the library's.
  template <class Data>
    requires memory_slices<const Data&>
  [[nodiscard]] result<void> receive(receive_request request, const Data& into) {
    return post_receive(request, as_list(into));
  }
  /// Posts room for one message of the peer about buffers: it advertises one, wants one back, or
  /// gives one back. Does not block. Errors: as receive(); ENOBUFS when as many are outstanding as
  /// session_options::max_messages says.
  [[nodiscard]] result<void> expect_advertisement();

 protected:
  explicit session_side(std::unique_ptr<session_core> core) noexcept;
  ~session_side();
  [[nodiscard]] session_core& core() const;
  [[nodiscard]] std::unique_ptr<session_core> take_core() noexcept;

 private:
  [[nodiscard]] result<void> post_receive(receive_request request,
                                          std::span<const local_slice> into);

  std::unique_ptr<session_core> core_;
};

}  // namespace verbena::inline VERBENA_ABI::cm::detail
