// SPDX-License-Identifier: MIT
#include "src/verbs/rxe_defects.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "verbena/base/log.hpp"
#include "verbena/verbs/device_attributes.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

// A function of the provider that all its queues have.
template <class Function>
class provider_function {
 public:
  // Replaces `member` by `with` and stores its value. If an earlier queue had another function, has
  // no effect, because the queue belongs to another provider.
  void replace(Function& member, Function with) noexcept {
    Function expected = nullptr;
    if (member == nullptr || member == with) return;
    if (!kept_.compare_exchange_strong(expected, member) && expected != member) return;
    member = with;
  }
  Function operator*() const noexcept { return kept_.load(); }

 private:
  std::atomic<Function> kept_ = nullptr;
};

provider_function<void (*)(ibv_cq_ex*)> end_poll_of_rxe;
provider_function<int (*)(ibv_cq_ex*)> next_poll_of_rxe;
provider_function<void (*)(ibv_qp_ex*, std::size_t, const ibv_sge*)> set_sge_list_of_rxe;
provider_function<void (*)(ibv_qp_ex*, std::size_t, const ibv_data_buf*)> set_inline_list_of_rxe;

// The queues that this thread polls and whose last poll of the provider has ended.
std::vector<const ibv_cq_ex*>& ended_here() {
  thread_local std::vector<const ibv_cq_ex*> ended;
  return ended;
}

int next_poll(ibv_cq_ex* queue) {
  (*end_poll_of_rxe)(queue);
  ibv_poll_cq_attr attributes{};
  const int code = queue->start_poll(queue, &attributes);
  if (code != 0) ended_here().push_back(queue);
  return code;
}

void end_poll(ibv_cq_ex* queue) {
  if (std::erase(ended_here(), queue) == 0) (*end_poll_of_rxe)(queue);
}

void set_sge_list(ibv_qp_ex* queue, std::size_t count, const ibv_sge* list) {
  const std::span all(list, count);
  if (std::ranges::all_of(all,
                          [&](const ibv_sge& each) { return each.length == all.front().length; })) {
    (*set_sge_list_of_rxe)(queue, count, list);
    return;
  }
  static std::atomic_flag reported;
  if (!reported.test_and_set())
    log(log_level::error,
        "the extended interface of rxe computes a wrong length for a list of slices with different "
        "lengths (rdma-core pull request 1744), so the batch is refused: use with_poster(), or "
        "create the queue pair with .extended = false");
  // The count exceeds every limit, so ibv_wr_complete() returns ENOSPC and posts no request.
  (*set_sge_list_of_rxe)(queue, SIZE_MAX, list);
}

void set_inline_data_list(ibv_qp_ex* queue, std::size_t count, const ibv_data_buf* pieces) {
  std::vector<std::byte> gathered;
  for (const ibv_data_buf& piece : std::span(pieces, count)) {
    const std::span bytes(static_cast<const std::byte*>(piece.addr), piece.length);
    gathered.insert(gathered.end(), bytes.begin(), bytes.end());
  }
  queue->wr_set_inline_data(queue, gathered.data(), gathered.size());
}

}  // namespace

result<bool> is_rxe(const context& device) {
  // RXE_VENDOR_ID of drivers/infiniband/sw/rxe/rxe_param.h; rxe has no part number.
  constexpr std::uint32_t vendor = 0xffffff;
  VERBENA_TRY(const auto attributes, device.query());
  return attributes.vendor_id() == vendor && attributes.vendor_part_id() == 0;
}

void correct_polling(ibv_cq_ex& queue) noexcept {
  end_poll_of_rxe.replace(queue.end_poll, &end_poll);
  if (queue.end_poll == &end_poll) next_poll_of_rxe.replace(queue.next_poll, &next_poll);
}

void correct_lists(ibv_qp_ex& queue) noexcept {
  set_sge_list_of_rxe.replace(queue.wr_set_sge_list, &set_sge_list);
  set_inline_list_of_rxe.replace(queue.wr_set_inline_data_list, &set_inline_data_list);
}

}  // namespace verbena::inline VERBENA_ABI::detail
