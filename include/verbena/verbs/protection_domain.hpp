// SPDX-License-Identifier: MIT
// Protection domains. Memory regions and queue pairs can be used together within one domain only.
#pragma once

#include <infiniband/verbs.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "verbena/base/call_site.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/address_vector.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/global_route_header.hpp"
#include "verbena/verbs/memory_advice.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI {

class address_handle;
class completion;
class completion_queue;
class lazy_completion;
struct channel_options;
class completion_hub;
class prepared_channel;
class shared_receive_queue;
struct shared_receive_queue_options;
template <class Transport>
class prepared_queue_pair;
template <class Transport>
struct queue_pair_options;

/// Whether to allocate huge pages.
enum class huge_pages : std::uint8_t {
  no,         ///< normal pages
  preferred,  ///< huge pages if there are free ones, else normal pages
  required,   ///< huge pages, or an error
};

/// Options of protection_domain::allocate().
struct allocate_options {
  verbena::huge_pages huge_pages = verbena::huge_pages::no;  ///< the kind of pages
};

/// Options of protection_domain::register_memory().
struct register_options {
  /// The address of the first byte in work requests (`iova`). If not set: the address of the
  /// memory. Both addresses must have the same offset in a page.
  std::optional<std::uint64_t> base_address = {};
};

/// A range of a dma-buf: memory of another device or subsystem. Source: ibv_reg_dmabuf_mr(3).
struct dmabuf {
  int fd = -1;               ///< the caller owns it, and may close it after registration
  std::uint64_t offset = 0;  ///< offset of the region in the dma-buf
  std::size_t length = 0;    ///< number of bytes
  /// The address of the first byte in work requests (`iova`). It must have the same offset in a
  /// page as `offset`.
  std::uint64_t base_address = 0;
};

namespace detail {
/// A range that refers to constant bytes, and does not own them as a temporary.
template <class Memory>
concept constant_memory = (std::is_lvalue_reference_v<Memory> ||
                           std::ranges::enable_borrowed_range<std::remove_cvref_t<Memory>>) &&
                          std::convertible_to<Memory&, std::span<const std::byte>> &&
                          !std::convertible_to<Memory&, std::span<std::byte>>;
}  // namespace detail

/// A protection domain, made by context::allocate_pd(). Copies share the domain, which is
/// deallocated after the last copy and all objects made from it are destroyed.
/// Threads: thread-safe for const use; other members by one thread at a time.
class protection_domain : public handle<detail::protection_domain_state> {
 public:
  /// Adopts a protection domain of the C API. Precondition: it belongs to `of`.
  [[nodiscard]] static protection_domain adopt(ibv_pd* native, const verbena::context& of,
                                               ownership owner);

  /// Returns the context of the domain.
  [[nodiscard]] verbena::context context() const;

  /// Allocates and registers `bytes` bytes of zeroed, page-aligned memory, which the region owns.
  /// On the software device, peers on the same host map the memory.
  ///
  /// Errors: `invalid_argument` for 0 bytes and contradictory access flags; otherwise the errno of
  /// mmap(2) or ibv_reg_mr(3). The message of ENOMEM has the locked-memory limit and the needed
  /// size.
  [[nodiscard]] result<memory_region> allocate(std::size_t bytes, access_flags access,
                                               allocate_options options = {}) const;

  /// Registers `memory`, which the caller owns and which must outlive the region. Without
  /// access::on_demand the device pins the present pages. If the program then remaps or discards
  /// (MADV_DONTNEED) the memory, program and device use different pages.
  ///
  /// Errors: `invalid_argument` for an empty span and contradictory access flags; otherwise the
  /// errno of ibv_reg_mr(3). The message of ENOMEM has the locked-memory limit and the needed size.
  [[nodiscard]] result<memory_region> register_memory(std::span<std::byte> memory,
                                                      access_flags access,
                                                      register_options options = {},
                                                      call_site where = call_site::here()) const;

  /// Registers constant memory: the adapter and peers may only read it. `memory` is an lvalue or a
  /// span that converts to a span of constant bytes.
  ///
  /// Errors: `invalid_argument` for `local_write`, `remote_write` and `remote_atomic`; otherwise
  /// those of the overload for writable memory.
  template <detail::constant_memory Memory>
  [[nodiscard]] result<memory_region> register_memory(Memory&& memory, access_flags access = {},
                                                      register_options options = {},
                                                      call_site where = call_site::here()) const {
    return register_constant(memory, access, options, where);
  }

  /// Registers a range of a dma-buf. The region has no bytes(); the addresses of slices and of
  /// remote() start at `base_address`.
  ///
  /// Errors: `invalid_argument` for 0 bytes, contradictory access flags, and a range that ends
  /// beyond 2^64; `not_supported` if the device or the kernel does not support dma-buf; otherwise
  /// the errno of ibv_reg_dmabuf_mr(3).
  [[nodiscard]] result<memory_region> register_dmabuf(const dmabuf& memory,
                                                      access_flags access) const;

  /// Advises the device about parts of regions of this domain: ibv_advise_mr(3). The advice is a
  /// hint and never required. Blocks with advise_options::wait.
  ///
  /// Errors: `not_supported` if the device does not support advice; EFAULT for pages that cannot be
  /// faulted in; ENOENT for a key of another domain; otherwise the errno of the verb.
  [[nodiscard]] result<void> advise(memory_advice advice, std::span<const local_slice> parts,
                                    advise_options options = {}) const;

  /// Creates a queue pair in the state RESET: see prepared_queue_pair.hpp.
  template <transport Transport>
  [[nodiscard]] result<prepared_queue_pair<Transport>> create_qp(
      const completion_queue& send, const completion_queue& receive,
      queue_pair_options<Transport> options = {}) const;
  /// Creates a queue pair that takes its receives from `shared`, and keeps it alive. Ignores
  /// `max_recv_wr` and `max_recv_sge` of the options.
  template <shared_receive_transport Transport>
  [[nodiscard]] result<prepared_queue_pair<Transport>> create_qp(
      const completion_queue& send, const completion_queue& receive,
      const shared_receive_queue& shared, queue_pair_options<Transport> options = {}) const;

  /// Creates an unconnected channel with its own completion queue: see
  /// channel/prepared_channel.hpp. Allocates; may block in the kernel. Errors: `invalid_argument`
  /// for depths of 0; those of context::create_cq() and of create_qp().
  [[nodiscard]] result<prepared_channel> create_channel() const;
  /// Creates an unconnected channel with options.
  [[nodiscard]] result<prepared_channel> create_channel(const channel_options& options) const;
  /// Creates an unconnected channel that shares the completion queue of a hub. Errors: also
  /// `invalid_argument` if the hub has fewer free entries than the channel has operations.
  [[nodiscard]] result<prepared_channel> create_channel(const completion_hub& hub,
                                                        const channel_options& options) const;

  /// Creates a shared receive queue: see shared_receive_queue.hpp. Allocates; may
  /// block in the kernel.
  ///
  /// Errors: the errno of ibv_create_srq(3); the message has the exceeded limit of the device.
  [[nodiscard]] result<shared_receive_queue> create_srq(
      const shared_receive_queue_options& options) const;

  /// Creates an address handle: see address_handle.hpp. Allocates; blocks while the kernel resolves
  /// the address.
  ///
  /// Errors: `invalid_argument` for fields out of range; otherwise the errno of ibv_create_ah(3);
  /// the message has the fault of the address.
  [[nodiscard]] result<address_handle> create_ah(const address_vector& to) const;
  /// Returns the address for replying to a received datagram. `header` is the GRH in front of the
  /// message, if flags() of the completion contain `global_route_header`; on Ethernet they always
  /// do. The queue pair to reply to is source_queue_pair() of the completion.
  ///
  /// Errors: `invalid_argument` for a failed completion, a missing header, and a header with a
  /// destination that is not this port; otherwise those of context::gid_table().
  [[nodiscard]] result<address_vector> sender_address(
      const completion& received, port_number port,
      const std::optional<global_route_header>& header = {}) const;
  /// Returns the address for replying to the datagram of the current completion of a lazy poll. On
  /// InfiniBand the completion queue needs the fields source_lid, service_level and
  /// destination_path_bits.
  [[nodiscard]] result<address_vector> sender_address(
      const lazy_completion& received, port_number port,
      const std::optional<global_route_header>& header = {}) const;

  /// Deallocates the domain. If copies or objects made from it exist, or if the verb fails, returns
  /// the domain with the error.
  close_result<protection_domain> close() && { return close_handle(std::move(*this)); }

 private:
  friend struct detail::internals;
  using handle::handle;
  [[nodiscard]] result<memory_region> register_constant(std::span<const std::byte> memory,
                                                        access_flags access,
                                                        register_options options,
                                                        call_site where) const;
};

}  // namespace verbena::inline VERBENA_ABI
