// SPDX-License-Identifier: MIT
// The owned level: an operation takes a buffer and returns it with the result.
#include <utility>

#include "src/channel/part_length.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/pending_operation.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

// The slice of a buffer for an operation. Empty if the length is 0.
template <class Piece>
class slice_of {
 public:
  slice_of(const buffer& memory, const buffer_slice& part) {
    VERBENA_ASSERT(!memory.empty(), "an empty or moved-from buffer was posted");
    if (const std::size_t length = detail::part_length(memory, part); length != 0)
      slice_.emplace(memory, part.offset, length);
  }
  [[nodiscard]] std::span<const Piece> get() const {
    return slice_ ? std::span<const Piece>(&*slice_, 1) : std::span<const Piece>();
  }

 private:
  std::optional<Piece> slice_;
};

}  // namespace

pending_operation::pending_operation(detail::channel_core& core,
                                     const detail::operation_description& what, buffer&& memory,
                                     std::source_location posted)
    : core_(nullptr) {
  // May throw, if it connects the channel: the core is held afterwards.
  slot_ = core.post(what, {.waiter = this, .posted = posted}, &memory);
  if (slot_ == nullptr) {
    held = std::move(memory);
    return;
  }
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

pending_operation::~pending_operation() { let_go(); }

void pending_operation::take_over(pending_operation& other) noexcept {
  core_ = std::exchange(other.core_, nullptr);
  slot_ = std::exchange(other.slot_, nullptr);
  result = other.result;
  ended = std::exchange(other.ended, false);
  held = std::move(other.held);
  if (!ended && slot_ != nullptr) detail::channel_core::redirect(*slot_, this);
}

void pending_operation::let_go() noexcept {
  if (!ended && slot_ != nullptr) detail::channel_core::redirect(*slot_, nullptr);
  slot_ = nullptr;
  detail::channel_core::release(std::exchange(core_, nullptr));
}

detail::channel_core& pending_operation::core() {
  VERBENA_ASSERT(core_ != nullptr, "a moved-from operation was used");
  return *core_;
}

const operation_result* pending_operation::outcome() noexcept {
  if (!ended) return nullptr;
  let_go();  // the handle no longer needs the channel
  return &result;
}

const operation_result* pending_operation::poll() {
  if (!ended) core().progress();
  return outcome();
}

const operation_result* pending_operation::wait(deadline until) {
  if (!ended && !core().wait(*this, until)) return nullptr;
  return outcome();
}

buffer pending_operation::take_buffer() {
  VERBENA_ASSERT(
      ended,
      "take_buffer() of an operation in flight: call it after poll() or wait() has returned a "
      "result");
  return std::move(held);
}

using detail::operation_kind;

pending_operation channel::post_send(buffer&& memory, const buffer_slice& part,
                                     const operation_options& options,
                                     std::source_location posted) {
  const slice_of<source> slice(memory, part);
  return {core(),
          {.kind = operation_kind::send, .out = slice.get(), .options = options},
          std::move(memory),
          posted};
}

pending_operation channel::post_receive(buffer&& memory, const buffer_slice& part,
                                        std::source_location posted) {
  const slice_of<sink> slice(memory, part);
  return {core(), {.kind = operation_kind::receive, .in = slice.get()}, std::move(memory), posted};
}

pending_operation channel::post_write(buffer&& memory, const remote_region& to,
                                      const buffer_slice& part, const operation_options& options,
                                      std::source_location posted) {
  const slice_of<source> slice(memory, part);
  return {core(),
          {.kind = operation_kind::write, .out = slice.get(), .remote = to, .options = options},
          std::move(memory),
          posted};
}

pending_operation channel::post_read(buffer&& memory, const remote_region& from,
                                     const buffer_slice& part, std::source_location posted) {
  const slice_of<sink> slice(memory, part);
  return {core(),
          {.kind = operation_kind::read, .in = slice.get(), .remote = from},
          std::move(memory),
          posted};
}

pending_operation channel::post_compare_and_swap(buffer&& before, const remote_region& target,
                                                 compare_and_swap_operands operands,
                                                 std::source_location posted) {
  const slice_of<sink> slice(before, {.length = 8});
  return {core(), detail::operation_description::comparison(target, operands, slice.get()),
          std::move(before), posted};
}

pending_operation channel::post_fetch_and_add(buffer&& before, const remote_region& target,
                                              std::uint64_t addend, std::source_location posted) {
  const slice_of<sink> slice(before, {.length = 8});
  return {core(), detail::operation_description::addition(target, addend, slice.get()),
          std::move(before), posted};
}

}  // namespace verbena::inline VERBENA_ABI
