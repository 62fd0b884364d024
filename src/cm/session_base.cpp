// SPDX-License-Identifier: MIT
#include "verbena/cm/session_base.hpp"

#include <utility>

#include "src/cm/session_core.hpp"

namespace verbena::inline VERBENA_ABI::cm {

session_base::session_base(std::unique_ptr<detail::session_core> core) noexcept
    : core_(core.release()) {}
session_base::session_base(session_base&& other) noexcept
    : core_(std::exchange(other.core_, nullptr)) {}
session_base& session_base::operator=(session_base&& other) noexcept {
  if (this != &other) {
    take_core().reset();
    core_ = std::exchange(other.core_, nullptr);
  }
  return *this;
}
session_base::~session_base() { take_core().reset(); }

detail::session_core& session_base::core() const {
  VERBENA_ASSERT(core_ != nullptr,
                 "a moved-from session, session_connector or session_request was used");
  return *core_;
}

std::unique_ptr<detail::session_core> session_base::take_core() noexcept {
  return std::unique_ptr<detail::session_core>(std::exchange(core_, nullptr));
}

const protection_domain& session_base::domain() const { return core().domain(); }

result<local_buffer> session_base::create_buffer(std::size_t bytes, access_flags access) const {
  VERBENA_TRY(auto region, domain().allocate(bytes, core().access_for(access)));
  const auto memory = region.bytes();
  return local_buffer(std::move(region), memory, {});
}

result<local_buffer> session_base::register_buffer(std::span<std::byte> memory,
                                                   access_flags access) const {
  VERBENA_TRY(auto region, domain().register_memory(memory, core().access_for(access)));
  return local_buffer(std::move(region), memory, {});
}

result<local_buffer> session_base::register_buffer(std::vector<std::byte>&& memory,
                                                   access_flags access) const {
  auto storage = std::move(memory);
  const std::span<std::byte> bytes(storage);
  VERBENA_TRY(auto region, domain().register_memory(bytes, core().access_for(access)));
  return local_buffer(std::move(region), bytes, std::move(storage));
}

result<void> session_base::expect_advertisement() { return core().expect_message(); }

result<void> session_base::post_receive(receive_request request,
                                        std::span<const local_slice> into) {
  return core().receive(request, into);
}

}  // namespace verbena::inline VERBENA_ABI::cm
