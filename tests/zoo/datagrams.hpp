// SPDX-License-Identifier: MIT
// Fixture of datagram entries: a queue pair that sends to itself.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tests/zoo/c_verbs.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"
#include "verbena/verbena.hpp"

namespace verbena::zoo {

/// A UD queue pair and 64 KiB of memory.
struct datagrams {
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(64 * 1024, access::local_write).value();
  completion_queue sends = device.create_cq(64).value();
  completion_queue receives = device.create_cq(64).value();
  gid_entry own = device.routable_gid(port_number(1)).value();
  queue_key key = queue_key(0x1234);
  queue_pair<ud> queue = pd.create_qp<ud>(sends, receives).value().activate(key).value();

  [[nodiscard]] std::span<std::byte> at(std::size_t offset, std::size_t length) const {
    return memory.bytes().subspan(offset, length);
  }
  /// Returns an address handle for the queue pair itself.
  [[nodiscard]] address_handle address_handle_of_self() const {
    return pd.create_ah({.gid = own.gid, .source_gid_index = own.index}).value();
  }
  [[nodiscard]] queue_pair_number number() const {
    return queue_pair_number(queue.native()->qp_num);
  }
  void receive(std::uint64_t id, std::size_t offset, std::size_t length,
               call_site where = call_site::here()) {
    queue.post_receive({.id = id}, memory.slice(offset, length), where).value();
  }
  void send(std::uint64_t id, const local_slice& data, const address_handle& by) {
    auto batch = queue.start_send();
    batch.send({.id = id, .signaled = true}, data, by.destination(number(), key));
    batch.submit().value();
  }
  [[nodiscard]] int c_send(std::uint64_t id, const local_slice& data, ibv_ah* by) const {
    return zoo::c_send(queue.native(), id, data, IBV_SEND_SIGNALED, [&](ibv_send_wr& request) {
      request.wr.ud.ah = by;
      request.wr.ud.remote_qpn = number().value();
      request.wr.ud.remote_qkey = key.value();
    });
  }
};

}  // namespace verbena::zoo
