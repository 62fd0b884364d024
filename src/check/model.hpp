// SPDX-License-Identifier: MIT
// Reports memory in flight to the sanitizer of this build, which then detects invalid accesses. In
// builds without a sanitizer, these functions have no effect.
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
/// Reverts poison(). Returns false if other code has changed the state: the memory was freed.
[[nodiscard]] bool unpoison(memory_range sink) noexcept;
/// Returns whether no byte of the range is poisoned, for example because it was freed.
[[nodiscard]] bool is_addressable(memory_range range) noexcept;
#else
inline void poison(memory_range /*sink*/) noexcept {}
[[nodiscard]] inline bool unpoison(memory_range /*sink*/) noexcept { return true; }
[[nodiscard]] inline bool is_addressable(memory_range /*range*/) noexcept { return true; }
#endif

#ifdef VERBENA_THREAD_SANITIZER
/// The accesses of the adapter for one request. For ThreadSanitizer they are a fiber that runs from
/// the post to the completion. Threads: one thread at a time, with the registry's lock held.
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
  /// Records an access of the adapter to memory. `caller` is the return address of the post.
  void access(memory_range range, use how, const void* caller) const;
  /// Orders the request before the later accesses of the thread.
  void finish() const noexcept;

 private:
  void* fiber_ = nullptr;  ///< nullptr if the maximum of fibers is in use
  char* moments_ = nullptr;
};
/// Hides the accesses and locks of this thread from ThreadSanitizer while it exists: the checker's
/// lock must not order the threads of the program. Threads: thread-bound.
class silence {
 public:
  silence() noexcept;
  silence(const silence&) = delete;
  silence& operator=(const silence&) = delete;
  ~silence();
};
#else
/// Has no effect in this build. Threads: immutable value.
class adapter_fiber {
 public:
  static void start() noexcept {}
  static void access(memory_range /*range*/, use /*how*/, const void* /*caller*/) noexcept {}
  static void finish() noexcept {}
};
/// Has no effect in this build. Threads: immutable value.
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
