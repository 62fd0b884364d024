// SPDX-License-Identifier: MIT
// A fake queue pair of the C API, which records the posted requests.
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstddef>
#include <vector>

namespace verbena::test {

class fake_queue {
 public:
  struct posted_send {
    ibv_send_wr request;
    std::vector<ibv_sge> slices;
  };
  struct posted_receive {
    ibv_recv_wr request;
    std::vector<ibv_sge> slices;
  };

  fake_queue() {
    context_.ops.post_send = &post_send;
    context_.ops.post_recv = &post_receive;
    queue_.native.context = &context_;
    queue_.owner = this;
  }
  fake_queue(const fake_queue&) = delete;
  fake_queue& operator=(const fake_queue&) = delete;
  ~fake_queue() = default;

  [[nodiscard]] ibv_qp* native() noexcept { return &queue_.native; }

  /// The failures of providers that do not set `bad_wr` to a request.
  enum class failure { none, of_the_doorbell, of_an_unsupported_operation };

  /// The index of the request that is refused with ENOMEM.
  std::size_t room = 1000;
  failure failing = failure::none;
  std::size_t calls = 0;
  std::vector<posted_send> sends;
  std::vector<posted_receive> receives;

 private:
  struct owned {
    ibv_qp native{};
    fake_queue* owner = nullptr;
  };
  static fake_queue& owner_of(ibv_qp* queue) { return *reinterpret_cast<owned*>(queue)->owner; }

  static int post_send(ibv_qp* queue, ibv_send_wr* list, ibv_send_wr** bad) {
    fake_queue& self = owner_of(queue);
    return self.take(list, bad, self.sends);
  }
  static int post_receive(ibv_qp* queue, ibv_recv_wr* list, ibv_recv_wr** bad) {
    fake_queue& self = owner_of(queue);
    return self.take(list, bad, self.receives);
  }
  template <class Request, class Posted>
  int take(Request* list, Request** bad, std::vector<Posted>& out) {
    ++calls;
    if (failing == failure::of_an_unsupported_operation) return EOPNOTSUPP;
    for (; list != nullptr; list = list->next) {
      if (out.size() == room) {
        *bad = list;
        return ENOMEM;
      }
      out.push_back({*list, {list->sg_list, list->sg_list + list->num_sge}});
    }
    if (failing == failure::none) return 0;
    *bad = nullptr;  // like rxe: all requests are in the queue
    return EIO;
  }

  ibv_context context_{};
  owned queue_;
};

}  // namespace verbena::test
