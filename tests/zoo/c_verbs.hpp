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
#include <thread>
#include <utility>
#include <vector>

#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"
#include "verbena/verbena.hpp"

namespace verbena::zoo {

/// Returns the functions of the C API that are not inline.
inline const sys::verbs_table& c_of(const context& device) { return device.provider().verbs; }

/// Posts a send of `data`, after `change` has modified the request. Returns the result of
/// ibv_post_send(3).
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

/// Posts a receive. Returns the result of ibv_post_recv(3).
inline int c_receive(ibv_qp* queue, std::uint64_t id, const local_slice& into) {
  ibv_sge slice = into.native();
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = &slice;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  return ibv_post_recv(queue, &request, &refused);
}

/// Polls until `count` completions have arrived or `until` has expired.
inline std::vector<ibv_wc> c_take(ibv_cq* queue, std::size_t count,
                                  deadline until = long_deadline()) {
  std::vector<ibv_wc> taken;
  ibv_wc one{};
  while (taken.size() < count && !until.expired())
    if (ibv_poll_cq(queue, 1, &one) > 0) taken.push_back(one);
  return taken;
}

/// Polls `count` completions. Fails the entry if one is missing or failed.
inline std::vector<ibv_wc> c_take_successful(ibv_cq* queue, std::size_t count) {
  auto taken = c_take(queue, count);
  require(taken.size() == count, "completions are missing");
  for (const ibv_wc& each : taken) require(each.status == IBV_WC_SUCCESS, "a completion failed");
  return taken;
}

/// Returns whether `task` ends within 300 ms. The thread is detached: if the task does not end, it
/// ends with the process.
template <class Task>
bool ends_in_time(Task task) {
  std::packaged_task<void()> work(std::move(task));
  const auto over = work.get_future();
  std::thread(std::move(work)).detach();
  return over.wait_for(300ms) == std::future_status::ready;
}

}  // namespace verbena::zoo
