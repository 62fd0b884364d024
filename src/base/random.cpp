// SPDX-License-Identifier: MIT
#include "verbena/base/random.hpp"

#include <fcntl.h>
#include <strings.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>

#include "verbena/base/fd.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

// Fills `out` from a file. Returns whether all bytes were read.
bool fill_from_file(const char* path, std::span<std::byte> out) noexcept {
  const unique_fd file(::open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  while (!out.empty()) {
    const ssize_t got = ::read(file.get(), out.data(), out.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

// Mixes the bits of `value` with a bijection: each bit of `value` changes about half of the bits of
// the result.
std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d0'49bb'1331'11ebU;
  return value ^ (value >> 31U);
}

// Fills `out` with numbers that differ between processes and calls. A process that sees one number
// may guess others: the only secret is the 16 random bytes that the kernel passes to each program.
void fill_from_state(std::span<std::byte> out) noexcept {
  static std::atomic<std::uint64_t> calls{0};
  std::uint64_t secret[2]{};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel passes the address as a number
  if (const auto* given = reinterpret_cast<const void*>(::getauxval(AT_RANDOM)))
    std::memcpy(secret, given, sizeof secret);
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  std::uint64_t state = mix(secret[0] ^ static_cast<std::uint64_t>(now.tv_nsec)) ^
                        mix(secret[1] + static_cast<std::uint64_t>(now.tv_sec)) ^
                        mix(static_cast<std::uint64_t>(::getpid())) ^ mix(++calls << 32U);
  while (!out.empty()) {
    state += 0x9e37'79b9'7f4a'7c15U;
    const std::uint64_t next = mix(state);
    const std::size_t part = out.size() < sizeof next ? out.size() : sizeof next;
    std::memcpy(out.data(), &next, part);
    out = out.subspan(part);
  }
}

// Fills `out` if a system call filter (seccomp) denies getrandom(2).
void fill_without_getrandom(std::span<std::byte> out) {
  if (fill_from_file("/dev/urandom", out)) return;
  static std::atomic<bool> told{false};
  if (!told.exchange(true))
    log(log_level::warning,
        "getrandom(2) and /dev/urandom are not permitted; keys and numbers are made of the clock "
        "and the state of the process, and are easier to guess. Permit getrandom(2)");
  fill_from_state(out);
}

/// Random bytes for the next numbers, so that most numbers need no system call. The bytes are in a
/// page that the kernel clears in a child of fork (MADV_WIPEONFORK), also after a raw clone(2):
/// parent and child never use the same bytes. Bytes are erased when they are used. Threads:
/// thread-safe.
class random_stock {
 public:
  /// Returns the stock of the process, or nullptr if the kernel cannot clear pages in a child.
  static random_stock* of_process() noexcept {
    // Not a local static with a guard: a child that is forked while the guard is locked would wait
    // for it forever.
    static constinit std::atomic<random_stock*> shared{nullptr};
    static constinit std::atomic<bool> cannot_make{false};
    random_stock* stock = shared.load(std::memory_order_acquire);
    if (stock != nullptr || cannot_make.load(std::memory_order_relaxed)) return stock;
    random_stock* const made = make();
    if (made == nullptr) {
      cannot_make.store(true, std::memory_order_relaxed);
      return nullptr;
    }
    if (shared.compare_exchange_strong(stock, made, std::memory_order_acq_rel)) return made;
    ::munmap(made, sizeof(random_stock));  // another thread was faster
    return stock;
  }

  /// Fills `out`. Returns false if another thread is in this function, or if this process is a
  /// child that a signal handler has forked during the call. The caller then calls getrandom(2).
  [[nodiscard]] bool take(std::span<std::byte> out) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    const leave_when_done leave{busy_};
    std::uint32_t left = left_.load(std::memory_order_relaxed);
    if (!is_filled_.load(std::memory_order_relaxed) || left < out.size()) {
      is_filled_.store(true, std::memory_order_relaxed);  // first, so that a fork clears it
      fill_random(bytes_);
      left = capacity;
    }
    left -= static_cast<std::uint32_t>(out.size());
    std::memcpy(out.data(), bytes_.data() + left, out.size());
    ::explicit_bzero(bytes_.data() + left, out.size());
    left_.store(left, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return is_filled_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t capacity = 256;  // getrandom(2) is uninterrupted up to this size
  struct leave_when_done {
    std::atomic<bool>& busy;
    ~leave_when_done() { busy.store(false, std::memory_order_release); }
  };

  random_stock() noexcept = default;
  static random_stock* make() noexcept {
    void* const page = ::mmap(nullptr, sizeof(random_stock), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return nullptr;
    if (::madvise(page, sizeof(random_stock), MADV_WIPEONFORK) != 0) {
      ::munmap(page, sizeof(random_stock));
      return nullptr;
    }
    ::madvise(page, sizeof(random_stock), MADV_DONTDUMP);
    return new (page) random_stock;
  }

  // A cleared page is an empty stock.
  std::atomic<bool> busy_{false};
  std::atomic<bool> is_filled_{false};
  std::atomic<std::uint32_t> left_{0};
  std::array<std::byte, capacity> bytes_{};
};

template <class T>
T random_value() {
  T value{};
  const auto bytes = std::as_writable_bytes(std::span(&value, 1));
  random_stock* const stock = random_stock::of_process();
  if (stock == nullptr || !stock->take(bytes)) fill_random(bytes);
  return value;
}

}  // namespace

void fill_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const auto got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fill_without_getrandom(out);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

std::uint32_t random_u32() { return random_value<std::uint32_t>(); }
std::uint64_t random_u64() { return random_value<std::uint64_t>(); }

}  // namespace verbena::inline VERBENA_ABI
