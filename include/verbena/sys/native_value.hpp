// SPDX-License-Identifier: MIT
// Structures of the C API that later versions of rdma-core extend at their end.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::sys {

/// A copy of a structure in a fixed number of bytes. The size does not depend on the headers of
/// rdma-core, so a program and the library may be compiled with different versions. Bytes that the
/// structure does not have are zero. Threads: immutable value.
template <class Native, std::size_t Bytes>
class native_value {
 public:
  static_assert(std::is_trivially_copyable_v<Native>);
  static_assert(sizeof(Native) <= Bytes, "this version of rdma-core needs a newer Verbena");

  /// Copies the structure.
  explicit native_value(const Native& from) noexcept {
    std::memcpy(bytes_.data(), &from, sizeof from);
  }

  /// Returns the structure as the headers of this translation unit define it.
  [[nodiscard]] const Native& get() const noexcept {
    return *std::launder(reinterpret_cast<const Native*>(bytes_.data()));
  }
  /// Returns the member of type `Member` at `offset`. The headers may lack the member.
  /// Precondition: `offset` + sizeof(Member) <= Bytes.
  template <class Member>
  [[nodiscard]] Member member_at(std::size_t offset) const noexcept {
    Member value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }

 private:
  alignas(Native) std::array<std::byte, Bytes> bytes_{};
};

}  // namespace verbena::inline VERBENA_ABI::sys
