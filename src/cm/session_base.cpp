// SPDX-License-Identifier: MIT
#include "verbena/cm/session_base.hpp"

#include <utility>

#include "src/cm/session_core.hpp"

namespace verbena::inline VERBENA_ABI::cm {

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void detail::destroy(session_core& core) noexcept { delete &core; }

detail::session_core& session_base::core() const {
  VERBENA_ASSERT(core_.get() != nullptr,
                 "a moved-from session, session_connector or session_request was used");
  return *core_;
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
