// SPDX-License-Identifier: MIT
#include "verbena/bringup/negotiation.hpp"

#include <utility>

#include "src/bringup/negotiation_core.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void detail::destroy(negotiation_core& core) noexcept { delete &core; }

void negotiation_base::begin(const detail::negotiating_side& side,
                             const negotiation_options& options, negotiation_peer peer) {
  core_ = verbena::detail::sole_owner(new detail::negotiation_core(side, options, std::move(peer)));
}

detail::negotiation_core& negotiation_base::core() const noexcept {
  VERBENA_ASSERT(core_.get() != nullptr, "a moved-from negotiation was used");
  return *core_;
}

negotiation_status negotiation_base::status() const noexcept { return core().status(); }

bool negotiation_base::is_done() const noexcept {
  return status() == negotiation_status::failed ||
         (status() == negotiation_status::finished && outgoing().empty());
}

void negotiation_base::advance(deadline::clock::time_point now) { core().advance(now); }

std::optional<deadline::clock::time_point> negotiation_base::next_advance() const noexcept {
  return core().next_advance();
}

std::span<const std::byte> negotiation_base::outgoing() const noexcept { return core().outgoing(); }

void negotiation_base::sent(std::size_t count) { core().sent(count); }

std::size_t negotiation_base::bytes_wanted() const noexcept { return core().bytes_wanted(); }

std::size_t negotiation_base::received(std::span<const std::byte> bytes) {
  return core().received(bytes);
}

void negotiation_base::set_ready() { core().set_ready(); }

void negotiation_base::abandon(error why) { core().abandon(std::move(why)); }

void negotiation_base::peer_closed() { core().peer_closed(); }

void negotiation_base::time_out() { core().time_out(); }

const error& negotiation_base::failure() const { return core().failure(); }

void negotiation_base::check_waiting_for_receives() const {
  VERBENA_ASSERT(status() == negotiation_status::waiting_for_receives,
                 "qp() of a negotiation that is not waiting for receives: check status() first");
}

void negotiation_base::check_finished() const {
  VERBENA_ASSERT(
      status() == negotiation_status::finished,
      "finish() of a negotiation that is neither finished nor failed: check status() first");
  VERBENA_ASSERT(is_done(),
                 "finish() of a negotiation with bytes left to send: loop until is_done()");
}

const std::optional<negotiated>& negotiation_base::terms() const noexcept { return core().terms(); }

std::vector<std::byte> negotiation_base::take_message() noexcept { return core().take_message(); }

}  // namespace verbena::inline VERBENA_ABI::bringup
