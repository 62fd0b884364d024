// SPDX-License-Identifier: MIT
// What a work request is made of: its number and flags, and the memory it names.
#pragma once

#include <infiniband/verbs.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "verbena/base/assert.hpp"
#include "verbena/verbs/local_slice.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI {

/// Number and flags of a request to send, write, read or change memory.
struct send_request {
  std::uint64_t id = 0;    ///< comes back in the completion
  bool signaled = false;   ///< reports its completion, also if it succeeds
  bool fenced = false;     ///< begins after all earlier reads and atomics of the queue have ended
  bool solicited = false;  ///< wakes a peer that waits for solicited completions only
};

/// Number of a request to receive.
struct receive_request {
  std::uint64_t id = 0;  ///< comes back in the completion
};

/// Operands of an atomic comparison: the memory becomes `desired` if it is `expected`.
struct compare_and_swap_operands {
  std::uint64_t expected;  ///< what the memory must be
  std::uint64_t desired;   ///< what it then becomes
};

/// Bytes that travel inside the request and need no registration; laid out as `ibv_data_buf`. The
/// queue pair must have been created with room for them (`max_inline_data`).
/// Threads: immutable value; borrows the bytes.
class inline_data {
 public:
  /// Of `bytes`, which must stay until the batch was submitted.
  explicit inline_data(std::span<const std::byte> bytes) noexcept
      // The C API has no const here; providers only read.
      : buffer_{const_cast<std::byte*>(bytes.data()), bytes.size()} {}
  /// How many bytes.
  [[nodiscard]] std::size_t length() const noexcept { return buffer_.length; }
  /// The same as the C API takes it.
  [[nodiscard]] const ibv_data_buf& native() const noexcept { return buffer_; }

 private:
  ibv_data_buf buffer_;
};
static_assert(sizeof(inline_data) == sizeof(ibv_data_buf) &&
              std::is_standard_layout_v<inline_data>);

namespace detail {
// Lists are read when the batch is submitted: a list that dies with the full expression is refused.
template <class T, class Element>
concept lasting_list =
    std::convertible_to<T, std::span<const Element>> &&
    (std::is_lvalue_reference_v<T> || std::ranges::enable_borrowed_range<std::remove_cvref_t<T>>);

template <class T>
concept one_slice = std::same_as<std::remove_cvref_t<T>, local_slice>;
template <class T>
concept one_inline = std::same_as<std::remove_cvref_t<T>, inline_data>;
template <class T>
inline constexpr bool travels_inline = one_inline<T> || lasting_list<T, inline_data>;
}  // namespace detail

/// Registered memory: a slice, or a list of slices (array, vector, span) that is not a temporary.
template <class T>
concept memory_slices = detail::one_slice<T> || detail::lasting_list<T, local_slice>;

/// What a message is made of: registered memory, or bytes that travel inside the request: one
/// piece, or a list of pieces that is not a temporary. An empty span of slices is a message without
/// bytes.
template <class T>
concept message_data =
    memory_slices<T> || detail::one_inline<T> || detail::lasting_list<T, inline_data>;

namespace detail {

// A list in the form of the C API. Slices have the layout of ibv_sge.
static_assert(sizeof(local_slice) == sizeof(ibv_sge) && alignof(local_slice) == alignof(ibv_sge));
static_assert(offsetof(ibv_sge, addr) == 0 && offsetof(ibv_sge, length) == 8 &&
              offsetof(ibv_sge, lkey) == 12);
struct sge_list {
  const ibv_sge* first;
  std::size_t count;
};
[[nodiscard]] inline sge_list as_sge_list(std::span<const local_slice> slices) noexcept {
  return {reinterpret_cast<const ibv_sge*>(slices.data()), slices.size()};
}

[[nodiscard]] inline std::uint64_t total_length(const local_slice& slice) noexcept {
  return slice.length();
}
[[nodiscard]] inline std::uint64_t total_length(const inline_data& data) noexcept {
  return data.length();
}
template <class Element>
[[nodiscard]] std::uint64_t total_length(std::span<const Element> list) noexcept {
  std::uint64_t sum = 0;
  for (const Element& element : list) sum += element.length();
  return sum;
}

// A span of any list, and anything else as it is.
template <class T>
[[nodiscard]] decltype(auto) normalised(const T& data) noexcept {
  if constexpr (one_slice<T> || one_inline<T>) {
    return (data);
  } else if constexpr (std::convertible_to<const T&, std::span<const local_slice>>) {
    return std::span<const local_slice>(data);
  } else {
    return std::span<const inline_data>(data);
  }
}

[[nodiscard]] inline unsigned send_flags(send_request request) noexcept {
  return (request.signaled ? unsigned{IBV_SEND_SIGNALED} : 0U) |
         (request.fenced ? unsigned{IBV_SEND_FENCE} : 0U) |
         (request.solicited ? unsigned{IBV_SEND_SOLICITED} : 0U);
}

// The rules of remote operations that checked builds hold.
template <class Data>
void check_fits([[maybe_unused]] const Data& data, [[maybe_unused]] const remote_region& region) {
  VERBENA_CHECK(total_length(normalised(data)) <= region.length(),
                "what is read or written fits into the remote region");
}
inline void check_atomic([[maybe_unused]] const local_slice& before,
                         [[maybe_unused]] const remote_region& target) {
  VERBENA_CHECK(before.length() == 8 && target.length() >= 8, "an atomic operation has 8 bytes");
  VERBENA_CHECK(target.address() % 8 == 0, "the target of an atomic operation is aligned to 8");
}
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
