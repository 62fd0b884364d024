// SPDX-License-Identifier: MIT
// Transports of queue pairs. A transport is a tag type with a specialisation of transport_traits.
// Other headers may define transports: efa/srd.hpp does.
#pragma once

#include <infiniband/verbs.h>

#include <concepts>
#include <cstdint>
#include <string_view>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Reliable connection (IBV_QPT_RC): messages arrive once and in order, or the queue pair fails.
struct rc {};
/// Unreliable connection (IBV_QPT_UC): lost messages, and messages without a receive, are dropped.
struct uc {};
/// Unreliable datagram (IBV_QPT_UD): each message has a destination, is one packet, and may be
/// lost.
struct ud {};

/// Properties of a transport. Each tag type has a specialisation with these members:
///   type                 enum ibv_qp_type
///   name                 the name in messages
///   is_connected         whether a queue pair has one peer
///   has_destination      whether each send request has a destination
///   has_write, has_read, has_atomics   the RDMA and atomic operations
///   has_classic          whether ibv_post_send(3) works, and not only the extended interface
///   has_shared_receives  whether a queue pair can use a shared receive queue
///   send_operations      a mask of enum ibv_qp_create_send_ops_flags
///   create               optional: the function that creates queue pairs, if it is not
///                        ibv_create_qp_ex(3) (detail/queue_pair_request.hpp)
template <class Transport>
struct transport_traits;

/// Properties of reliable connections: see transport_traits.
template <>
struct transport_traits<rc> {
  /// See transport_traits.
  /// @{
  static constexpr ibv_qp_type type = IBV_QPT_RC;
  static constexpr std::string_view name = "RC";
  static constexpr bool is_connected = true;
  static constexpr bool has_destination = false;
  static constexpr bool has_write = true;
  static constexpr bool has_read = true;
  static constexpr bool has_atomics = true;
  static constexpr bool has_classic = true;
  static constexpr bool has_shared_receives = true;
  static constexpr std::uint64_t send_operations =
      IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
      IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
      IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  /// @}
};

/// Properties of unreliable connections: see transport_traits.
template <>
struct transport_traits<uc> {
  /// See transport_traits.
  /// @{
  static constexpr ibv_qp_type type = IBV_QPT_UC;
  static constexpr std::string_view name = "UC";
  static constexpr bool is_connected = true;
  static constexpr bool has_destination = false;
  static constexpr bool has_write = true;
  static constexpr bool has_read = false;
  static constexpr bool has_atomics = false;
  static constexpr bool has_classic = true;
  static constexpr bool has_shared_receives = true;
  static constexpr std::uint64_t send_operations =
      IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
      IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  /// @}
};

/// Properties of unreliable datagrams: see transport_traits.
template <>
struct transport_traits<ud> {
  /// See transport_traits.
  /// @{
  static constexpr ibv_qp_type type = IBV_QPT_UD;
  static constexpr std::string_view name = "UD";
  static constexpr bool is_connected = false;
  static constexpr bool has_destination = true;
  static constexpr bool has_write = false;
  static constexpr bool has_read = false;
  static constexpr bool has_atomics = false;
  static constexpr bool has_classic = true;
  static constexpr bool has_shared_receives = true;
  static constexpr std::uint64_t send_operations =
      IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  /// @}
};

/// A tag type with transport_traits.
template <class T>
concept transport = requires {
  { transport_traits<T>::type } -> std::convertible_to<ibv_qp_type>;
  { transport_traits<T>::name } -> std::convertible_to<std::string_view>;
  { transport_traits<T>::send_operations } -> std::convertible_to<std::uint64_t>;
};
/// A transport whose queue pairs have one peer.
template <class T>
concept connected_transport = transport<T> && transport_traits<T>::is_connected;
/// A transport whose send requests have destinations.
template <class T>
concept datagram_transport = transport<T> && transport_traits<T>::has_destination;
/// A transport that supports RDMA WRITE.
template <class T>
concept writing_transport = transport<T> && transport_traits<T>::has_write;
/// A transport that supports RDMA READ.
template <class T>
concept reading_transport = transport<T> && transport_traits<T>::has_read;
/// A transport that supports atomic operations.
template <class T>
concept atomic_transport = transport<T> && transport_traits<T>::has_atomics;
/// A transport that supports the classic interface: ibv_post_send(3).
template <class T>
concept classic_transport = transport<T> && transport_traits<T>::has_classic;
/// A transport whose queue pairs can use a shared receive queue.
template <class T>
concept shared_receive_transport = transport<T> && transport_traits<T>::has_shared_receives;

}  // namespace verbena::inline VERBENA_ABI
