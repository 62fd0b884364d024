// SPDX-License-Identifier: MIT
// A protection domain: memory regions and queue pairs work together only within one.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "verbena/base/result.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/memory_region.hpp"

namespace verbena::inline VERBENA_ABI {

class completion_queue;
template <class Transport>
class prepared_queue_pair;
template <class Transport>
struct queue_pair_options;

/// Whether allocated memory consists of huge pages.
enum class huge_pages : std::uint8_t {
  no,         ///< normal pages
  preferred,  ///< huge pages if the host has them to spare, else normal ones
  required,   ///< huge pages, or an error
};

/// How to allocate.
struct allocate_options {
  verbena::huge_pages huge_pages = verbena::huge_pages::no;
};

/// A protection domain, made by context::allocate_pd(). A cheap handle: copies share the domain,
/// which is deallocated when the last handle and everything made from it are gone.
/// Threads: one handle by one thread at a time; copies may be used by several.
class protection_domain : public detail::handle<detail::protection_domain_state> {
 public:
  /// A protection domain made by the C API from `of`.
  [[nodiscard]] static protection_domain adopt(ibv_pd* native, const verbena::context& of,
                                               ownership owner);

  /// The device that the domain belongs to.
  [[nodiscard]] verbena::context context() const;

  /// Allocates and registers `bytes` of zeroed, page-aligned memory, which the region owns. On the
  /// software device, peers on the same host map it.
  ///
  /// Errors: `invalid_argument` for 0 bytes or rights that contradict each other; otherwise the
  /// errno of mmap(2) or ibv_reg_mr(3). ENOMEM says what the locked-memory limit is and what was
  /// needed.
  [[nodiscard]] result<memory_region> allocate(std::size_t bytes, access_flags rights,
                                               allocate_options options = {}) const;

  /// Registers `memory`, which stays the caller's and must outlive the region.
  ///
  /// Errors: `invalid_argument` for an empty span or rights that contradict each other; otherwise
  /// the errno of ibv_reg_mr(3). ENOMEM says what the locked-memory limit is and what was needed.
  [[nodiscard]] result<memory_region> register_memory(std::span<std::byte> memory,
                                                      access_flags rights) const;

  /// Creates a queue pair that is not yet connected: see prepared_queue_pair.hpp.
  template <class Transport>
  [[nodiscard]] result<prepared_queue_pair<Transport>> create_queue_pair(
      const completion_queue& send, const completion_queue& receive,
      queue_pair_options<Transport> options = {}) const;

  /// Deallocates the domain now. Hands it back when it is shared, by copies or by objects made from
  /// it, or when the verb refuses.
  close_result<protection_domain> close() && { return close_handle(std::move(*this)); }

 private:
  friend struct detail::internals;
  using handle::handle;
};

}  // namespace verbena::inline VERBENA_ABI
