// SPDX-License-Identifier: MIT
// The parts of work requests: ids, flags and memory.
#pragma once

#include <infiniband/verbs.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "verbena/base/assert.hpp"
#include "verbena/base/attributes.hpp"
#include "verbena/verbs/local_slice.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI {

/// Id and flags of a send request: a SEND, RDMA or atomic operation. Source: ibv_post_send(3).
struct send_request {
  std::uint64_t id = 0;    ///< the id of the completion (`wr_id`)
  bool signaled = false;   ///< generates a completion on success; a failure always generates one
  bool fenced = false;     ///< RC: starts after all earlier reads and atomics have completed
  bool solicited = false;  ///< SEND and WRITE with immediate data: causes a solicited event
};

/// Id of a receive request. Source: ibv_post_recv(3).
struct receive_request {
  std::uint64_t id = 0;  ///< the id of the completion (`wr_id`)
};

/// Operands of a compare-and-swap, in host byte order.
struct compare_and_swap_operands {
  std::uint64_t expected;  ///< the value to compare with
  std::uint64_t desired;   ///< the new value if the memory contains `expected`
};

/// Inline data: bytes that are copied into the work request and need no registration.
///
/// The class has the layout of `ibv_data_buf`. queue_sizes::max_inline_data limits the bytes of a
/// request.
/// Threads: immutable value; borrows the bytes.
class inline_data {
 public:
  /// Makes inline data of `bytes`, which must stay valid until the request is posted.
  /// Precondition: less than 4 GiB.
  explicit inline_data(std::span<const std::byte> bytes VERBENA_LIFETIMEBOUND) noexcept
      // The C API lacks const here; providers only read.
      : buffer_{const_cast<std::byte*>(bytes.data()), bytes.size()} {
    VERBENA_CHECK(bytes.size() <= std::numeric_limits<std::uint32_t>::max(),
                  "inline data has 4 GiB or more, which the length of a request cannot express");
  }
  /// Returns the number of bytes.
  [[nodiscard]] std::size_t length() const noexcept { return buffer_.length; }
  /// Returns the buffer of the C API.
  [[nodiscard]] const ibv_data_buf& native() const noexcept { return buffer_; }

 private:
  ibv_data_buf buffer_;
};
static_assert(sizeof(inline_data) == sizeof(ibv_data_buf) &&
              std::is_standard_layout_v<inline_data>);

namespace detail {
// A list that is not a temporary: batches read lists when they are submitted.
template <class T, class Element>
concept lasting_list =
    std::convertible_to<T, std::span<const Element>> &&
    (std::is_lvalue_reference_v<T> || std::ranges::enable_borrowed_range<std::remove_cvref_t<T>>);

template <class T>
concept one_slice = std::same_as<std::remove_cvref_t<T>, local_slice>;
template <class T>
concept one_inline = std::same_as<std::remove_cvref_t<T>, inline_data>;
template <class T>
inline constexpr bool is_inline = one_inline<T> || lasting_list<T, inline_data>;
}  // namespace detail

/// Registered memory: a local_slice, or a list of them (array, vector, span) that is not a
/// temporary.
template <class T>
concept memory_slices = detail::one_slice<T> || detail::lasting_list<T, local_slice>;

/// The data of a message: memory_slices, an inline_data, or a list of inline_data that is not a
/// temporary. An empty list is a message without bytes.
template <class T>
concept message_data =
    memory_slices<T> || detail::one_inline<T> || detail::lasting_list<T, inline_data>;

namespace detail {

// A scatter/gather list of the C API. Slices have the layout of ibv_sge.
static_assert(sizeof(local_slice) == sizeof(ibv_sge) && alignof(local_slice) == alignof(ibv_sge));
static_assert(offsetof(ibv_sge, addr) == 0 && offsetof(ibv_sge, length) == 8 &&
              offsetof(ibv_sge, lkey) == 12);

// Reads an object with the layout of an ibv_sge, so that a copy is one move of 16 bytes. With
// std::memcpy, g++ assumes that the copy can change the count of a batch and keeps it in memory.
struct [[gnu::may_alias]] sge_of_any_type : ibv_sge {};
template <class T>
[[nodiscard, gnu::always_inline]] inline const ibv_sge& as_sge(const T& object) noexcept {
  static_assert(sizeof(T) == sizeof(ibv_sge) && alignof(T) == alignof(ibv_sge));
  return reinterpret_cast<const sge_of_any_type&>(object);
}

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

// Converts lists to spans; returns other data unchanged.
template <class T>
[[nodiscard]] decltype(auto) normalized(const T& data) noexcept {
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

// Checks of RDMA and atomic operations in checked builds.
template <class Data>
void check_fits([[maybe_unused]] const Data& data, [[maybe_unused]] const remote_region& region) {
  VERBENA_CHECK(total_length(normalized(data)) <= region.length(),
                "a request exceeds its remote region");
}
inline void check_atomic([[maybe_unused]] const local_slice& before,
                         [[maybe_unused]] const remote_region& target) {
  VERBENA_CHECK(before.length() == 8 && target.length() >= 8,
                "the slices of an atomic operation do not have 8 bytes");
  VERBENA_CHECK(target.address() % 8 == 0,
                "the target of an atomic operation is not aligned to 8 bytes");
}
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
