// SPDX-License-Identifier: MIT
#include "src/check/memory_watch.hpp"

#ifdef VERBENA_CHECKED

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <span>
#include <utility>

#include "src/base/quiet_thread.hpp"
#include "src/check/model.hpp"

namespace verbena::inline VERBENA_ABI::detail::in_flight {
namespace {

// UFFD_USER_MODE_ONLY of Linux 5.11; older headers lack it. Unprivileged processes need it.
constexpr int user_mode_only = 1;

// Each watched range may add two mappings to the process. The limit is 65,530 (vm.max_map_count).
constexpr std::size_t most_watched = 8192;

// Returns the range of the pages that contain `range`.
memory_range whole_pages(memory_range range) noexcept {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return {range.begin / page * page, (range.end + page - 1) / page * page};
}

bool touch(memory_range one, memory_range other) noexcept {
  return one.begin <= other.end && other.begin <= one.end;
}

std::optional<memory_range> common(memory_range one, memory_range other) noexcept {
  const memory_range part{std::max(one.begin, other.begin), std::min(one.end, other.end)};
  if (part.begin >= part.end) return {};
  return part;
}

// Opens a userfaultfd(2) that reports unmapped, moved and discarded memory. Returns -1 if the
// process is not permitted to, or if the kernel does not support it.
int open_events() noexcept {
  const auto fd =
      static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | user_mode_only));
  if (fd < 0) return -1;
  uffdio_api wanted{};
  wanted.api = UFFD_API;
  wanted.features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP |
                    UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_PAGEFAULT_FLAG_WP;
  if (ioctl(fd, UFFDIO_API, &wanted) == 0) return fd;
  ::close(fd);
  return -1;
}

void forget_pages(int fd, memory_range pages) noexcept {
  uffdio_range range{pages.begin, pages.end - pages.begin};
  // If this fails, other memory is mapped there now, and the pages are no longer watched.
  static_cast<void>(ioctl(fd, UFFDIO_UNREGISTER, &range));
}

// Returns whether `range` contains pages of a shared mapping.
bool is_shared(memory_range range) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"),
                                                             &std::fclose);
  if (maps == nullptr) return false;
  std::array<char, 4352> line;  // a path has at most 4096 bytes
  while (std::fgets(line.data(), line.size(), maps.get()) != nullptr) {
    unsigned long begin = 0;
    unsigned long end = 0;
    std::array<char, 5> access{};
    // NOLINTNEXTLINE(cert-err34-c): the kernel wrote it
    if (std::sscanf(line.data(), "%lx-%lx %4s", &begin, &end, access.data()) != 3) continue;
    if (access[3] == 's' && common(range, {begin, end})) return true;
  }
  return false;
}

}  // namespace

/// Reads the changes of watched memory on a separate thread. Each process has one object, which is
/// never destroyed. The thread locks only mutex_ and does not allocate, because a thread that waits
/// for it may be inside malloc(3) or free(3). For the same reason, no thread may allocate or free
/// memory while it holds mutex_. Threads: thread-safe.
class memory_listener {
 public:
  /// Returns the listener of this process; nullptr if memory cannot be watched. Lock-free: a child
  /// of fork() can call it in any state of the parent's other threads.
  [[nodiscard]] static memory_listener* here() {
    memory_listener* known = only_.load(std::memory_order_acquire);
    if (known == nullptr || known->process_ != ::getpid()) {
      const bool is_first = known == nullptr;
      auto made = std::unique_ptr<memory_listener>(new memory_listener);
      if (only_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) {
        known = made.release();
        if (is_first) pthread_atfork(&before_fork, nullptr, nullptr);
        known->start();
      }
    }
    return known->fd_.load(std::memory_order_relaxed) < 0 ? nullptr : known;
  }

  memory_listener(const memory_listener&) = delete;
  memory_listener& operator=(const memory_listener&) = delete;
  ~memory_listener() { stop(); }  // called only if start() was not called

  [[nodiscard]] bool add(watched_memory& which) {
    const quiet_lock lock(mutex_);
    if (count_ == most_watched) return false;
    const memory_range pages = which.pages_;
    uffdio_register wanted{};
    wanted.range = {pages.begin, pages.end - pages.begin};
    wanted.mode = UFFDIO_REGISTER_MODE_WP;
    if (ioctl(fd_.load(std::memory_order_relaxed), UFFDIO_REGISTER, &wanted) != 0) return false;
    which.next_ = std::exchange(first_, &which);
    which.is_listed_ = true;
    ++count_;
    return true;
  }

  void remove(watched_memory& which) noexcept {
    if (process_ != ::getpid()) return;
    const quiet_lock lock(mutex_);
    watched_memory** at = &first_;
    while (*at != &which) at = &(*at)->next_;
    *at = which.next_;
    --count_;
    const memory_range pages = which.pages_;
    for (std::uintptr_t begin = pages.begin; begin < pages.end;) {
      const auto [watched_until, watched_from] = next_watched(begin, pages.end);
      if (watched_until == begin)
        forget_pages(fd_.load(std::memory_order_relaxed), {begin, watched_from});
      begin = watched_until == begin ? watched_from : watched_until;
    }
  }

  [[nodiscard]] std::optional<memory_change> find(const watched_memory& in, memory_range part) {
    if (!has_heard_.load(std::memory_order_acquire)) return {};
    // In a child of fork(), no thread records changes, and none would unlock mutex_.
    if (process_ != ::getpid()) return in.find(part);
    const quiet_lock lock(mutex_);
    return in.find(part);
  }

 private:
  memory_listener() noexcept : fd_(open_events()) {}

  void stop() noexcept {
    const int fd = fd_.exchange(-1);
    if (fd >= 0) ::close(fd);
  }

  void start() noexcept {
    if (fd_.load(std::memory_order_relaxed) < 0) return;
    pthread_t thread;
    if (start_quiet_thread(thread, &memory_listener::enter, this, "verbena-check") == 0)
      pthread_detach(thread);
    else
      stop();
  }

  // A thread that changes memory continues when the change was read, possibly before the change is
  // recorded. The child inherits only recorded changes, so fork() waits for the others. It does not
  // keep mutex_: another thread may hold a lock that fork() needs next, while it waits until the
  // listener reads its change.
  static void before_fork() noexcept {
    memory_listener* const known = only_.load(std::memory_order_acquire);
    if (known != nullptr && known->process_ == ::getpid()) {
      const quiet_lock noted(known->mutex_);
    }
  }

  static void* enter(void* self) noexcept {
    static_cast<memory_listener*>(self)->listen();
    return nullptr;
  }

  void listen() noexcept {
    [[maybe_unused]] const silence unseen;
    const int fd = fd_.load(std::memory_order_relaxed);
    while (true) {
      pollfd waiting{fd, POLLIN, 0};
      ::poll(&waiting, 1, -1);
      // Set this before the events are read: a thread that waits for the reading then finds it set,
      // and locks mutex_ only after the change is recorded.
      has_heard_.store(true, std::memory_order_seq_cst);
      const quiet_lock lock(mutex_);
      uffd_msg event{};
      ssize_t got = 0;
      while ((got = ::read(fd, &event, sizeof event)) == sizeof event) hear(event, fd);
      if (got >= 0 || (errno != EAGAIN && errno != EINTR)) {
        fd_.store(-1);  // other code closed this descriptor
        return;
      }
    }
  }

  void hear(const uffd_msg& event, int fd) noexcept {
    switch (event.event) {
      case UFFD_EVENT_UNMAP:
        return note({{event.arg.remove.start, event.arg.remove.end}, "unmapped"});
      case UFFD_EVENT_REMOVE:
        return note({{event.arg.remove.start, event.arg.remove.end}, "discarded"});
      case UFFD_EVENT_REMAP: {
        const auto& moved = event.arg.remap;
        // The kernel continues to watch the pages at their new address.
        forget_pages(fd, {moved.to, moved.to + moved.len});
        return note({{moved.from, moved.from + moved.len}, "moved"});
      }
      default:
        return;
    }
  }

  void note(const memory_change& change) noexcept {
    for (watched_memory* each = first_; each != nullptr; each = each->next_)
      if (const auto part = common(change.range, each->memory_)) each->note({*part, change.how});
  }

  // Returns the end of the watched range that contains `begin`, or `begin` if no range does. The
  // second value is the beginning of the next watched pages, at most `end`.
  [[nodiscard]] std::pair<std::uintptr_t, std::uintptr_t> next_watched(
      std::uintptr_t begin, std::uintptr_t end) const noexcept {
    std::uintptr_t from = end;
    for (const watched_memory* each = first_; each != nullptr; each = each->next_) {
      if (each->pages_.begin <= begin && begin < each->pages_.end)
        return {each->pages_.end, each->pages_.end};
      if (each->pages_.begin > begin) from = std::min(from, each->pages_.begin);
    }
    return {begin, from};
  }

  static inline std::atomic<memory_listener*> only_{nullptr};
  const pid_t process_ = ::getpid();
  std::atomic<int> fd_;
  std::atomic<bool> has_heard_{false};
  std::mutex mutex_;
  watched_memory* first_ = nullptr;
  std::size_t count_ = 0;
};

watched_memory::watched_memory(memory_listener& by, memory_range memory, std::string name) noexcept
    : by_(by), memory_(memory), pages_(whole_pages(memory)), name_(std::move(name)) {}

std::shared_ptr<const watched_memory> watched_memory::begin(memory_range memory, std::string name) {
  memory_listener* const by = memory_listener::here();
  if (by == nullptr) return nullptr;
  std::shared_ptr<watched_memory> made(new watched_memory(*by, memory, std::move(name)));
  if (!by->add(*made)) return nullptr;
  return made;
}

watched_memory::~watched_memory() {
  if (is_listed_) by_.remove(*this);
}

void watched_memory::note(const memory_change& change) noexcept {
  for (memory_change& each : std::span(changes_).first(count_))
    if (touch(each.range, change.range)) {
      each.range = {std::min(each.range.begin, change.range.begin),
                    std::max(each.range.end, change.range.end)};
      return;
    }
  if (count_ < changes_.size()) changes_[count_++] = change;
}

std::optional<memory_change> watched_memory::find(memory_range part) const noexcept {
  for (const memory_change& each : std::span(changes_).first(count_))
    if (const auto changed = common(each.range, part)) return memory_change{*changed, each.how};
  return {};
}

std::optional<memory_change> watched_memory::changed(memory_range part) const {
  auto found = by_.find(*this, part);
  if (found && is_shared(found->range)) return {};
  return found;
}

bool is_in_use(memory_range range) noexcept {
  const memory_range pages = whole_pages(range);
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  for (std::uintptr_t at = pages.begin; at < pages.end; at += page) {
    unsigned char state = 0;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): memory is a range of numbers here
    if (::mincore(reinterpret_cast<void*>(at), page, &state) == 0 && (state & 1) != 0) return true;
  }
  return false;
}

}  // namespace verbena::inline VERBENA_ABI::detail::in_flight

#endif
