// SPDX-License-Identifier: MIT
// How operations of a channel are checked and posted.
#include <cerrno>

#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/channel/operation_scope.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

constexpr std::size_t atomic_bytes = 8;

int code_of(refusal why) noexcept {
  switch (why) {
    case refusal::queue_full:
      return ENOMEM;
    case refusal::not_connected:
      return ENOTCONN;
    default:
      return EINVAL;
  }
}

bool is_atomic(send_kind kind) noexcept {
  return kind == send_kind::compare_and_swap || kind == send_kind::fetch_and_add;
}

}  // namespace

refusal channel_core::gather(std::span<const source> from) noexcept {
  pieces_.clear();
  if (from.size() > options_.max_send_sge) return refusal::too_many_pieces;
  for (const source& piece : from) {
    if (piece.domain() != native_domain_) return refusal::foreign_domain;
    pieces_.push_back(piece.slice());
  }
  return refusal::none;
}

refusal channel_core::gather(std::span<const sink> into, std::size_t most) noexcept {
  pieces_.clear();
  if (into.size() > most) return refusal::too_many_pieces;
  for (const sink& piece : into) {
    const local_slice slice = piece.slice();  // stops if the sink is posted already
    if (piece.domain() != native_domain_) return refusal::foreign_domain;
    pieces_.push_back(slice);
  }
  return refusal::none;
}

refusal channel_core::check(const send_description& what) noexcept {
  if (!queue_) return refusal::not_connected;
  if (free_sends_ == 0) return refusal::queue_full;
  const bool fills = what.kind == send_kind::read || is_atomic(what.kind);
  if (const refusal why =
          fills ? gather(what.in, options_.max_send_sge) : gather(what.out.sources());
      why != refusal::none)
    return why;
  if (what.kind == send_kind::send) return refusal::none;
  std::uint64_t bytes = 0;
  if (what.out.inlined() != nullptr) bytes = what.out.inlined()->length();
  for (const local_slice& piece : pieces_) bytes += piece.length();
  if (is_atomic(what.kind) &&
      (pieces_.size() != 1 || bytes != atomic_bytes || what.remote.address() % atomic_bytes != 0))
    return refusal::atomic_shape;
  return bytes > what.remote.length() ? refusal::remote_bounds : refusal::none;
}

post_status channel_core::submit(const send_description& what, std::uint64_t id) {
  auto batch = queue_->start_send<1>();
  const send_request request{.id = id,
                             .signaled = true,
                             .fenced = what.options.fenced,
                             .solicited = what.options.solicited};
  const std::span<const local_slice> pieces(pieces_);
  const auto with_data = [&](auto&& add) {
    if (what.out.inlined() != nullptr) {
      add(*what.out.inlined());
    } else {
      add(pieces);
    }
  };
  switch (what.kind) {
    case send_kind::send:
      with_data([&](auto& data) {
        if (what.options.immediate) {
          batch.send_with_immediate(request, *what.options.immediate, data);
        } else {
          batch.send(request, data);
        }
      });
      break;
    case send_kind::write:
      with_data([&](auto& data) {
        if (what.options.immediate) {
          batch.write_with_immediate(request, *what.options.immediate, data, what.remote);
        } else {
          batch.write(request, data, what.remote);
        }
      });
      break;
    case send_kind::read:
      batch.read(request, pieces, what.remote);
      break;
    case send_kind::compare_and_swap:
      batch.compare_and_swap(request, pieces.front(), what.remote,
                             {.expected = what.expected_or_addend, .desired = what.desired});
      break;
    case send_kind::fetch_and_add:
      batch.fetch_and_add(request, pieces.front(), what.remote, what.expected_or_addend);
      break;
  }
  return batch.submit();
}

operation_slot& channel_core::begin(const operation_interest& who, bool receive) noexcept {
  operation_slot& slot = slots_.table().take(*this);
  slot.waiter = who.waiter;
  slot.scope = who.scope;
  slot.posted = who.posted;
  slot.receive = receive;
  return slot;
}

std::optional<operation_result> channel_core::begun(operation_slot& slot, buffer* held) noexcept {
  slot.holds_buffer = held != nullptr;
  if (held != nullptr) slots_.table().held(slot) = std::move(*held);
  if (slot.scope != nullptr) ++slot.scope->in_flight_;
  --(slot.receive ? free_receives_ : free_sends_);
  last_ = &slot;
  return std::nullopt;
}

std::optional<operation_result> channel_core::refused(operation_slot& slot,
                                                      const post_status& status) noexcept {
  const auto why = operation_result::refuse(refusal::verb, status.code(), slot.posted);
  slots_.table().put(slot);
  return why;
}

std::optional<operation_result> channel_core::post(const send_description& what,
                                                   operation_interest who, buffer* held) {
  if (const refusal why = check(what); why != refusal::none) [[unlikely]]
    return operation_result::refuse(why, code_of(why), who.posted);
  operation_slot& slot = begin(who, false);
  const post_status status = submit(what, slots_.table().id_of(slot));
  if (!status) [[unlikely]]
    return refused(slot, status);
  return begun(slot, held);
}

std::optional<operation_result> channel_core::post(std::span<const sink> into,
                                                   operation_interest who, buffer* held) {
  refusal why = !queue_               ? refusal::not_connected
                : free_receives_ == 0 ? refusal::queue_full
                                      : gather(into, options_.max_recv_sge);
  if (why != refusal::none) [[unlikely]]
    return operation_result::refuse(why, code_of(why), who.posted);
  operation_slot& slot = begin(who, true);
  const std::span<const local_slice> pieces(pieces_);
  const post_status status = queue_->post_receive({.id = slots_.table().id_of(slot)}, pieces);
  if (!status) [[unlikely]]
    return refused(slot, status);
  return begun(slot, held);
}

}  // namespace verbena::inline VERBENA_ABI::detail
