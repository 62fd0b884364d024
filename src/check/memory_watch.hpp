// SPDX-License-Identifier: MIT
// Detects whether registered memory of the program was replaced. The kernel reports pages that were
// unmapped, moved or discarded (userfaultfd(2)); no page is protected, and no fault is awaited. One
// thread reads the reports, from the first registration until the process ends. A thread that
// changes watched memory waits in the kernel until this thread has read the report.
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

/// A change of watched memory. Threads: immutable value.
struct memory_change {
  memory_range range;
  const char* how;  ///< `unmapped`
};

/// Memory whose changes are recorded while this object exists. A child of fork() has only the
/// changes before the fork. Threads: thread-safe.
class watched_memory {
 public:
  /// Begins to watch `memory`. Returns nullptr if the kernel does not permit it, or does not
  /// support it for this memory. Allocates; the first call starts the listening thread of the
  /// process.
  [[nodiscard]] static std::shared_ptr<const watched_memory> begin(memory_range memory,
                                                                   std::string name);
  watched_memory(const watched_memory&) = delete;
  watched_memory& operator=(const watched_memory&) = delete;
  ~watched_memory();
  /// Returns a change of `part` after begin(); nullopt if it was not changed. Memory in a shared
  /// mapping counts as unchanged, because the program may have mapped the same memory again. Blocks
  /// briefly while a change is recorded. If no change was ever reported, the call is one load.
  [[nodiscard]] std::optional<memory_change> changed(memory_range part) const;
  /// Returns the name that was passed to begin().
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  friend class memory_listener;
  watched_memory(memory_listener& by, memory_range memory, std::string name) noexcept;
  // Records a change. Merges it with a recorded change that it touches; discards it if all entries
  // are used.
  void note(const memory_change& change) noexcept;
  [[nodiscard]] std::optional<memory_change> find(memory_range part) const noexcept;

  memory_listener& by_;
  memory_range memory_;
  memory_range pages_;
  std::string name_;
  std::array<memory_change, 8> changes_{};
  std::size_t count_ = 0;
  // The link of the listener's list, guarded by its lock. The list must not allocate.
  watched_memory* next_ = nullptr;
  bool is_listed_ = false;
};

/// Returns whether a page of `range` is mapped and resident.
[[nodiscard]] bool is_in_use(memory_range range) noexcept;

}  // namespace verbena::inline VERBENA_ABI::detail::in_flight

#endif
