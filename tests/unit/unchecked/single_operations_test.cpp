// SPDX-License-Identifier: MIT
// Posting single requests to soft0 allocates nothing, in builds without the checks of the data
// path. The queue pairs are those of the C interface.
#include "verbena/verbs/single_operations.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/verbs/classic_poster.hpp"
#include "verbena/verbs/extended_queue.hpp"

#ifdef VERBENA_CHECKED
#error "this program is compiled without the checks of the data path"
#endif

namespace {
thread_local std::size_t allocations = 0;
}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* made = std::malloc(size); made != nullptr) return made;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace verbena {
namespace {

namespace soft = softdev::testing;

/// A queue pair of the C interface that is connected to itself, and its memory.
struct self_connected {
  explicit self_connected(ibv_qp_type type) : queue(device, request(type)) {
    queue.connect(queue.get()->qp_num, {.rnr_retry = 7});
  }
  static soft::requested_queue_pair request(ibv_qp_type type) {
    soft::requested_queue_pair out;
    out.extended = true;
    out.type = type;
    return out;
  }
  [[nodiscard]] local_slice slice(std::size_t offset, std::size_t length) {
    return local_slice::from_native(memory.slice(offset, length));
  }
  [[nodiscard]] remote_region remote(std::size_t offset, std::size_t length) {
    return remote_region({.address = memory.address() + offset,
                          .length = length,
                          .key = remote_key(memory.mr().rkey)});
  }
  void drain(std::size_t count) {
    for (; count > 0; --count) EXPECT_EQ(device.wait().status, IBV_WC_SUCCESS);
  }

  soft::opened_device device;
  soft::buffer memory{device.pd, 4096};
  soft::queue_pair_handle queue;
};

/// Calls `work(poster)` for both interfaces, expects that this thread allocates nothing in it, and
/// takes its completions.
template <class Transport, class Work>
void expect_no_allocation(self_connected& on, std::size_t completions, Work work) {
  typename classic_poster<Transport>::lists lists;
  classic_poster<Transport> classic(on.queue.get(), lists);
  extended_queue<Transport> extended(on.queue.extended());
  const auto count = [&](auto& poster) {
    const std::size_t before = allocations;
    work(poster);
    EXPECT_EQ(allocations - before, 0U);
    on.drain(completions);
  };
  count(classic);
  count(extended);
}

TEST(single_operations, allocations_are_counted) {
  const std::size_t before = allocations;
  const auto made = std::make_unique<int>(7);
  EXPECT_GT(allocations, before);
  EXPECT_EQ(*made, 7);
}

TEST(single_operations, of_connections_allocate_nothing) {
  self_connected on(IBV_QPT_RC);
  const std::array pieces = {inline_data(bytes_of("in")), inline_data(bytes_of("line"))};
  const std::array slices = {on.slice(0, 8), on.slice(16, 8)};
  expect_no_allocation<rc>(on, 12, [&](auto& poster) {
    const send_request signaled{.signaled = true};
    bool ok = true;
    for (std::uint64_t i = 0; i < 4; ++i)
      ok = ok && poster.post_receive({.id = i}, on.slice(1024 + i * 64, 64));
    ok = ok && poster.post_send(signaled, on.slice(0, 8));
    ok = ok && poster.post_send(signaled, pieces);
    ok = ok && poster.post_send_with_immediate(signaled, 1, slices);
    ok = ok && poster.post_write(signaled, on.slice(0, 8), on.remote(2048, 8));
    ok = ok && poster.post_write_with_immediate(signaled, 1, slices, on.remote(2048, 16));
    ok = ok && poster.post_read(signaled, on.slice(512, 8), on.remote(0, 8));
    ok = ok && poster.post_compare_and_swap(signaled, on.slice(520, 8), on.remote(2056, 8), {1, 2});
    ok = ok && poster.post_fetch_and_add(signaled, on.slice(528, 8), on.remote(2056, 8), 1);
    ASSERT_TRUE(ok);
    // A refusal does not allocate either: only its error() does.
    EXPECT_EQ(
        poster
            .post_send(signaled, std::array{slices[0], slices[0], slices[0], slices[0], slices[0]})
            .code(),
        EINVAL);
  });
}

}  // namespace
}  // namespace verbena
