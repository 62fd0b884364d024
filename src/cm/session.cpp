// SPDX-License-Identifier: MIT
#include "verbena/cm/session.hpp"

#include "src/cm/session_core.hpp"

namespace verbena::inline VERBENA_ABI::cm {

result<void> session::post_send(send_request request, std::span<const local_slice> data) {
  return core().send(request, data);
}

result<void> session::post_write(send_request request, std::span<const local_slice> data,
                                 const remote_buffer& to, std::uint64_t offset) {
  return core().write(request, data, {&to, offset});
}

result<void> session::post_read(send_request request, std::span<const local_slice> into,
                                const remote_buffer& from, std::uint64_t offset) {
  return core().read(request, into, {&from, offset});
}

result<void> session::wait(session_queue queue, std::span<completion> out, deadline until) {
  return core().wait(queue, out, until);
}

result<std::vector<completion>> session::wait(session_queue queue, std::size_t count,
                                              deadline until) {
  std::vector<completion> taken(count);
  VERBENA_TRY_VOID(core().wait(queue, taken, until));
  return taken;
}

result<std::uint32_t> session::advertise(const local_buffer& buffer, access_flags access,
                                         std::string_view name) {
  return core().advertise(buffer, access, name);
}

result<void> session::revoke(std::uint32_t number) { return core().revoke(number); }

result<void> session::release(const remote_buffer& buffer) { return core().release(buffer.number); }

bool session::is_advertised(std::uint32_t number) const { return core().is_advertised(number); }

bool session::is_usable(const remote_buffer& buffer) const { return core().is_usable(buffer); }

std::optional<remote_buffer> session::find(std::string_view name) const {
  return core().find(name);
}

result<remote_buffer> session::wait_advertisement(deadline until) {
  return core().wait_advertisement(until);
}

result<bringup::advertisement_update> session::wait_update(deadline until) {
  return core().wait_update(until);
}

result<void> session::disconnect() { return core().disconnect(); }

result<bool> session::wait_disconnected(deadline until) { return core().wait_disconnected(until); }

std::span<const std::byte> session::peer_private_data() const {
  return core().link().peer_private_data();
}

cm::connection& session::connection() { return core().link(); }

}  // namespace verbena::inline VERBENA_ABI::cm
