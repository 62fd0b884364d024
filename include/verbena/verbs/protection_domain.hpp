// SPDX-License-Identifier: MIT
// A protection domain: memory regions and queue pairs work together only within one.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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

/// Whether allocated memory consists of huge pages.
enum class huge_pages : std::uint8_t {
  no,         ///< normal pages
  preferred,  ///< huge pages if the host has them to spare, else normal ones
  required,   ///< huge pages, or an error
};

/// How to allocate.
struct allocate_options {
  verbena::huge_pages huge_pages = verbena::huge_pages::no;  ///< of what the memory consists
};

/// How to register.
struct register_options {
  /// The address that work requests and peers name the first byte by; none: the memory's own. Both
  /// addresses must lie at the same place in a page.
  std::optional<std::uint64_t> base_address = {};
};

/// Memory of another device or subsystem, behind a descriptor. Source: ibv_reg_dmabuf_mr(3).
struct dmabuf {
  int fd = -1;               ///< stays the caller's, who may close it after registration
  std::uint64_t offset = 0;  ///< where the region begins in it
  std::size_t length = 0;    ///< bytes of the region
  /// The address that work requests and peers name the first byte by. It and `offset` must lie at
  /// the same place in a page.
  std::uint64_t base_address = 0;
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

  /// Registers `memory`, which stays the caller's and must outlive the region. Without
  /// access::on_demand the device keeps the pages that are there now: memory that is unmapped and
  /// mapped again, or discarded (MADV_DONTNEED), is no longer what the device has.
  ///
  /// Errors: `invalid_argument` for an empty span or rights that contradict each other; otherwise
  /// the errno of ibv_reg_mr(3). ENOMEM says what the locked-memory limit is and what was needed.
  [[nodiscard]] result<memory_region> register_memory(std::span<std::byte> memory,
                                                      access_flags rights,
                                                      register_options options = {},
                                                      call_site where = call_site::here()) const;

  /// Registers memory behind a dma-buf. The region has no bytes() here; slices and remote() count
  /// from `base_address`.
  ///
  /// Errors: `invalid_argument` for no bytes, for rights that contradict each other and for a range
  /// that ends beyond 2^64; `not_supported` where device or kernel have no dma-buf; otherwise the
  /// errno of ibv_reg_dmabuf_mr(3).
  [[nodiscard]] result<memory_region> register_dmabuf(const dmabuf& memory,
                                                      access_flags rights) const;

  /// Tells the device what will be done with parts of regions of this domain: ibv_advise_mr(3). It
  /// is a hint: work requests are right without it. Blocks with advise_options::wait.
  ///
  /// Errors: `not_supported` for devices that take no advice; EFAULT for pages that cannot be
  /// brought in; ENOENT for a key that is not of this domain; otherwise the errno of the verb.
  [[nodiscard]] result<void> advise(memory_advice advice, std::span<const local_slice> parts,
                                    advise_options options = {}) const;

  /// Creates a queue pair that is not yet connected: see prepared_queue_pair.hpp.
  template <transport Transport>
  [[nodiscard]] result<prepared_queue_pair<Transport>> create_queue_pair(
      const completion_queue& send, const completion_queue& receive,
      queue_pair_options<Transport> options = {}) const;
  /// The same for one that takes its receives from `shared`, which it keeps alive. Its own
  /// `max_recv_wr` and `max_recv_sge` mean nothing.
  template <shared_receive_transport Transport>
  [[nodiscard]] result<prepared_queue_pair<Transport>> create_queue_pair(
      const completion_queue& send, const completion_queue& receive,
      const shared_receive_queue& shared, queue_pair_options<Transport> options = {}) const;

  /// Creates a channel that is not yet connected, with a completion queue of its own: see
  /// channel/prepared_channel.hpp. Allocates; may block in the kernel. Errors: `invalid_argument`
  /// for depths of 0; those of context::create_cq() and of create_queue_pair().
  [[nodiscard]] result<prepared_channel> create_channel() const;
  /// The same with options.
  [[nodiscard]] result<prepared_channel> create_channel(const channel_options& options) const;
  /// The same for one that shares a completion queue. Errors: also `invalid_argument` when the hub
  /// has no room for all that the channel can have in flight.
  [[nodiscard]] result<prepared_channel> create_channel(const completion_hub& hub,
                                                        const channel_options& options) const;

  /// Creates a receive queue for many queue pairs: see shared_receive_queue.hpp. Allocates; may
  /// block in the kernel.
  ///
  /// Errors: the errno of ibv_create_srq(3), with the device's limit that was exceeded.
  [[nodiscard]] result<shared_receive_queue> create_shared_receive_queue(
      const shared_receive_queue_options& options) const;

  /// Creates the handle of a way to peers, for datagrams: see address_handle.hpp. Allocates; blocks
  /// while the kernel resolves the address.
  ///
  /// Errors: `invalid_argument` for fields out of their ranges; otherwise the errno of
  /// ibv_create_ah(3), with what is wrong with the address.
  [[nodiscard]] result<address_handle> create_address_handle(const address_vector& to) const;
  /// The way back to who sent the datagram that a receive on `port` completed with. `header` is
  /// what the device put in front of the message, if flags() of the completion have
  /// `global_route_header`; on Ethernet they always do. The number of the queue pair there is the
  /// completion's source_queue_pair().
  ///
  /// Errors: `invalid_argument` for a failed completion, and for one with a header that is not
  /// given or was not sent to this port; otherwise those of context::gid_table().
  [[nodiscard]] result<address_vector> sender_address(
      const completion& received, port_number port,
      const std::optional<global_route_header>& header = {}) const;
  /// The same for the completion that a lazy poll stands on. On InfiniBand its queue must have been
  /// created with the fields source_lid, service_level and destination_path_bits.
  [[nodiscard]] result<address_vector> sender_address(
      const lazy_completion& received, port_number port,
      const std::optional<global_route_header>& header = {}) const;

  /// Deallocates the domain now. Hands it back when it is shared, by copies or by objects made from
  /// it, or when the verb refuses.
  close_result<protection_domain> close() && { return close_handle(std::move(*this)); }

 private:
  friend struct detail::internals;
  using handle::handle;
};

}  // namespace verbena::inline VERBENA_ABI
