// SPDX-License-Identifier: MIT
// Requests in flight under ThreadSanitizer. Each request is a fiber that accesses its memory after
// the post and before the poll. If the program accesses the memory meanwhile, the sanitizer reports
// a race with both stacks.
#include "src/check/model.hpp"

#if defined(VERBENA_CHECKED) && defined(VERBENA_THREAD_SANITIZER)

#include <sanitizer/tsan_interface.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

extern "C" {
// The header does not declare these functions; every runtime of ThreadSanitizer defines them.
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void __tsan_func_entry(void* caller);  // NOLINT(bugprone-reserved-identifier): the runtime's
void __tsan_func_exit();               // NOLINT(bugprone-reserved-identifier): the runtime's
void __tsan_read_range(void* address, unsigned long bytes);  // NOLINT(bugprone-reserved-identifier)
void __tsan_write_range(void* address,
                        unsigned long bytes);  // NOLINT(bugprone-reserved-identifier)
}

namespace verbena::inline VERBENA_ABI::detail::in_flight {
namespace {

// The runtime of g++ 12 aborts at 8,128 threads and fibers. Further requests have no fiber, but
// their posts are still ordered before their completions.
constexpr std::size_t most_fibers = 512;

// In a child of fork() whose parent had several threads, the runtime ignores synchronization of the
// remaining thread, but not switches of fibers. It would report fibers that are ordered as races.
const pid_t process_at_start = ::getpid();

std::vector<void*>& idle_fibers() {
  static auto* const idle = new std::vector<void*>;
  return *idle;
}

void* take_fiber() {
  static std::size_t made = 0;
  if (::getpid() != process_at_start) return nullptr;
  auto& idle = idle_fibers();
  if (!idle.empty()) {
    void* const fiber = idle.back();
    idle.pop_back();
    return fiber;
  }
  if (made == most_fibers) return nullptr;
  ++made;
  void* const fiber = __tsan_create_fiber(0);
  __tsan_set_fiber_name(fiber, "the adapter");
  return fiber;
}

void begin_silence() noexcept {
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
void end_silence() noexcept {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
}

// The values of a request for the runtime, which must not see accesses to the checker's own data.
struct told {
  void* fiber;
  void* posted;
  void* done;
};

}  // namespace

silence::silence() noexcept { begin_silence(); }
silence::~silence() { end_silence(); }

adapter_fiber::~adapter_fiber() {
  if (fiber_ != nullptr) idle_fibers().push_back(fiber_);
  delete[] moments_;  // also discards the records of the runtime for these addresses
}

void adapter_fiber::start() {
  moments_ = new char[16];
  fiber_ = take_fiber();
  const told here{fiber_, moments_, moments_ + 8};
  end_silence();
  __tsan_release(here.posted);
  if (here.fiber == nullptr) {
    __tsan_release(here.done);
  } else {
    void* const thread = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(here.fiber, __tsan_switch_to_fiber_no_sync);
    __tsan_acquire(here.posted);
    __tsan_release(here.done);
    __tsan_switch_to_fiber(thread, __tsan_switch_to_fiber_no_sync);
  }
  begin_silence();
}

void adapter_fiber::access(memory_range range, use how, const void* caller) const {
  if (fiber_ == nullptr) return;
  const told here{fiber_, moments_, moments_ + 8};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): memory is a range of numbers here
  auto* const memory = reinterpret_cast<void*>(range.begin);
  end_silence();
  void* const thread = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(here.fiber, __tsan_switch_to_fiber_no_sync);
  __tsan_func_entry(const_cast<void*>(caller));
  if (how == use::sink)
    __tsan_write_range(memory, range.end - range.begin);
  else
    __tsan_read_range(memory, range.end - range.begin);
  __tsan_func_exit();
  __tsan_release(here.done);
  __tsan_switch_to_fiber(thread, __tsan_switch_to_fiber_no_sync);
  begin_silence();
}

void adapter_fiber::finish() const noexcept {
  if (moments_ == nullptr) return;
  const told here{fiber_, moments_, moments_ + 8};
  end_silence();
  __tsan_acquire(here.done);
  begin_silence();
}

}  // namespace verbena::inline VERBENA_ABI::detail::in_flight

#endif
