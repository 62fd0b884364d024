// SPDX-License-Identifier: MIT
// Protection domains. Memory regions, queue pairs, SRQs and address handles can be used together
// only within one domain. Source: ibv_alloc_pd(3).
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

/// Selects the pages of allocated memory.
enum class huge_pages : std::uint8_t {
  no,         ///< normal pages
  preferred,  ///< huge pages if enough are free, else normal pages
  required,   ///< huge pages; if not enough are free, the allocation fails
};

/// Options of protection_domain::allocate().
struct allocate_options {
  verbena::huge_pages huge_pages = verbena::huge_pages::no;  ///< the pages of the memory
};

/// Options of protection_domain::register_memory().
struct register_options {
  /// The address of the first byte in work requests, with the same offset in a page as the memory.
  /// If not set: the address of the memory.
  std::optional<std::uint64_t> iova = {};
};

/// A range of a dma-buf, which is memory of another device or subsystem.
/// Source: ibv_reg_dmabuf_mr(3).
struct dmabuf {
  int fd = -1;               ///< the descriptor; the caller may close it after registration
  std::uint64_t offset = 0;  ///< offset of the first byte in the dma-buf
  std::size_t length = 0;    ///< number of bytes
  /// The address of the first byte in work requests, with the same offset in a page as `offset`.
  std::uint64_t iova = 0;
};

namespace detail {
/// A range of constant bytes that is not a temporary.
template <class Memory>
concept constant_memory = (std::is_lvalue_reference_v<Memory> ||
                           std::ranges::enable_borrowed_range<std::remove_cvref_t<Memory>>) &&
                          std::convertible_to<Memory&, std::span<const std::byte>> &&
                          !std::convertible_to<Memory&, std::span<std::byte>>;
}  // namespace detail

/// A protection domain (PD), created by context::allocate_pd(). Copies share the domain. The domain
/// is deallocated when its last copy and all objects made from it have been destroyed.
///
/// Register and create functions allocate memory and may block in the kernel.
/// Threads: thread-safe for const use; other members by one thread at a time.
class protection_domain : public handle<detail::protection_domain_state> {
 public:
  /// Adopts a protection domain of the C API. Precondition: it belongs to `of`.
  [[nodiscard]] static protection_domain adopt(ibv_pd* native, const verbena::context& of,
                                               ownership owner);

  /// Returns the context of the domain.
  [[nodiscard]] verbena::context context() const;

  /// Allocates and registers `bytes` bytes of zeroed, page-aligned memory. The region owns the
  /// memory. On the software device, peers on the same host map the memory.
  ///
  /// Errors: `invalid_argument` for 0 bytes and contradictory access flags; otherwise the errno of
  /// mmap(2) or ibv_reg_mr(3). The message of ENOMEM has the locked-memory limit and the needed
  /// size.
  [[nodiscard]] result<memory_region> allocate(std::size_t bytes, access_flags access,
                                               allocate_options options = {}) const;

  /// Registers `memory`, which the caller owns and which must outlive the region: ibv_reg_mr(3).
  ///
  /// Without access::on_demand, the device pins the present pages. If the program then remaps or
  /// discards (MADV_DONTNEED) the memory, program and device use different pages.
  ///
  /// Errors: `invalid_argument` for an empty span, contradictory access flags, an `iova`
  /// with access::zero_based, and an `iova` from which the range ends beyond 2^64;
  /// `not_supported` for `iova` if libibverbs does not support it; otherwise the errno of
  /// the verb. The message of ENOMEM has the locked-memory limit and the needed size.
  [[nodiscard]] result<memory_region> register_memory(std::span<std::byte> memory,
                                                      access_flags access,
                                                      register_options options = {},
                                                      call_site where = call_site::here()) const;

  /// Registers constant memory, which the device and peers can only read. `memory` is an lvalue or
  /// a span that converts to a span of constant bytes.
  ///
  /// Errors: `invalid_argument` for `local_write`, `remote_write` and `remote_atomic`; otherwise
  /// those of the overload for writable memory.
  template <detail::constant_memory Memory>
  [[nodiscard]] result<memory_region> register_memory(Memory&& memory, access_flags access = {},
                                                      register_options options = {},
                                                      call_site where = call_site::here()) const {
    return register_constant(memory, access, options, where);
  }

  /// Registers a range of a dma-buf: ibv_reg_dmabuf_mr(3). bytes() of the region must not be
  /// called. The addresses of slices and of remote() start at `iova`.
  ///
  /// Errors: `invalid_argument` for 0 bytes, contradictory access flags, and a range that ends
  /// beyond 2^64; `not_supported` if the device or the kernel does not support dma-buf; otherwise
  /// the errno of the verb.
  [[nodiscard]] result<memory_region> register_dmabuf(const dmabuf& memory,
                                                      access_flags access) const;

  /// Gives advice about parts of regions of this domain: ibv_advise_mr(3). Blocks with
  /// advise_options::wait. If `parts` is empty, has no effect.
  ///
  /// Errors: `not_supported` if the device does not support the advice; EINVAL for a region without
  /// access::on_demand; EFAULT for pages that cannot be faulted in; ENOENT or EPERM for a key of
  /// another domain; EFAULT or EPERM for memory_advice::prefetch_write of a region without
  /// access::local_write; otherwise the errno of the verb.
  [[nodiscard]] result<void> advise(memory_advice advice, std::span<const local_slice> parts,
                                    advise_options options = {}) const;

  /// Creates a queue pair in the state RESET: see prepared_queue_pair.hpp. Sends complete into
  /// `send`, receives into `receive`.
  template <transport Transport>
  [[nodiscard]] result<prepared_queue_pair<Transport>> create_qp(
      const completion_queue& send, const completion_queue& receive,
      queue_pair_options<Transport> options = {}) const;
  /// Creates a queue pair that uses the SRQ `shared` and keeps it alive. Ignores `max_recv_wr` and
  /// `max_recv_sge` of the options.
  template <shared_receive_transport Transport>
  [[nodiscard]] result<prepared_queue_pair<Transport>> create_qp(
      const completion_queue& send, const completion_queue& receive,
      const shared_receive_queue& shared, queue_pair_options<Transport> options = {}) const;

  /// Creates an unconnected channel with its own completion queue: see
  /// channel/prepared_channel.hpp.
  ///
  /// Errors: `invalid_argument` for depths of 0; those of context::create_cq() and of create_qp().
  [[nodiscard]] result<prepared_channel> create_channel() const;
  /// Creates an unconnected channel with options.
  [[nodiscard]] result<prepared_channel> create_channel(const channel_options& options) const;
  /// Creates an unconnected channel that shares the completion queue of a hub. Errors: also
  /// `invalid_argument` if the hub has fewer free entries than the channel has operations.
  [[nodiscard]] result<prepared_channel> create_channel(const completion_hub& hub,
                                                        const channel_options& options) const;

  /// Creates a shared receive queue: ibv_create_srq(3).
  ///
  /// Errors: `invalid_argument` for a `max_wr` of 0; otherwise the errno of the verb, with the
  /// exceeded limit of the device in the message.
  [[nodiscard]] result<shared_receive_queue> create_srq(
      const shared_receive_queue_options& options) const;

  /// Creates an address handle: ibv_create_ah(3). Blocks while the kernel resolves the address.
  ///
  /// Errors: `invalid_argument` for fields out of range; otherwise the errno of the verb, with the
  /// fault of the address in the message.
  [[nodiscard]] result<address_handle> create_ah(const address_vector& to) const;
  /// Returns the address for a reply to a received datagram, like ibv_init_ah_from_wc(3). The queue
  /// pair to reply to is source_queue_pair() of the completion.
  ///
  /// `header` is the GRH in front of the message. It is required if flags() of the completion
  /// contains completion_flag::global_route_header. On Ethernet the flag is always set.
  ///
  /// Errors: `invalid_argument` for a failed completion, a missing header, a header that is not
  /// followed by UDP or InfiniBand transport, and a destination that is a multicast group or not a
  /// GID of the port; otherwise those of context::gid_table().
  [[nodiscard]] result<address_vector> sender_address(
      const completion& received, port_number port,
      const std::optional<global_route_header>& header) const;
  /// Returns the address for a reply to a datagram without a GRH. Errors: those of the function
  /// with a header.
  [[nodiscard]] result<address_vector> sender_address(const completion& received,
                                                      port_number port) const;
  /// Returns the address for a reply to the datagram of the current completion of a lazy_poll.
  ///
  /// On InfiniBand the completion queue needs the fields source_lid, service_level and
  /// destination_path_bits. Errors: those for a completion, and those of context::query_port();
  /// `invalid_argument` for a datagram without a GRH on another link layer.
  [[nodiscard]] result<address_vector> sender_address(
      const lazy_completion& received, port_number port,
      const std::optional<global_route_header>& header) const;
  /// Returns the address for a reply to the datagram of the current completion of a lazy_poll,
  /// which has no GRH. Errors: those of the function with a header.
  [[nodiscard]] result<address_vector> sender_address(const lazy_completion& received,
                                                      port_number port) const;

  /// Deallocates the domain: ibv_dealloc_pd(3). If copies or objects made from it exist, or if the
  /// verb fails, returns the domain with the error.
  close_result<protection_domain> close() &&;

 private:
  friend struct detail::internals;
  using handle::handle;
  [[nodiscard]] result<memory_region> register_constant(std::span<const std::byte> memory,
                                                        access_flags access,
                                                        register_options options,
                                                        call_site where) const;
};

}  // namespace verbena::inline VERBENA_ABI
