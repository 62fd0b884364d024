// SPDX-License-Identifier: MIT
// C verbs for mistakes that the library's interface cannot express.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <span>
#include <string>
#include <vector>

#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"
#include "verbena/verbena.hpp"

namespace verbena::zoo {

/// The functions of the C API that headers do not have inline.
inline const sys::verbs_table& c_of(const context& device) { return device.provider().verbs; }

/// Posts one request to send of `bytes` of the region, with `flags`, as it is set by `change`.
/// Returns what ibv_post_send(3) did.
inline int c_send(ibv_qp* queue, std::uint64_t id, const local_slice& data,
                  unsigned flags = IBV_SEND_SIGNALED,
                  const std::function<void(ibv_send_wr&)>& change = {}) {
  ibv_sge slice = data.native();
  ibv_send_wr request{};
  request.wr_id = id;
  request.sg_list = &slice;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = flags;
  if (change) change(request);
  ibv_send_wr* refused = nullptr;
  return ibv_post_send(queue, &request, &refused);
}

/// Posts one receive.
inline int c_receive(ibv_qp* queue, std::uint64_t id, const local_slice& into) {
  ibv_sge slice = into.native();
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = &slice;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  return ibv_post_recv(queue, &request, &refused);
}

/// Up to `count` completions; fewer when `until` passes.
inline std::vector<ibv_wc> c_take(ibv_cq* queue, std::size_t count, deadline until = patiently()) {
  std::vector<ibv_wc> taken;
  ibv_wc one{};
  while (taken.size() < count && !until.expired())
    if (ibv_poll_cq(queue, 1, &one) > 0) taken.push_back(one);
  return taken;
}

/// Takes `count` completions, which must all arrive with success.
inline std::vector<ibv_wc> c_take_good(ibv_cq* queue, std::size_t count) {
  auto taken = c_take(queue, count);
  require(taken.size() == count, "completions do not come");
  for (const ibv_wc& each : taken) require(each.status == IBV_WC_SUCCESS, "a completion failed");
  return taken;
}

/// Whether `task` ends in a time in which the twin is long done. One that does not is left running:
/// the process is about to end.
template <class Task>
bool ends_in_time(Task task) {
  auto* const over = new std::future<void>(std::async(std::launch::async, std::move(task)));
  return over->wait_for(300ms) == std::future_status::ready;
}

}  // namespace verbena::zoo
