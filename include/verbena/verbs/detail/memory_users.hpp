// SPDX-License-Identifier: MIT
// Lists the scopes of a thread whose operations use memory of the program. Before memory is
// released, stop_if_in_use() checks that no operation of these scopes uses it.
#pragma once

#include <cstdint>
#include <source_location>

#include "verbena/base/ids.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// A range of registered memory, with the address and key that work requests contain.
struct registered_range {
  std::uint64_t address;
  std::uint64_t length;
  local_key key;

  /// Returns whether a slice with this key and address begins in the range.
  [[nodiscard]] bool contains(local_key of, std::uint64_t first) const noexcept {
    return of == key && first - address < length;
  }
};

/// A scope in the list of this thread. Threads: thread-bound.
class memory_user {
 public:
  /// Returns where an operation in flight that uses `memory` was posted. If no operation uses
  /// `memory`, returns nullptr.
  using search = const std::source_location* (*)(const memory_user& self,
                                                 const registered_range& memory) noexcept;

  memory_user(const memory_user&) = delete;
  memory_user& operator=(const memory_user&) = delete;

 protected:
  /// Adds the scope to the list of this thread. Scopes end in the reverse order of their creation.
  explicit memory_user(search find) noexcept;
  ~memory_user();

 private:
  friend void stop_if_in_use(const registered_range& memory);

  search find_;
  memory_user* outer_;
};

/// The innermost scope of this thread; nullptr outside of scopes.
extern constinit thread_local memory_user* innermost_user;

/// Stops the program if an operation of a scope of this thread uses `memory`.
void stop_if_in_use(const registered_range& memory);

}  // namespace verbena::inline VERBENA_ABI::detail
