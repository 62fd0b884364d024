// SPDX-License-Identifier: MIT
// An operation that has begun and whose handler has not been called, and lists of such operations.
#pragma once

#include <asio/cancellation_type.hpp>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::asio::detail {

/// The links of an operation in an operation_list.
struct list_links {
  list_links* next;
  list_links* previous;
};

/// Threads: one thread at a time, the thread of the engine.
class pending_operation : public list_links {
 public:
  pending_operation(const pending_operation&) = delete;
  pending_operation& operator=(const pending_operation&) = delete;

  /// Frees the operation, then calls its handler. Precondition: the operation has ended and is not
  /// in a list.
  virtual void finish() = 0;
  /// Called for all operations before destroy(): begins to end the connection, so that destroy()
  /// waits less.
  virtual void begin_to_end() noexcept = 0;
  /// Frees the operation and destroys its handler without calling it.
  virtual void destroy() noexcept = 0;
  /// Ends the operation early if its state and `type` permit this.
  virtual void cancel(::asio::cancellation_type_t type) noexcept = 0;

 protected:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the list sets the links
  pending_operation() noexcept {}
  ~pending_operation() = default;
};

/// Threads: one thread at a time.
class operation_list {
 public:
  operation_list() noexcept = default;
  operation_list(const operation_list&) = delete;
  operation_list& operator=(const operation_list&) = delete;
  ~operation_list() = default;

  [[nodiscard]] bool empty() const noexcept { return ends_.next == &ends_; }
  /// Precondition: not empty().
  [[nodiscard]] pending_operation& first() const noexcept {
    return static_cast<pending_operation&>(*ends_.next);
  }
  /// Returns the last operation, or a pointer that equals no operation if the list is empty.
  [[nodiscard]] const list_links* last() const noexcept { return ends_.previous; }
  /// Calls `use` with each operation. `use` must not change the list.
  template <class Use>
  void for_each(Use use) const {
    for (list_links* each = ends_.next; each != &ends_; each = each->next)
      use(static_cast<pending_operation&>(*each));
  }
  void append(list_links& which) noexcept {
    which.next = &ends_;
    which.previous = ends_.previous;
    ends_.previous->next = &which;
    ends_.previous = &which;
  }
  static void remove(const list_links& which) noexcept {
    which.previous->next = which.next;
    which.next->previous = which.previous;
  }

 private:
  list_links ends_{.next = &ends_, .previous = &ends_};
};

}  // namespace verbena::inline VERBENA_ABI::asio::detail
