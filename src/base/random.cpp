// SPDX-License-Identifier: MIT
#include "verbena/base/random.hpp"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "verbena/base/fd.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

template <class T>
T random_value() {
  T value{};
  fill_random(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

// Reads what is left of `out` from a file. Returns whether all came.
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

// A bijection in which each bit of the argument changes about half of the bits of the result.
std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30U)) * 0xbf58'476d'1ce4'e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d0'49bb'1331'11ebU;
  return value ^ (value >> 31U);
}

// Numbers that differ between processes and calls. A process that sees one could guess others: the
// kernel's 16 random bytes of each program are the only secret in them.
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

// A filter of system calls (seccomp) may deny getrandom(2).
void fill_without_getrandom(std::span<std::byte> out) {
  if (fill_from_file("/dev/urandom", out)) return;
  static std::atomic<bool> told{false};
  if (!told.exchange(true))
    log(log_level::warning,
        "getrandom(2) and /dev/urandom are not permitted; keys and numbers are made of the clock "
        "and the state of the process, and are easier to guess. Permit getrandom(2)");
  fill_from_state(out);
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
