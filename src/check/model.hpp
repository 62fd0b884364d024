// SPDX-License-Identifier: MIT
// What the sanitizer of this build is told about memory in flight, and what it then finds. Builds
// without a sanitizer have none of it.
#pragma once

#ifdef VERBENA_CHECKED

#include <cstddef>
#include <mutex>

#include "src/check/ranges.hpp"
#include "verbena/base/sanitizers.hpp"

namespace verbena::inline VERBENA_ABI::detail::in_flight {

#ifdef VERBENA_ADDRESS_SANITIZER
/// Poisons whole granules of 8 bytes of a sink.
void poison(memory_range sink) noexcept;
/// Ends that state. Returns false if the state was changed by other code: the memory
/// was freed.
[[nodiscard]] bool unpoison(memory_range sink) noexcept;
/// Whether the memory is there.
[[nodiscard]] bool is_addressable(memory_range range) noexcept;
#else
inline void poison(memory_range /*sink*/) noexcept {}
[[nodiscard]] inline bool unpoison(memory_range /*sink*/) noexcept { return true; }
[[nodiscard]] inline bool is_addressable(memory_range /*range*/) noexcept { return true; }
#endif

#ifdef VERBENA_THREAD_SANITIZER
/// The adapter's side of one request, to ThreadSanitizer a fiber that runs from the post to the
/// completion. Threads: one thread at a time, the one that has the registry's lock.
class adapter_fiber {
 public:
  adapter_fiber() = default;
  adapter_fiber(const adapter_fiber&) = delete;
  adapter_fiber& operator=(const adapter_fiber&) = delete;
  adapter_fiber(adapter_fiber&&) = delete;
  adapter_fiber& operator=(adapter_fiber&&) = delete;
  ~adapter_fiber();
  /// Orders the earlier accesses of the thread before the request.
  void start();
  /// The adapter accesses memory. `caller` is in whose code the request was posted.
  void access(memory_range range, use how, const void* caller) const;
  /// The request is before what the thread does next.
  void finish() const noexcept;

 private:
  void* fiber_ = nullptr;  ///< none when there are too many
  char* moments_ = nullptr;
};
/// While it lives, ThreadSanitizer hears nothing of what this thread does: the checker's own lock
/// must not order the threads of the program. Threads: thread-bound.
class silence {
 public:
  silence() noexcept;
  silence(const silence&) = delete;
  silence& operator=(const silence&) = delete;
  ~silence();
};
#else
/// Nothing, in this build. Threads: immutable value.
class adapter_fiber {
 public:
  static void start() noexcept {}
  static void access(memory_range /*range*/, use /*how*/, const void* /*caller*/) noexcept {}
  static void finish() noexcept {}
};
/// Nothing, in this build. Threads: immutable value.
struct silence {};
#endif

/// The registry's lock. Threads: thread-bound.
class [[nodiscard]] quiet_lock {
 public:
  explicit quiet_lock(std::mutex& mutex) : lock_(mutex) {}

 private:
  [[maybe_unused]] [[no_unique_address]] silence silence_;
  std::lock_guard<std::mutex> lock_;
};

}  // namespace verbena::inline VERBENA_ABI::detail::in_flight

#endif
