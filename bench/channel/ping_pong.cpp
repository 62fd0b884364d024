// SPDX-License-Identifier: MIT
// Measures the round trip of an 8-byte message between two processes on the software device:
// `channel_ping_pong raw|scoped`. Both variants wait for the completion of each send. `raw` calls
// ibv_post_send, ibv_post_recv and ibv_poll_cq on the queues of a channel. Checks the received
// bytes and prints the time of a round trip in nanoseconds.
#include <infiniband/verbs.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include "bench/local/measure.hpp"
#include "bench/local/process_pair.hpp"
#include "verbena/verbena.hpp"

namespace {

using bench::fail;
using bench::process_pair;

constexpr bench::repetitions times{.chunks = 50, .per_chunk = 1000};
constexpr std::size_t size = 8;
const verbena::abort_at never;

verbena::channel connect(const process_pair& pair, const verbena::protection_domain& pd) {
  auto prepared = pd.create_channel({}).value();
  pair.send(prepared.endpoint().encode());
  std::array<std::byte, verbena::endpoint::encoded_size> bytes{};
  pair.receive(bytes);
  return std::move(prepared).handshake(verbena::endpoint::decode(bytes).value()).value();
}

struct side {
  explicit side(const process_pair& pair)
      : context(verbena::open_device("soft0").value()),
        pd(context.allocate_pd().value()),
        region(pd.allocate(4096, verbena::access::local_write).value()),
        channel(connect(pair, pd)) {}

  verbena::context context;
  verbena::protection_domain pd;
  verbena::memory_region region;
  verbena::channel channel;

  void fill(std::uint64_t number) const {
    std::memcpy(region.bytes().data(), &number, sizeof number);
  }
  void check(std::uint64_t number) const {
    std::uint64_t there = 0;
    std::memcpy(&there, region.bytes().data() + 64, sizeof there);
    if (there != number) fail("another message than the one that was sent");
  }
};

// Exchanges the numbers 1, 2, … with the other process. The parent sends each number, receives it
// back, and returns the median time in nanoseconds. The child receives first and returns 0.
template <class Send, class Receive>
double run(const process_pair& pair, Send&& send, Receive&& receive) {
  std::uint64_t number = 0;
  pair.meet();  // both processes have posted their first receive
  if (pair.is_child()) {
    while (number < times.total()) {
      receive(++number);
      send(number);
    }
    pair.meet();
    return 0;
  }
  const double spent = bench::median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      send(++number);
      receive(number);
    }
  });
  pair.meet();
  return spent;
}

ibv_qp* native_queue(verbena::channel& of) {
  const auto* const queue = of.qp();
  if (queue == nullptr) fail("a channel that was just made has a queue pair");
  return queue->native();
}

class raw_side {
 public:
  explicit raw_side(side& of)
      : queue_(native_queue(of.channel)),
        out_(of.region.slice(0, size).native()),
        in_(of.region.slice(64, size).native()) {}

  void post_receive() {
    ibv_sge piece = in_;
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    wr.sg_list = &piece;
    wr.num_sge = 1;
    if (ibv_post_recv(queue_, &wr, &bad) != 0) fail("ibv_post_recv");
  }
  void send() {
    ibv_sge piece = out_;
    ibv_send_wr wr{};
    ibv_send_wr* bad = nullptr;
    wr.wr_id = 1;
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (ibv_post_send(queue_, &wr, &bad) != 0) fail("ibv_post_send");
    while (sent_ == 0) poll();
    --sent_;
  }
  void receive() {
    while (received_ == 0) poll();
    --received_;
  }

 private:
  void poll() {
    ibv_wc wc;
    const int found = ibv_poll_cq(queue_->send_cq, 1, &wc);
    if (found == 0) return;
    if (found < 0 || wc.status != IBV_WC_SUCCESS) fail("ibv_poll_cq");
    ++(wc.wr_id == 1 ? sent_ : received_);
  }

  ibv_qp* queue_;
  ibv_sge out_;
  ibv_sge in_;
  unsigned sent_ = 0;
  unsigned received_ = 0;
};

double raw(const process_pair& pair) {
  side mine(pair);
  raw_side queues(mine);
  const auto receive = [&](std::uint64_t number) {
    queues.receive();
    mine.check(number);
    queues.post_receive();
  };
  const auto send = [&](std::uint64_t number) {
    mine.fill(number);
    queues.send();
  };
  queues.post_receive();
  return run(pair, send, receive);
}

double scoped(const process_pair& pair) {
  side mine(pair);
  const verbena::source from(mine.region, 0, size);
  double spent = 0;
  const auto outcome = mine.channel.scope(never, [&](verbena::operation_scope& scope) {
    auto incoming = scope.receive(verbena::sink(mine.region, 64, size));
    const auto receive = [&](std::uint64_t number) {
      if (!incoming.wait().has_value()) fail("a receive failed");
      mine.check(number);
      if (number < times.total()) incoming = scope.receive(incoming.take_sink());
    };
    const auto send = [&](std::uint64_t number) {
      mine.fill(number);
      if (!scope.send(from).wait().has_value()) fail("a send failed");
    };
    spent = run(pair, send, receive);
  });
  if (!outcome) fail("an operation failed");
  return spent;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view mode = argc == 2 ? argv[1] : "";
  if (mode != "raw" && mode != "scoped") fail("usage: channel_ping_pong raw|scoped");
  const process_pair pair = process_pair::start();
  const double spent = mode == "raw" ? raw(pair) : scoped(pair);
  if (pair.is_parent()) std::printf("%.1f\n", spent);
  std::fflush(stdout);
  return pair.finish();
} catch (const std::exception& problem) {
  fail(problem.what());
}
