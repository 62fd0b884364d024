// SPDX-License-Identifier: MIT
#include "verbena/cm/detail/session_side.hpp"

#include <utility>

#include "src/cm/session_core.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

session_side::session_side(std::unique_ptr<session_core> core) noexcept : core_(std::move(core)) {}
session_side::session_side(session_side&&) noexcept = default;
session_side& session_side::operator=(session_side&&) noexcept = default;
session_side::~session_side() = default;

session_core& session_side::core() const {
  VERBENA_ASSERT(core_ != nullptr, "a session, caller or client that was moved from is not used");
  return *core_;
}

std::unique_ptr<session_core> session_side::take_core() noexcept { return std::move(core_); }

const protection_domain& session_side::domain() const { return core().domain(); }

result<local_buffer> session_side::create_buffer(std::size_t bytes, access_flags rights) const {
  VERBENA_TRY(auto region, domain().allocate(bytes, core().rights_for(rights)));
  const auto memory = region.bytes();
  return local_buffer(std::move(region), memory, {});
}

result<local_buffer> session_side::register_buffer(std::span<std::byte> memory,
                                                   access_flags rights) const {
  VERBENA_TRY(auto region, domain().register_memory(memory, core().rights_for(rights)));
  return local_buffer(std::move(region), memory, {});
}

result<local_buffer> session_side::register_buffer(std::vector<std::byte>&& memory,
                                                   access_flags rights) const {
  auto storage = std::move(memory);
  const std::span<std::byte> bytes(storage);
  VERBENA_TRY(auto region, domain().register_memory(bytes, core().rights_for(rights)));
  return local_buffer(std::move(region), bytes, std::move(storage));
}

result<void> session_side::expect_advertisement() { return core().expect_message(); }

result<void> session_side::post_receive(receive_request request,
                                        std::span<const local_slice> into) {
  return core().receive(request, into);
}

}  // namespace verbena::inline VERBENA_ABI::cm::detail
