// SPDX-License-Identifier: MIT
// Two processes over scalable reliable datagrams (SRD), the transport of Elastic Fabric Adapters: a
// client sends a message, and writes and reads the server's memory; the server replies. To run it
// without an EFA, set VERBENA_SOFTDEV_PERSONA=efa. Not tested on EFA hardware.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <verbena/efa/srd.hpp>
#include <verbena/verbena.hpp>

namespace {

namespace bringup = verbena::bringup;

constexpr verbena::queue_key key(0x1234);  // the Q_Key of both sides
constexpr std::uint32_t written = 7;       // immediate data of the write

verbena::deadline time_limit() { return verbena::deadline::after(std::chrono::seconds(20)); }

// The address of a side, and its memory for remote access.
struct introduction {
  verbena::endpoint endpoint;
  verbena::remote_region memory;

  [[nodiscard]] std::vector<std::byte> encode() const {
    std::vector<std::byte> bytes;
    std::ranges::copy(endpoint.encode(), std::back_inserter(bytes));
    std::ranges::copy(memory.encode(), std::back_inserter(bytes));
    return bytes;
  }
  static introduction decode(std::span<const std::byte> bytes) {
    constexpr std::size_t first = verbena::endpoint::encoded_size;
    return {verbena::endpoint::decode(bytes.first(std::min(first, bytes.size()))).value(),
            verbena::remote_region::decode(bytes.subspan(std::min(first, bytes.size()))).value()};
  }
};

// [open]
struct side {
  verbena::context context = verbena::open_device().value();
  verbena::protection_domain pd = context.allocate_pd().value();
  verbena::completion_queue cq = context.create_cq(16).value();
  verbena::prepared_queue_pair<verbena::efa::srd> prepared =
      pd.create_qp<verbena::efa::srd>(cq, cq, {.queues = {.max_send_wr = 8}}).value();
  verbena::endpoint endpoint = prepared.endpoint();  // the address for peers
  verbena::queue_pair<verbena::efa::srd> qp = std::move(prepared).activate(key).value();
  verbena::memory_region memory =
      pd.allocate(4096, verbena::access::local_write | verbena::access::remote_write |
                            verbena::access::remote_read)
          .value();
  // [/open]

  [[nodiscard]] introduction introduce() const { return {endpoint, memory.remote()}; }

  // [way]
  [[nodiscard]] verbena::address_handle way_to(const verbena::endpoint& peer) const {
    return pd.create_ah({.gid = peer.gid, .source_gid_index = verbena::gid_index(0)}).value();
  }
  // [/way]

  void put(std::size_t at, std::string_view text) const {
    std::ranges::copy(verbena::bytes_of(text), memory.bytes().subspan(at).begin());
  }
  [[nodiscard]] bool has(std::size_t at, std::string_view text) const {
    return std::ranges::equal(memory.bytes().subspan(at, text.size()), verbena::bytes_of(text));
  }
  // Waits for the next completion. Completions may have another order than the requests.
  [[nodiscard]] verbena::completion wait() const {
    std::array<verbena::completion, 1> room;
    static_cast<void>(cq.wait(room, time_limit()).value());
    if (!room[0].ok()) throw std::runtime_error(qp.describe(room[0]).message());
    return room[0];
  }
};

bool serve(bringup::listener& listener) {
  side me;
  // [receive]
  // SRD has no GRH: the message begins at the first byte.
  me.qp.post_receive({}, me.memory.slice(0, 64)).value();
  me.qp.post_receive({}, me.memory.slice(64, 64)).value();
  // [/receive]
  auto stream = listener.accept(time_limit()).value();
  const auto client =
      introduction::decode(stream.exchange(me.introduce().encode(), time_limit()).value());

  bool message = false;
  bool write = false;
  for (int i = 0; i < 2; ++i) {
    const auto done = me.wait();
    if (done.immediate() == written)
      write = me.has(1024, "written");
    else
      message = done.byte_length() == 5 && (me.has(0, "hello") || me.has(64, "hello"));
  }

  me.put(2048, "answer");
  const auto way = me.way_to(client.endpoint);
  auto queue = me.qp.extended().value();
  auto batch = queue.start_send();
  batch.send({}, me.memory.slice(2048, 6), way.destination(client.endpoint.queue_pair, key));
  batch.submit().value();
  static_cast<void>(me.wait());
  stream.exchange({}, time_limit()).value();  // the client reads until it sends this
  return message && write;
}

bool ask(std::uint16_t port) {
  side me;
  me.qp.post_receive({.id = 9}, me.memory.slice(0, 64)).value();
  auto stream = bringup::stream::connect({.host = "127.0.0.1", .port = port}, time_limit()).value();
  const auto server =
      introduction::decode(stream.exchange(me.introduce().encode(), time_limit()).value());
  me.put(1024, "hello");
  me.put(1100, "written");

  // [post]
  const auto way = me.way_to(server.endpoint);
  const auto to = way.destination(server.endpoint.queue_pair, key);
  auto queue = me.qp.extended().value();
  auto batch = queue.start_send();
  batch.send({.id = 1}, me.memory.slice(1024, 5), to);
  batch.write_with_immediate({.id = 2}, written, me.memory.slice(1100, 7),
                             server.memory.slice(1024, 7), to);
  batch.submit().value();
  // [/post]

  bool answered = false;
  for (int sent = 0; sent < 2;) {
    const auto done = me.wait();
    if (done.id() == 9)
      answered = true;
    else
      ++sent;
  }
  // A read may overtake a write, so the write has completed before this read is posted.
  auto again = queue.start_send();
  again.read({.id = 3}, me.memory.slice(2048, 7), server.memory.slice(1024, 7), to);
  again.submit().value();
  for (bool read = false; !read || !answered;) {
    if (me.wait().id() == 9)
      answered = true;
    else
      read = true;
  }
  stream.exchange({}, time_limit()).value();
  return me.has(0, "answer") && me.has(2048, "written");
}

}  // namespace

int main() try {
  auto listener = bringup::listener::open({.host = "127.0.0.1"}).value();
  const pid_t other = ::fork();  // before a device is opened
  if (other == 0) return ask(listener.port()) ? 0 : 1;
  const bool served = other > 0 && serve(listener);
  int status = 0;
  const bool asked = ::waitpid(other, &status, 0) == other && status == 0;
  std::printf("server %s, client %s\n", served ? "served" : "failed", asked ? "served" : "failed");
  return served && asked ? 0 : 1;
} catch (const std::exception& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return 1;
}
