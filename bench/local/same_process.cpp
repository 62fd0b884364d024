// SPDX-License-Identifier: MIT
// Measures the time from post to completion of 8 bytes between two queue pairs of one process:
//   same_process soft0|null write    RDMA WRITE
//   same_process soft0|null send     SEND and receive: two posts, two completions
// Runs the same code on soft0 and on the null provider, and prints nanoseconds.
#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string_view>
#include <utility>

#include "bench/local/measure.hpp"
#include "bench/local/process_pair.hpp"
#include "bench/null_provider/null_provider.h"
#include "verbena/verbena.hpp"

namespace {

using bench::fail;

constexpr std::uint32_t message_bytes = 8;

// Structs of verbs.h for the loops.
struct queue_pairs {
  ibv_qp* sender;
  ibv_qp* receiver;
  ibv_cq* sends;
  ibv_cq* receives;
  ibv_sge source;
  ibv_sge target;
  std::uint32_t target_rkey;
};

void check(int code, const char* call) {
  if (code != 0) fail(call);
}

void wait_for(ibv_cq* cq) {
  ibv_wc done;
  while (ibv_poll_cq(cq, 1, &done) == 0) {
  }
  if (done.status != IBV_WC_SUCCESS) fail("a request failed");
}

void post(const queue_pairs& on, ibv_wr_opcode opcode) {
  ibv_sge data = on.source;
  ibv_send_wr request;
  request.wr_id = 1;
  request.next = nullptr;
  request.sg_list = &data;
  request.num_sge = 1;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = on.target.addr;
  request.wr.rdma.rkey = on.target_rkey;
  ibv_send_wr* bad = nullptr;
  check(ibv_post_send(on.sender, &request, &bad), "ibv_post_send");
}

void write_once(const queue_pairs& on) {
  post(on, IBV_WR_RDMA_WRITE);
  wait_for(on.sends);
}

void send_once(const queue_pairs& on) {
  ibv_sge room = on.target;
  ibv_recv_wr receive;
  receive.wr_id = 1;
  receive.next = nullptr;
  receive.sg_list = &room;
  receive.num_sge = 1;
  ibv_recv_wr* bad_receive = nullptr;
  check(ibv_post_recv(on.receiver, &receive, &bad_receive), "ibv_post_recv");
  post(on, IBV_WR_SEND);
  wait_for(on.receives);
  wait_for(on.sends);
}

using operation = void (*)(const queue_pairs& on);

double measure(const queue_pairs& on, operation once) {
  constexpr bench::repetitions times{.chunks = 51, .per_chunk = 20'000};
  const auto chunk = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) once(on);
  };
  chunk(times.per_chunk);
  return bench::median_ns(times, chunk);
}

double on_soft0(operation once) {
  using namespace verbena;
  constexpr auto peer_access = access::remote_write | access::remote_read;
  const auto device = open_device("soft0").value();
  const auto pd = device.allocate_pd().value();
  const auto sends = device.create_cq(64).value();
  const auto receives = device.create_cq(64).value();
  std::array<std::byte, 4096> memory{};
  const auto region = pd.register_memory(memory, access::local_write | peer_access).value();
  auto first = pd.create_qp<rc>(sends, sends, {.access = peer_access}).value();
  auto second = pd.create_qp<rc>(receives, receives, {.access = peer_access}).value();
  const auto number_of_first = first.endpoint();
  const auto sender = std::move(first).handshake(second.endpoint()).value();
  const auto receiver = std::move(second).handshake(number_of_first).value();
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  return measure(
      {.sender = sender.native(),
       .receiver = receiver.native(),
       .sends = sends.native(),
       .receives = receives.native(),
       .source = {.addr = at, .length = message_bytes, .lkey = region.native()->lkey},
       .target = {.addr = at + 2048, .length = message_bytes, .lkey = region.native()->lkey},
       .target_rkey = region.native()->rkey},
      once);
}

// The objects live until the program ends.
double on_null_provider(operation once) {
  static std::array<std::byte, 4096> memory{};
  ibv_context* const context = null_open();
  ibv_pd* const pd = null_create_pd(context);
  ibv_cq* const sends = null_create_cq(context);
  ibv_cq* const receives = null_create_cq(context);
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  return measure({.sender = null_create_qp(pd, sends),
                  .receiver = null_create_qp(pd, receives),
                  .sends = sends,
                  .receives = receives,
                  .source = {.addr = at, .length = message_bytes, .lkey = null_local_key},
                  .target = {.addr = at + 2048, .length = message_bytes, .lkey = null_local_key},
                  .target_rkey = null_remote_key},
                 once);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view device = argc == 3 ? argv[1] : "";
  const std::string_view name = argc == 3 ? argv[2] : "";
  if ((device != "soft0" && device != "null") || (name != "write" && name != "send")) {
    std::fputs("usage: same_process soft0|null write|send\n", stderr);
    return 2;
  }
  const operation once = name == "write" ? &write_once : &send_once;
  try {
    std::printf("%.3f\n", device == "soft0" ? on_soft0(once) : on_null_provider(once));
  } catch (const std::exception& problem) {
    fail(problem.what());
  }
  return 0;
}
