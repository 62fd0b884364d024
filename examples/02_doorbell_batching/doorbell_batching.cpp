// SPDX-License-Identifier: MIT
// Many small writes, posted individually and in batches. A batch requires one call and one
// doorbell, and only its last request is signaled.
#include <verbena/verbena.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

namespace {

constexpr std::size_t rows = 4096;
constexpr std::size_t row_bytes = 8;
constexpr std::size_t batch_size = 16;

struct table {
  verbena::queue_pair<verbena::rc> qp;
  verbena::completion_queue cq;
  verbena::memory_region from;
  verbena::memory_region to;
};

table set_up() {
  auto context = verbena::open_device().value();
  auto pd = context.allocate_pd().value();
  auto cq = context.create_cq(batch_size).value();
  // The peer, here the queue pair itself, may write to the memory.
  auto prepared = pd.create_qp<verbena::rc>(
                        cq, cq,
                        {.queues = {.max_send_wr = batch_size},
                         .access = verbena::access::local_write | verbena::access::remote_write})
                      .value();
  const auto self = prepared.endpoint();
  return {
      std::move(prepared).handshake(self).value(), cq,
      pd.allocate(rows * row_bytes, verbena::access::local_write).value(),
      pd.allocate(rows * row_bytes, verbena::access::local_write | verbena::access::remote_write)
          .value()};
}

// Waits for one completion. All earlier requests of the send queue have then completed.
void wait(const verbena::completion_queue& cq) {
  std::array<verbena::completion, 1> done;
  while (cq.poll(done).value().empty()) {
  }
  done[0].result().value();
}

// Writes all rows in batches of `together` rows. Returns the time per row.
double write_rows(table& t, std::size_t together) {
  const auto began = std::chrono::steady_clock::now();
  for (std::size_t row = 0; row < rows; row += together) {
    auto batch = t.qp.start_send<batch_size>();
    for (std::size_t i = row; i < row + together; ++i)
      batch.write({.id = i, .signaled = i + 1 == row + together},
                  t.from.slice(i * row_bytes, row_bytes),
                  t.to.remote().slice(i * row_bytes, row_bytes));
    batch.submit().value();
    wait(t.cq);
  }
  const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - began;
  return spent.count() / static_cast<double>(rows);
}

}  // namespace

int main() {
  table t = set_up();
  for (const std::size_t together : {std::size_t{1}, batch_size}) {
    std::ranges::fill(t.from.bytes(), static_cast<std::byte>(together));
    const double nanoseconds = write_rows(t, together);
    std::printf("%2zu writes a batch: %6.0f ns a write\n", together, nanoseconds);
    if (!std::ranges::equal(t.from.bytes(), t.to.bytes())) return 1;
  }
  return 0;
}
