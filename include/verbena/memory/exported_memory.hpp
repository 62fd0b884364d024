// SPDX-License-Identifier: MIT
// Memory that peers and this side access concurrently. This side accesses it by copies and atomic
// words. With references, the compiler would assume that no other thread writes.
#pragma once

#include <atomic>
#include <bit>
#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/memory/remote_view.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI {

/// A type that is read and written atomically: an integer or enumeration of 4 or 8 bytes.
template <class Word>
concept exported_word =
    (std::integral<Word> || std::is_enum_v<Word>) && (sizeof(Word) == 4 || sizeof(Word) == 8);

/// The index of an element of exported_memory, counted from 0. The type prevents that a call
/// confuses the index with the value.
using element_index = strong_id<struct element_index_tag, std::size_t>;

namespace detail {

class window_state;
void destroy(window_state& state) noexcept;

/// The part of exported_memory that does not depend on the type.
/// Threads: one thread at a time, except at() and check_index().
class window_base {
 public:
  window_base(window_base&& other) noexcept
      : state_(std::move(other.state_)),
        memory_(std::exchange(other.memory_, nullptr)),
        count_(std::exchange(other.count_, 0)) {}
  window_base& operator=(window_base&& other) noexcept {
    state_ = std::move(other.state_);
    memory_ = std::exchange(other.memory_, nullptr);
    count_ = std::exchange(other.count_, 0);
    return *this;
  }
  window_base(const window_base&) = delete;
  window_base& operator=(const window_base&) = delete;
  ~window_base() = default;

  /// Allocates `count` zeroed elements of `size` bytes.
  static result<window_base> create(const protection_domain& pd, std::size_t count,
                                    std::size_t size);

  result<remote_region> grant(access_flags peers);
  result<void> revoke();
  [[nodiscard]] bool granted() const;
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] std::byte* at(std::size_t index, std::size_t size) const {
    VERBENA_ASSERT(index < count_, "an index of exported_memory is not less than count()");
    return memory_ + index * size;
  }
  /// Returns the error `invalid_argument` of function `call` unless index < count().
  [[nodiscard]] result<void> check_index(std::size_t index, const char* call) const;

  static constexpr const char* moved_from = "a moved-from exported_memory was used";

 private:
  window_base(window_state* state, std::byte* memory, std::size_t count) noexcept
      : state_(state), memory_(memory), count_(count) {}
  [[nodiscard]] window_state& state() const;

  sole_owner<window_state> state_;
  std::byte* memory_;
  std::size_t count_;  // 0 when moved from
};

/// Copies memory that a device may write concurrently. Reads each aligned word of 8 bytes
/// atomically with acquire order.
void copy_from_window(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
/// Copies to memory that a device may read concurrently. Writes each aligned word of 8 bytes
/// atomically with release order.
void copy_into_window(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

}  // namespace detail

/// One or more elements of type T that peers may access between grant() and revoke().
///
/// This side accesses elements by copies, and single words by load() and store(). Every bit pattern
/// that a peer may write must be a value of T: integers are suitable, bool and pointers are not. A
/// copy of several words may mix old and new values if a peer writes them at the same time: agree
/// with the peer on a word that indicates when the data is valid, and load() this word first. The
/// bytes are initially zero.
///
/// The destructor revokes the grant. Requests of peers may be in flight at that time; requests of
/// this side must not be. If deregistration fails, the memory is leaked, and an error is logged.
/// Threads: grant(), revoke() and moves need exclusive access; all other functions are thread-safe.
template <remote_layout T>
  requires(std::is_default_constructible_v<T> && !std::is_array_v<T>)
class [[nodiscard]] exported_memory {
 public:
  /// The type of the elements.
  using value_type = T;

  /// Allocates `count` elements, without access by peers. Blocks in the kernel.
  ///
  /// Errors: `invalid_argument` for a `count` of 0 or beyond the address space; otherwise the errno
  /// of mmap(2).
  [[nodiscard]] static result<exported_memory> create(const protection_domain& domain,
                                                      std::size_t count = 1) {
    VERBENA_TRY(auto base, detail::window_base::create(domain, count, sizeof(T)));
    return exported_memory(std::move(base));
  }

  /// Permits access by peers and returns the remote region. Each grant has a new remote key.
  ///
  /// `peers` has one or more of `remote_read`, `remote_write` and `remote_atomic`; the queue pair
  /// must permit the same. Blocks in the kernel. Errors: `invalid_argument` if `peers` is empty or
  /// has other access flags; otherwise the errno of ibv_reg_mr(3). Precondition: not granted().
  [[nodiscard]] result<remote_region> grant(access_flags peers) { return base_.grant(peers); }
  /// Deregisters the memory: later accesses of peers fail and end their connections.
  ///
  /// The contents are kept. Blocks while an access of a peer is in progress. Has no effect if the
  /// memory is not granted. Errors: the errno of ibv_dereg_mr(3); the memory is then still granted.
  [[nodiscard]] result<void> revoke() { return base_.revoke(); }
  /// Returns whether peers may access the memory.
  [[nodiscard]] bool granted() const { return base_.granted(); }
  /// Returns the number of elements.
  [[nodiscard]] std::size_t count() const noexcept { return base_.count(); }

  /// Writes one element. Does not block or allocate. Precondition: index < count().
  void copy_in(const T& value, element_index index = {}) {
    detail::copy_into_window(at(index), reinterpret_cast<const std::byte*>(&value), sizeof(T));
  }
  /// Reads one element. Does not block or allocate. Precondition: index < count().
  [[nodiscard]] T copy_out(element_index index = {}) const {
    T value;
    detail::copy_from_window(reinterpret_cast<std::byte*>(&value), at(index), sizeof(T));
    return value;
  }
  /// Writes a field of one element, `memory.copy_in(&slot::key, key)`. Precondition: index <
  /// count().
  template <class Field, class Class>
    requires detail::field_of<Field Class::*, T>
  void copy_in(Field Class::* field, const std::type_identity_t<Field>& value,
               element_index index = {}) {
    detail::copy_into_window(at(index) + detail::offset_of<T>(field),
                             reinterpret_cast<const std::byte*>(&value), sizeof(Field));
  }
  /// Reads a field of one element. Precondition: index < count().
  template <class Field, class Class>
    requires(detail::field_of<Field Class::*, T> && !std::is_array_v<Field>)
  [[nodiscard]] Field copy_out(Field Class::* field, element_index index = {}) const {
    Field value;
    detail::copy_from_window(reinterpret_cast<std::byte*>(&value),
                             at(index) + detail::offset_of<T>(field), sizeof(Field));
    return value;
  }

  /// Reads a word atomically with acquire order: data that the device wrote before the word is then
  /// visible. Preconditions: index < count(); the word is aligned to its size.
  template <exported_word Word, class Class>
    requires detail::field_of<Word Class::*, T>
  [[nodiscard]] Word load(Word Class::* field, element_index index = {}) const {
    return word_at<Word>(at(index) + detail::offset_of<T>(field)).load(std::memory_order_acquire);
  }
  /// Writes a word atomically with release order, after all earlier writes. Preconditions: those of
  /// load().
  template <exported_word Word, class Class>
    requires detail::field_of<Word Class::*, T>
  void store(Word Class::* field, std::type_identity_t<Word> value, element_index index = {}) {
    word_at<Word>(at(index) + detail::offset_of<T>(field)).store(value, std::memory_order_release);
  }
  /// Reads an element that is a word, atomically with acquire order. Precondition: index < count().
  [[nodiscard]] T load(element_index index = {}) const
    requires exported_word<T>
  {
    return word_at<T>(at(index)).load(std::memory_order_acquire);
  }
  /// Writes an element that is a word, atomically with release order. Precondition: index <
  /// count().
  void store(T value, element_index index = {})
    requires exported_word<T>
  {
    word_at<T>(at(index)).store(value, std::memory_order_release);
  }

  /// Writes one element, or returns an error. For an `index` that a peer sent.
  ///
  /// Errors: `invalid_argument` if index >= count().
  [[nodiscard]] result<void> try_copy_in(const T& value, element_index index) {
    VERBENA_TRY_VOID(base_.check_index(index.value(), "exported_memory::try_copy_in"));
    copy_in(value, index);
    return {};
  }
  /// Reads one element, or returns an error. Errors: see try_copy_in().
  [[nodiscard]] result<T> try_copy_out(element_index index) const {
    VERBENA_TRY_VOID(base_.check_index(index.value(), "exported_memory::try_copy_out"));
    return copy_out(index);
  }
  /// Writes a field of one element, or returns an error. Errors: see try_copy_in().
  template <class Field, class Class>
    requires detail::field_of<Field Class::*, T>
  [[nodiscard]] result<void> try_copy_in(Field Class::* field,
                                         const std::type_identity_t<Field>& value,
                                         element_index index) {
    VERBENA_TRY_VOID(base_.check_index(index.value(), "exported_memory::try_copy_in"));
    copy_in(field, value, index);
    return {};
  }
  /// Reads a field of one element, or returns an error. Errors: see try_copy_in().
  template <class Field, class Class>
    requires(detail::field_of<Field Class::*, T> && !std::is_array_v<Field>)
  [[nodiscard]] result<Field> try_copy_out(Field Class::* field, element_index index) const {
    VERBENA_TRY_VOID(base_.check_index(index.value(), "exported_memory::try_copy_out"));
    return copy_out(field, index);
  }
  /// Reads a word like load(), or returns an error. Precondition: the word is aligned to its size.
  /// Errors: see try_copy_in().
  template <exported_word Word, class Class>
    requires detail::field_of<Word Class::*, T>
  [[nodiscard]] result<Word> try_load(Word Class::* field, element_index index) const {
    VERBENA_TRY_VOID(base_.check_index(index.value(), "exported_memory::try_load"));
    return load(field, index);
  }
  /// Writes a word like store(), or returns an error. Precondition: the word is aligned to its
  /// size. Errors: see try_copy_in().
  template <exported_word Word, class Class>
    requires detail::field_of<Word Class::*, T>
  [[nodiscard]] result<void> try_store(Word Class::* field, std::type_identity_t<Word> value,
                                       element_index index) {
    VERBENA_TRY_VOID(base_.check_index(index.value(), "exported_memory::try_store"));
    store(field, value, index);
    return {};
  }
  /// Reads an element that is a word, or returns an error. Errors: see try_copy_in().
  [[nodiscard]] result<T> try_load(element_index index) const
    requires exported_word<T>
  {
    VERBENA_TRY_VOID(base_.check_index(index.value(), "exported_memory::try_load"));
    return load(index);
  }
  /// Writes an element that is a word, or returns an error. Errors: see try_copy_in().
  [[nodiscard]] result<void> try_store(T value, element_index index)
    requires exported_word<T>
  {
    VERBENA_TRY_VOID(base_.check_index(index.value(), "exported_memory::try_store"));
    store(value, index);
    return {};
  }

 private:
  explicit exported_memory(detail::window_base base) noexcept : base_(std::move(base)) {}

  [[nodiscard]] std::byte* at(element_index index) const {
    return base_.at(index.value(), sizeof(T));
  }
  template <class Word>
  [[nodiscard]] static std::atomic_ref<Word> word_at(std::byte* address) {
    VERBENA_ASSERT(std::bit_cast<std::uintptr_t>(address) % sizeof(Word) == 0,
                   "load() or store() of a word that is not aligned to its size");
    return std::atomic_ref<Word>(*reinterpret_cast<Word*>(address));
  }

  detail::window_base base_;
};

}  // namespace verbena::inline VERBENA_ABI
