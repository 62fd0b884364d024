// SPDX-License-Identifier: MIT
// Concepts of types that post work requests, with the classic or the extended interface. For code
// that runs with both: queue_pair::with_poster().
#pragma once

#include <cstdint>
#include <utility>

#include "verbena/base/post_status.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/local_slice.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI {

/// An open batch of send requests of a connected transport: `send_batch`, `extended_batch`.
template <class T>
concept connected_send_batch =
    requires(T& batch, send_request request, const local_slice& slice, const inline_data& data) {
      batch.send(request, slice);
      batch.send(request, data);
      batch.send_with_immediate(request, std::uint32_t{}, slice);
      { batch.submit() } -> std::same_as<post_status>;
    };

/// A type that posts for a connected transport: `queue_pair<T>`, `classic_poster<T>`,
/// `extended_queue<T>`.
template <class T>
concept connected_poster = requires(T& poster, receive_request request, const local_slice& slice) {
  { poster.start_send() } -> connected_send_batch;
  { poster.post_receive(request, slice) } -> std::same_as<post_status>;
  { poster.start_receive().submit() } -> std::same_as<post_status>;
};

/// An open batch of send requests of a datagram transport. Each request has a destination.
template <class T>
concept datagram_send_batch = requires(T& batch, send_request request, const local_slice& slice,
                                       const inline_data& data, const destination& to) {
  batch.send(request, slice, to);
  batch.send(request, data, to);
  batch.send_with_immediate(request, std::uint32_t{}, slice, to);
  { batch.submit() } -> std::same_as<post_status>;
};

/// A type that posts datagrams: `queue_pair<ud>`, `classic_poster<ud>`, `extended_queue<ud>`.
template <class T>
concept datagram_poster = requires(T& poster, receive_request request, const local_slice& slice) {
  { poster.start_send() } -> datagram_send_batch;
  { poster.post_receive(request, slice) } -> std::same_as<post_status>;
  { poster.start_receive().submit() } -> std::same_as<post_status>;
};

}  // namespace verbena::inline VERBENA_ABI
