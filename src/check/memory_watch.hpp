// SPDX-License-Identifier: MIT
// Whether registered memory of the program still is what was registered. The kernel tells which
// pages were unmapped, moved or discarded (userfaultfd(2)); no page is protected, and no fault is
// waited for. One thread listens, from the first such registration of the process until its end;
// who changes watched memory waits until it has heard.
#pragma once

#ifdef VERBENA_CHECKED

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "src/check/ranges.hpp"

namespace verbena::inline VERBENA_ABI::detail::in_flight {

class memory_listener;

/// A change of memory.
struct memory_change {
  memory_range range;
  const char* how;  ///< `unmapped`
};

/// Memory of which changes are noticed while this lives. A child of fork() knows the changes that
/// came before the fork, and no others. Threads: thread-safe.
class watched_memory {
 public:
  /// Begins; nullptr where the kernel does not let us, or not for this kind of memory. Allocates;
  /// starts the thread of the process that listens.
  [[nodiscard]] static std::shared_ptr<const watched_memory> begin(memory_range memory,
                                                                   std::string name);
  watched_memory(const watched_memory&) = delete;
  watched_memory& operator=(const watched_memory&) = delete;
  ~watched_memory();
  /// A change of `part` after begin(), if there was one. Memory that other programs may see (a
  /// shared mapping) counts as unchanged: it may be the same memory again. Blocks for a moment
  /// while a change is being recorded; a load if nothing ever changed.
  [[nodiscard]] std::optional<memory_change> changed(memory_range part) const;
  /// As it was given to begin().
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  friend class memory_listener;
  watched_memory(memory_listener& by, memory_range memory, std::string name) noexcept;
  // Notes a change; forgets it when there are too many to say exactly which.
  void note(const memory_change& change) noexcept;
  [[nodiscard]] std::optional<memory_change> find(memory_range part) const noexcept;

  memory_listener& by_;
  memory_range memory_;
  memory_range pages_;
  std::string name_;
  std::array<memory_change, 8> changes_{};
  std::size_t count_ = 0;
  // In the listener's list, with its lock: it must not allocate.
  watched_memory* next_ = nullptr;
  bool is_listed_ = false;
};

/// Whether a page of `range` is there now, and was used.
[[nodiscard]] bool is_in_use(memory_range range) noexcept;

}  // namespace verbena::inline VERBENA_ABI::detail::in_flight

#endif
