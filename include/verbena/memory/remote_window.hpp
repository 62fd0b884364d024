// SPDX-License-Identifier: MIT
// Memory that a peer may read or write while this side uses it: copies in and out, and words with
// order; never a reference, which would let the compiler believe that nobody else writes.
#pragma once

#include <atomic>
#include <bit>
#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/result.hpp"
#include "verbena/memory/remote_view.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI {

/// A word that one access reads or writes as a whole: an integer or enumeration of 4 or 8 bytes.
template <class Word>
concept window_word =
    (std::integral<Word> || std::is_enum_v<Word>) && (sizeof(Word) == 4 || sizeof(Word) == 8);

namespace detail {

class window_state;

/// The part of a window that does not depend on its type: src/memory/remote_window.cpp.
/// Threads: one thread at a time, but for at().
class window_base {
 public:
  window_base(window_base&&) noexcept;
  window_base& operator=(window_base&&) noexcept;
  ~window_base();

  /// `count` elements of `size` bytes, zeroed.
  static result<window_base> create(const protection_domain& pd, std::size_t count,
                                    std::size_t size);

  result<remote_region> grant(access_flags peers);
  result<void> revoke();
  [[nodiscard]] bool granted() const;
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] std::byte* at(std::size_t index, std::size_t size) const {
    VERBENA_ASSERT(index < count_, "an index of a remote_window is less than its count");
    return memory_ + index * size;
  }

  static constexpr const char* moved_from = "a moved-from remote_window must not be used";

 private:
  window_base(std::unique_ptr<window_state> state, std::byte* memory, std::size_t count) noexcept;
  [[nodiscard]] window_state& state() const;

  std::unique_ptr<window_state> state_;
  std::byte* memory_;
  std::size_t count_;  // 0 when moved from
};

/// Copies memory that a device may write at the same time. Each aligned word of 8 bytes is read at
/// once; all words are read after what was seen before, and before what is looked at afterwards.
void copy_from_window(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
/// Copies into memory that a device may read at the same time, in the same way.
void copy_into_window(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

}  // namespace detail

/// One or several T that peers may access, once grant() let them and until revoke() does not. This
/// side sees them by copies, and single words of them by load() and store(). Each pattern of bits
/// that a peer may write must be a value of T: an integer is fine, a bool or a pointer is not.
///
/// A copy of several words that a peer writes at the same time may have some of before and some of
/// after: agree on a word that says when they may be read, and look at it with load() first. The
/// bytes are zero at first. No request that names the window may be under way when it is destroyed
/// on this side; a peer's may.
///
/// Destroying a window revokes it. If the device refuses that, it is reported to the log, and the
/// memory stays until the process ends. Threads: grant(), revoke() and moving need exclusive
/// access; all else is thread-safe.
template <remote_layout T>
  requires(std::is_default_constructible_v<T> && !std::is_array_v<T>)
class [[nodiscard]] remote_window {
 public:
  /// What it consists of.
  using value_type = T;

  /// Allocates the memory; no peer may access it yet. Allocates; blocks in the kernel.
  ///
  /// Errors: `invalid_argument` for a `count` of 0, and for more than there are addresses;
  /// otherwise the errno of mmap(2).
  [[nodiscard]] static result<remote_window> create(const protection_domain& domain,
                                                    std::size_t count = 1) {
    VERBENA_TRY(auto base, detail::window_base::create(domain, count, sizeof(T)));
    return remote_window(std::move(base));
  }

  /// Registers the memory for peers, `remote_read`, `remote_write` and `remote_atomic` in `peers`,
  /// and returns what they need to reach it; each grant has a key of its own. The queue pair must
  /// allow the same. Blocks in the kernel.
  ///
  /// Errors: `invalid_argument` for no right and for any other; otherwise the errno of
  /// ibv_reg_mr(3). Precondition: not granted().
  [[nodiscard]] result<remote_region> grant(access_flags peers) { return base_.grant(peers); }
  /// Deregisters: accesses of peers fail from now on, with an error that ends their connection.
  /// What they wrote is still there to be read. Blocks while peers are in the middle of an access.
  /// Does nothing if it is not granted.
  ///
  /// Errors: the errno of ibv_dereg_mr(3), and the window is still granted.
  [[nodiscard]] result<void> revoke() { return base_.revoke(); }
  /// Whether peers may access it.
  [[nodiscard]] bool granted() const { return base_.granted(); }
  /// How many T it consists of.
  [[nodiscard]] std::size_t count() const noexcept { return base_.count(); }

  /// Writes one T. Precondition: index < count().
  void copy_in(const T& value, std::size_t index = 0) {
    detail::copy_into_window(at(index), reinterpret_cast<const std::byte*>(&value), sizeof(T));
  }
  /// Reads one T. Precondition: index < count().
  [[nodiscard]] T copy_out(std::size_t index = 0) const {
    T value;
    detail::copy_from_window(reinterpret_cast<std::byte*>(&value), at(index), sizeof(T));
    return value;
  }
  /// Writes a field of one T, `window.copy_in(&slot::key, key)`. Precondition: index < count().
  template <class Field, class Class>
    requires detail::field_of<Field Class::*, T>
  void copy_in(Field Class::* field, const std::type_identity_t<Field>& value,
               std::size_t index = 0) {
    detail::copy_into_window(at(index) + detail::offset_of<T>(field),
                             reinterpret_cast<const std::byte*>(&value), sizeof(Field));
  }
  /// Reads a field of one T. Precondition: index < count().
  template <class Field, class Class>
    requires(detail::field_of<Field Class::*, T> && !std::is_array_v<Field>)
  [[nodiscard]] Field copy_out(Field Class::* field, std::size_t index = 0) const {
    Field value;
    detail::copy_from_window(reinterpret_cast<std::byte*>(&value),
                             at(index) + detail::offset_of<T>(field), sizeof(Field));
    return value;
  }

  /// Reads a word at once. What is read afterwards is at least as new: if a peer's device wrote
  /// that before the word, it is seen. Precondition: index < count(), and the word lies on a
  /// multiple of its size.
  template <window_word Word, class Class>
    requires detail::field_of<Word Class::*, T>
  [[nodiscard]] Word load(Word Class::* field, std::size_t index = 0) const {
    return word_at<Word>(at(index) + detail::offset_of<T>(field)).load(std::memory_order_acquire);
  }
  /// Writes a word at once, after all that was written before it. Precondition: as of load().
  template <window_word Word, class Class>
    requires detail::field_of<Word Class::*, T>
  void store(Word Class::* field, std::type_identity_t<Word> value, std::size_t index = 0) {
    word_at<Word>(at(index) + detail::offset_of<T>(field)).store(value, std::memory_order_release);
  }
  /// The same of a window that consists of words.
  [[nodiscard]] T load(std::size_t index = 0) const
    requires window_word<T>
  {
    return word_at<T>(at(index)).load(std::memory_order_acquire);
  }
  /// The same of a window that consists of words.
  void store(T value, std::size_t index = 0)
    requires window_word<T>
  {
    word_at<T>(at(index)).store(value, std::memory_order_release);
  }

 private:
  explicit remote_window(detail::window_base base) noexcept : base_(std::move(base)) {}

  [[nodiscard]] std::byte* at(std::size_t index) const { return base_.at(index, sizeof(T)); }
  template <class Word>
  [[nodiscard]] static std::atomic_ref<Word> word_at(std::byte* address) {
    VERBENA_ASSERT(std::bit_cast<std::uintptr_t>(address) % sizeof(Word) == 0,
                   "a word that is read or written at once lies on a multiple of its size");
    return std::atomic_ref<Word>(*reinterpret_cast<Word*>(address));
  }

  detail::window_base base_;
};

}  // namespace verbena::inline VERBENA_ABI
