// SPDX-License-Identifier: MIT
// The owned level: an operation takes a buffer and returns it with the result.
#include <utility>

#include "src/channel/part_length.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/pending_operation.hpp"

namespace verbena::inline VERBENA_ABI {
using detail::operation_kind;

namespace {

bool is_default(const operation_options& options) noexcept {
  return !options.immediate && !options.fenced && !options.solicited;
}

}  // namespace

// NOLINTBEGIN(cppcoreguidelines-pro-type-member-init): slot_ is set below
[[gnu::always_inline]] inline pending_operation::pending_operation(detail::channel_core& core,
                                                                   operation_kind kind,
                                                                   buffer&& memory,
                                                                   std::source_location posted)
    : buffer_waiter(std::move(memory)), core_(&core) {
  core.hold();
  result = detail::channel_core::hope(posted);
  slot_ = &core.begin(kind, posted);
  slot_->waiter = this;
  slot_->scope = nullptr;
  slot_->has_buffer = true;
}
// NOLINTEND(cppcoreguidelines-pro-type-member-init)

pending_operation::pending_operation(int code, buffer&& memory, std::source_location posted)
    : buffer_waiter(std::move(memory)), core_(nullptr) {
  result = operation_result::refuse(refusal::verb, code, posted);
  ended = true;
}

pending_operation::pending_operation(detail::channel_core& core,
                                     const detail::operation_description& what, buffer&& memory,
                                     std::source_location posted)
    : core_(nullptr) {
  result = detail::channel_core::hope(posted);
  // May throw, if it connects the channel: the core is held afterwards.
  slot_ = core.post(what, {.waiter = this, .posted = posted, .has_buffer = true});
  held = std::move(memory);
  if (slot_ == nullptr) return;
  core.hold();
  core_ = &core;
}

pending_operation::pending_operation(pending_operation&& other) noexcept { take_over(other); }

pending_operation& pending_operation::operator=(pending_operation&& other) noexcept {
  if (this != &other) {
    let_go();
    take_over(other);
  }
  return *this;
}

void pending_operation::take_over(pending_operation& other) noexcept {
  core_ = std::exchange(other.core_, nullptr);
  slot_ = std::exchange(other.slot_, nullptr);
  result = other.result;
  ended = std::exchange(other.ended, false);
  held = std::move(other.held);
  if (!ended && slot_ != nullptr) detail::channel_core::redirect(*slot_, this);
}

void pending_operation::let_go() noexcept {
  if (!ended && slot_ != nullptr) detail::channel_core::hold_for(*slot_, std::move(held));
  slot_ = nullptr;
  detail::channel_core::release(std::exchange(core_, nullptr));
}

const operation_result* pending_operation::outcome() noexcept {
  if (!ended) return nullptr;
  let_go();  // the handle no longer needs the channel
  return &result;
}

const operation_result* pending_operation::poll() & {
  if (!ended) core().progress();
  return outcome();
}

const operation_result* pending_operation::wait(deadline until) & {
  if (ended) return outcome();
  detail::channel_core& core = this->core();
  detail::operation_slot& slot = *slot_;
  const detail::found what = detail::channel_core::poll_for(core.table(), slot, result);
  if (what != detail::found::it) [[unlikely]]
    return wait_longer(what, until);
  slot.has_buffer = false;
  detail::channel_core::end_here(slot);
  ended = true;
  slot_ = nullptr;
  core_ = nullptr;
  detail::channel_core::release(&core);
  return &result;
}

const operation_result* pending_operation::wait_longer(detail::found what, deadline until) {
  detail::channel_core& core = this->core();
  if (what == detail::found::something_else) core.deliver(result);
  if (!ended && !core.wait(*this, until)) return nullptr;
  return outcome();
}

pending_operation pending_operation::post_atomic(detail::channel_core& core,
                                                 detail::operation_description what,
                                                 buffer&& memory, std::source_location posted) {
  constexpr std::size_t old_value_bytes = 8;
  VERBENA_ASSERT(!memory.empty(), "an empty or moved-from buffer was posted");
  const sink before(memory, 0, detail::part_length(memory, {.length = old_value_bytes}));
  what.in = std::span(&before, 1);
  return {core, what, std::move(memory), posted};
}

// Posts an operation of one slice, or without any; `options` are those of a send or write.
template <operation_kind Kind, class Piece>
pending_operation pending_operation::post(  // lint: allow(parameters): those of post_write()
    detail::channel_core& core, buffer&& memory, const buffer_slice& part,
    const remote_region& remote, const operation_options& options, std::source_location posted) {
  VERBENA_ASSERT(!memory.empty(), "an empty or moved-from buffer was posted");
  const std::size_t length = detail::part_length(memory, part);
  if (length == 0) [[unlikely]]
    return {core, {.kind = Kind, .remote = remote, .options = options}, std::move(memory), posted};
  const Piece piece(memory, part.offset, length);
  if (!is_default(options) || !core.is_usual<Kind>(piece, remote)) [[unlikely]] {
    const detail::memory_piece only(piece);
    return {core,
            {.kind = Kind, .piece = &only, .remote = remote, .options = options},
            std::move(memory),
            posted};
  }
  if (const auto status = core.submit_usual<Kind>(piece, remote); !status) [[unlikely]]
    return {status.code(), std::move(memory), posted};
  return {core, Kind, std::move(memory), posted};
}

pending_operation channel::post_send(buffer&& memory, const buffer_slice& part,
                                     const operation_options& options,
                                     std::source_location posted) {
  return pending_operation::post<operation_kind::send, source>(core(), std::move(memory), part, {},
                                                               options, posted);
}

pending_operation channel::post_receive(buffer&& memory, const buffer_slice& part,
                                        std::source_location posted) {
  return pending_operation::post<operation_kind::receive, sink>(core(), std::move(memory), part, {},
                                                                {}, posted);
}

pending_operation channel::post_write(buffer&& memory, const remote_region& to,
                                      const buffer_slice& part, const operation_options& options,
                                      std::source_location posted) {
  return pending_operation::post<operation_kind::write, source>(core(), std::move(memory), part, to,
                                                                options, posted);
}

pending_operation channel::post_read(buffer&& memory, const remote_region& from,
                                     const buffer_slice& part, std::source_location posted) {
  return pending_operation::post<operation_kind::read, sink>(core(), std::move(memory), part, from,
                                                             {}, posted);
}

pending_operation channel::post_compare_and_swap(buffer&& before, const remote_region& target,
                                                 compare_and_swap_operands operands,
                                                 std::source_location posted) {
  return pending_operation::post_atomic(core(),
                                        detail::operation_description::comparison(target, operands),
                                        std::move(before), posted);
}

pending_operation channel::post_fetch_and_add(buffer&& before, const remote_region& target,
                                              std::uint64_t addend, std::source_location posted) {
  return pending_operation::post_atomic(
      core(), detail::operation_description::addition(target, addend), std::move(before), posted);
}

}  // namespace verbena::inline VERBENA_ABI
